"""Neural style transfer (Gatys, Ecker and Bethge 2016) on a photograph: content from noise, then with a style.

    python examples/style_transfer.py [pictures.png]

The derivative is by the picture: one is found whose features are those of a photograph. Here they are of fixed random
filters, which suffice for this (He, Wang and Hopcroft 2016), where the paper has those of a large trained network.
Needs SciPy, scikit-learn for two photographs, and Pillow, which reads them and writes five pictures side by side: the
photograph, the noise, the photograph from noise, the style, and both together.
"""

import sys
from pathlib import Path

import numpy as np
from layers import convolved, filters, halved, relu
from PIL import Image
from scipy.optimize import minimize
from sklearn.datasets import load_sample_image
from threadpoolctl import threadpool_limits

import symgrad as sg

STYLE = 2000.0  # what the style counts for beside the content


def features(x, network):
    """Return the features of three layers of filters for a picture x[row, column, colour]."""
    found = []
    x = x[None] - 0.5
    for layer in network:
        x = relu(convolved(x, **layer))
        found.append(x)
        x = halved(x)
    return found


def content_loss(x, network, wanted):
    """Return the squared distance of the features of the second layer from those of the photograph."""
    return np.sum((features(x, network)[1] - wanted) ** 2) / 2


def gram(feature):
    """Return how often two features are in the same place, wherever that is."""
    flat = feature.reshape(-1, feature.shape[-1])
    return flat.T @ flat / len(flat)


def gram_loss(feature, wanted):
    return np.sum((gram(feature) - wanted) ** 2)


def style_loss(x, network, content, grams):
    """The content, as far as it leaves the features as often together as those of the style are."""
    found = features(x, network)
    apart = sum(gram_loss(feature, g) for feature, g in zip(found, grams, strict=True))
    return np.sum((found[1] - content) ** 2) / 2 + STYLE * apart


def photograph(name, size):
    """The middle of one of scikit-learn's photographs as numbers from 0 to 1."""
    picture = Image.fromarray(load_sample_image(name)[:, 106:533])
    return np.asarray(picture.resize((size, size), Image.Resampling.LANCZOS)) / 255


def descend(loss, start, *args, steps):
    """L-BFGS within the colours that there are."""
    problem = sg.to_scipy(loss, start, args=args)
    bounds, options = [(0, 1)] * start.size, {"maxiter": steps}
    result = minimize(problem.fun, problem.x0, jac=problem.jac, method="L-BFGS-B", bounds=bounds, options=options)
    print(f"{loss.__name__}: from {problem.fun(problem.x0):.5f} to {result.fun:.5f} in {result.nit} steps")
    return problem.unravel(result.x)


@threadpool_limits.wrap(limits=1, user_api="blas")  # its products are small
def main(path=None, size=96, steps=60):
    rng = np.random.default_rng(0)
    network = [filters(rng, 3, 16), filters(rng, 16, 32), filters(rng, 32, 32)]
    content, style = photograph("china.jpg", size), photograph("flower.jpg", size)
    noise = rng.uniform(size=content.shape)
    wanted = features(content, network)[1]
    recovered = descend(content_loss, noise, network, wanted, steps=steps)
    grams = [gram(f) for f in features(style, network)]
    mixed = descend(style_loss, noise, network, wanted, grams, steps=steps)
    off = [np.mean(abs(x - content)) for x in (noise, recovered)]
    print(f"a colour of a pixel is off by {off[0]:.3f} in the noise, by {off[1]:.3f} in what was found\n")
    print(sg.grad(gram_loss).source("float64[1, rows, cols, k]", "float64[k, k]", optimize=1))
    if path:
        strip = np.hstack([content, noise, recovered, style, mixed])
        Image.fromarray(np.rint(255 * strip).astype(np.uint8)).save(Path(path))
    return off


if __name__ == "__main__":
    main(*sys.argv[1:])
