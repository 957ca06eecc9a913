"""Recipes for people who come from PyTorch, point by point, on a small network with two heads.

    python examples/from_pytorch.py

The same points stand beside PyTorch's code in docs/coming_from/pytorch.md.
"""

import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
from optree import tree_map

import symgrad as sg

SIZES = {"base": (4, 6), "kind": (6, 3), "sign": (6,)}


def specs(n="n"):
    """Weights, points, and for each point its kind as one row of an identity and a sign."""
    params = {name: f"float64[{', '.join(map(str, size))}]" for name, size in SIZES.items()}
    return params, f"float64[{n}, 4]", f"float64[{n}, 3]", f"float64[{n}]"


def data(n=12):
    """Such weights and points."""
    rng = np.random.default_rng(0)
    params = {name: rng.normal(scale=0.5, size=size) for name, size in SIZES.items()}
    x = rng.normal(size=(n, 4))
    return params, x, np.eye(3)[np.argmax(x[:, :3], axis=1)], np.sign(x[:, 3])


def features(params, x):
    return sg.name(np.tanh(x @ params["base"]), "h")


def of_kind(params, h, kinds):
    """Cross-entropy of the first head."""
    scores = h @ params["kind"]
    logs = scores - np.log(np.sum(np.exp(scores), axis=1, keepdims=True))
    return -np.mean(np.sum(kinds * logs, axis=1))


def of_sign(params, h, signs):
    """Logistic loss of the second head."""
    margin = signs * (h @ params["sign"])
    return np.mean(np.log(1 + np.exp(-margin)))


def losses(params, x, kinds, signs):
    """One forward pass, and what the two heads make of it."""
    h = features(params, x)
    return of_kind(params, h, kinds), of_sign(params, h, signs)


def kind_loss(params, x, kinds, signs):
    return losses(params, x, kinds, signs)[0]


def sign_loss(params, x, kinds, signs):
    return losses(params, x, kinds, signs)[1]


def requires_grad():
    """Dependencies are a question to the graph: which values named in the program follow from an input."""
    program = sg.trace(losses, *specs())
    graph = program.graph
    found = {}
    for name, variable in program.inputs["params"].items():
        below = nx.descendants(graph.dag, variable.node)
        found[name] = [graph.names[node] for node in graph.nodes if node in below and node in graph.names]
        print(f"{name}: {', '.join(found[name])}")
    return found


def frozen_base():
    """Only what `wrt` names is differentiated: the frozen layer has a forward line and no derivative."""
    source = sg.grad(kind_loss, wrt="params.kind").source(*specs(), optimize=1)
    print(source)
    return source


def detached():
    """Semi-gradient of a value function: the target that it moves towards counts as a constant."""
    rng = np.random.default_rng(1)
    w, now, later, reward = rng.normal(size=3), rng.normal(size=(8, 3)), rng.normal(size=(8, 3)), rng.normal(size=8)

    def error(w):
        return np.mean((now @ w - (reward + 0.9 * sg.stop_gradient(later @ w))) ** 2)

    found, expected = sg.grad(error)(w), 2 / 8 * (now @ w - reward - 0.9 * later @ w) @ now
    print(f"{found} is {expected}")
    return found, expected


def inner_gradients():
    """By arguments, by parts of them and by values inside, together."""
    params, *rest = data()
    base, h = sg.grad(kind_loss, wrt=["params.base", "h"])(params, *rest)
    print(f"d_base {base.shape}, d_h {h.shape}")
    return base, h


def hooked():
    """Domain-adversarial features: good for the kind, and as bad as possible for the sign."""

    def adversarial(params, x, kinds, signs):
        h = features(params, x)
        return of_kind(params, h, kinds) + of_sign(params, sg.on_gradient(h, lambda g: -0.3 * g), signs)

    arguments = data()
    found = sg.grad(adversarial)(*arguments)
    kind, sign = sg.grad(kind_loss)(*arguments), sg.grad(sign_loss)(*arguments)
    expected = {"base": kind["base"] - 0.3 * sign["base"], "kind": kind["kind"], "sign": sign["sign"]}
    print(f"off by {max(np.max(np.abs(found[name] - expected[name])) for name in SIZES):.0e}")
    return found, expected


def looked_at():
    """A hook has no numbers to print, but can keep what it is given, and the program can return it."""

    def step(params, x, kinds, signs):
        seen = {}

        def look(g):
            seen["d_h"] = g
            return g

        def loss(params):
            return of_kind(params, sg.on_gradient(features(params, x), look), kinds)

        return sg.grad(loss)(params), seen["d_h"]

    _, d_h = sg.compile(step)(*data())
    print(f"cotangents of h between {d_h.min():.3f} and {d_h.max():.3f}")
    return d_h


def backward_of_a_vector():
    """`y.backward(v)` is the pullback; it may be called again, with another v."""
    params, x, *_ = data(2)
    logits, pullback = sg.vjp(scores, params, x)
    first, second = np.zeros((2, 2, 3))
    first[0, 0] = second[1, 2] = 1.0
    rows = [pullback(v)[0]["base"] for v in (first, second)]
    jacobian = sg.jacobian(scores)(params, x)["base"]
    print(f"rows of the Jacobian: {np.allclose(rows[0], jacobian[0, 0])}, {np.allclose(rows[1], jacobian[1, 2])}")
    return logits, rows, jacobian


def both_gradients(params, x, kinds, signs):
    """Two losses of one forward pass, and the gradient of each."""
    arguments = params, x, kinds, signs
    return sg.grad(kind_loss)(*arguments), sg.grad(sign_loss)(*arguments)


def two_losses():
    """One graph holds both gradients: the forward pass is written once, and no `retain_graph` keeps it alive.

    What is large is released behind the last line that reads it, here of 100,000 points.
    """
    source = sg.compile(both_gradients).source(*specs(100_000), optimize=1)
    print(source)
    return source


def penalised(params, x, kinds, signs):
    """A loss that holds a gradient: `create_graph` needs no mention."""
    by_x = sg.grad(kind_loss, argnums=1)(params, x, kinds, signs)
    return kind_loss(params, x, kinds, signs) + 0.1 * np.sum(by_x**2)


def higher_orders():
    arguments = data(5)
    sg.check_grads(lambda params: penalised(params, *arguments[1:]), arguments[:1], order=1, modes=["rev"])
    third = sg.grad(sg.grad(sg.grad(np.tanh)))(0.5)
    print(f"gradient penalty agrees with finite differences; third derivative of tanh at 0.5: {third:.6f}")
    return third


def accumulated():
    """Gradients are values: add them up, and begin the next step with zeros. There is no `.grad` to clear."""
    params, *rest = data()
    gradient = sg.grad(kind_loss)
    total = tree_map(np.zeros_like, params)
    for i in range(0, 12, 4):
        part = gradient(params, *[array[i : i + 4] for array in rest])
        total = tree_map(lambda a, b: a + b / 3, total, part)
    whole = gradient(params, *rest)
    print(f"off by {max(np.max(np.abs(total[name] - whole[name])) for name in SIZES):.0e}")
    return total, whole


def smoothed(x):
    """Values that are written over others, which a derivative needs."""
    y = np.tanh(x)
    y[1:] += 0.5 * y[:-1]
    y *= y
    return np.sum(y[2:])


def in_place():
    """Overwriting a value after it was read is no error and gives no wrong number: each write makes a new value."""
    x = np.linspace(-1, 1, 5)
    sg.check_grads(smoothed, (x,))
    print("gradients through += and *= agree with finite differences")
    print(sg.grad(smoothed).source("float64[n]", optimize=1))
    return sg.grad(smoothed)(x)


def scores(params, x):
    return features(params, x) @ params["kind"]


def inference():
    """A function that is not differentiated has no derivative, and records nothing when it runs."""
    source = sg.compile(scores).source(*specs()[:2], optimize=1)
    print(source)
    return source


def deployed(folder):
    """The graph of the training, of which a file takes what the prediction needs."""
    g = sg.Graph()
    x, kinds = g.input("x", "float64[n, 4]"), g.input("kinds", "float64[n, 3]")
    params = {name: g.input(name, specs()[0][name]) for name in ("base", "kind")}
    h = features(params, x)
    loss = of_kind(params, h, kinds)
    best = np.argmax(h @ params["kind"], axis=1)  # the same node as in the loss
    training = sg.function([x, kinds, *params.values()], [loss, *sg.gradients(loss, list(params.values()))])
    prediction = sg.function([x, *params.values()], best, optimize=1)
    path = prediction.save(Path(folder) / "predict.py")
    print(f"{len(training.graph.nodes)} nodes train, {len(prediction.graph.nodes)} predict:")
    print(prediction.source)
    return training, prediction, path


POINTS = {
    "requires_grad: what depends on what": requires_grad,
    "A frozen base": frozen_base,
    "detach": detached,
    "Gradients of leaves and of values inside": inner_gradients,
    "Hooks: a reversed gradient": hooked,
    "Hooks: looking at a gradient": looked_at,
    "backward(v)": backward_of_a_vector,
    "Two losses, one forward pass, no retain_graph": two_losses,
    "create_graph": higher_orders,
    "Gradients accumulated over mini-batches": accumulated,
    "In-place operations": in_place,
    "Inference": inference,
}


def main():
    for title, show in POINTS.items():
        print(f"\n---- {title}\n")
        show()
    print("\n---- Deployment\n")
    with tempfile.TemporaryDirectory() as folder:
        deployed(folder)


if __name__ == "__main__":
    main()
