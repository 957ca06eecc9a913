"""A convolution network with two heads: is there a cat? is there a car? One loss each, on one shared part.

    python examples/two_heads.py

A tape is used up by the first loss's backward pass, unless `retain_graph=True` keeps it. Here both losses and both
gradients are results of one program: it computes the shared part once, and lets go of what nothing needs any more.
The data are made: small drawings of cats, cars, houses and trees in noise, at random places, some of them mirrored.
"""

import numpy as np
from layers import Adam, convolved, dense, filters, halved, minibatches, relu
from optree import tree_leaves
from threadpoolctl import threadpool_limits

import symgrad as sg

DRAWINGS = {
    "cat": ["#.....#", "##...##", "#######", "#.###.#", "#######", ".##.##.", "..###.."],
    "car": [".......", "..###..", ".##.##.", "#######", "#######", ".##.##.", "......."],
    "house": ["...#...", "..###..", ".#####.", "#######", ".##.##.", ".##.##.", ".##.##."],
    "tree": ["..###..", ".#####.", ".#####.", "..###..", "...#...", "...#...", "..###.."],
}
DRAWN = {name: np.array([[c == "#" for c in row] for row in rows], float) for name, rows in DRAWINGS.items()}


def shared(params, x):
    """The features that both heads look at."""
    x = halved(relu(convolved(x, **params["first"])))
    x = halved(relu(convolved(x, **params["second"])))
    return x.reshape(len(x), -1)


def head_loss(params, features, truth):
    """Mean negative log likelihood of a truth by a head's score."""
    score = (features @ params["W"] + params["b"])[:, 0]
    return np.mean(np.log(1 + np.exp(score)) - truth * score)


def cat_loss(params, x, cat, car):
    return head_loss(params["cat"], shared(params["shared"], x), cat)


def car_loss(params, x, cat, car):
    return head_loss(params["car"], shared(params["shared"], x), car)


def together(params, x, cat, car):
    return cat_loss(params, x, cat, car) + car_loss(params, x, cat, car)


def both(params, x, cat, car):
    """Both losses, and the gradient of each: one program."""
    return [sg.value_and_grad(loss)(params, x, cat, car) for loss in (cat_loss, car_loss)]


def pictures(rng, count):
    """Pictures of 16 x 16, each quarter with a drawing or none; whether there is a cat, and a car."""
    x = rng.normal(scale=0.2, size=(count, 16, 16, 1))
    there = rng.random((len(DRAWN), count)) < 0.5
    for i in range(count):
        for k, quarter in zip(np.flatnonzero(there[:, i]), rng.permutation(4), strict=False):
            drawn = list(DRAWN.values())[k][:, :: rng.choice([-1, 1])]
            row, col = 8 * np.array(divmod(quarter, 2)) + rng.integers(0, 2, size=2)
            x[i, row : row + 7, col : col + 7, 0] += rng.uniform(0.7, 1.3) * drawn
    return x, *there[:2].astype(float)


def as_text(x):
    return "\n".join("".join(" .:+#"[int(np.clip(4 * v, 0, 4))] for v in row).rstrip() for row in x[:, :, 0])


def initial(rng):
    layers = {"first": filters(rng, 1, 6), "second": filters(rng, 6, 12)}
    return {"shared": layers, "cat": dense(rng, 4 * 4 * 12, 1), "car": dense(rng, 4 * 4 * 12, 1)}


def train(params, data, rng, epochs, losses):
    """A step by each of the losses on each minibatch, one after the other."""
    steps = [(sg.value_and_grad(loss), Adam(params, 0.01)) for loss in losses]
    for _ in range(epochs):
        for rows in minibatches(rng, len(data[0]), 50):
            for value_and_grad, adam in steps:
                adam.step(params, value_and_grad(params, *(part[rows] for part in data))[1])


def accuracies(params, x, cat, car):
    features = shared(params["shared"], x)
    right = lambda head, truth: np.mean((features @ head["W"] + head["b"] > 0)[:, 0] == truth)
    return right(params["cat"], cat), right(params["car"], car)


def compare(params, data):
    """One program for both gradients against one for each: operations, and whether the two make that of the sum."""
    apart = sum(sg.value_and_grad(loss).compile(params, *data).cost.flops for loss in (cat_loss, car_loss))
    program = sg.compile(both)
    (_, of_cat), (_, of_car) = program(params, *data)
    print(f"both gradients: {program.compile(params, *data).cost.flops / apart:.0%} of the operations of one by one\n")
    pairs = zip(*map(tree_leaves, (of_cat, of_car, sg.grad(together)(params, *data))), strict=True)
    return max(np.max(np.abs(a + b - c)) for a, b, c in pairs)


@threadpool_limits.wrap(limits=1, user_api="blas")  # its products are small
def main(epochs=8, count=1500):
    rng = np.random.default_rng(0)
    test, data = pictures(rng, 500), pictures(rng, count)
    print(as_text(test[0][np.argmax(test[1] * test[2])]))
    difference = compare(initial(rng), [part[:50] for part in data])

    reached = {}
    for name, losses in {"together": [together], "one after the other": [cat_loss, car_loss]}.items():
        params = initial(rng)
        train(params, data, rng, epochs, losses)
        reached[name] = accuracies(params, *test)
        print("trained {}: {:.1%} of cats and {:.1%} of cars right".format(name, *reached[name]))
    specs = initial(rng), "float64[n, 16, 16, 1]", "float64[n]", "float64[n]"
    print(f"\n{sg.compile(both).source(*specs, optimize=1)}")
    return reached, difference


if __name__ == "__main__":
    main()
