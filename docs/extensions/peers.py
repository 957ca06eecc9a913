"""Write docs/peers.json: which public functions of NumPy and SciPy autograd and JAX have, by their modules.

Run it where both are installed: ``python docs/extensions/peers.py``. Of autograd those count that have a derivative or
are said to have none; of JAX, which has no list of what it differentiates, all that it defines. Which of them are
differentiated is tried with the sample calls of the census: one must have a gradient that is finite and not zero.
"""

import inspect
import json
import warnings
from functools import reduce
from importlib import import_module, metadata
from operator import attrgetter
from pathlib import Path

import numpy as np

from symgrad.report.census import found_at
from symgrad.report.samples import WRITES, calls_of

TARGET = Path(__file__).parent.parent / "peers.json"
MODULES = {
    "numpy": ("autograd.numpy", "jax.numpy"),
    "numpy.linalg": ("autograd.numpy.linalg", "jax.numpy.linalg"),
    "numpy.fft": ("autograd.numpy.fft", "jax.numpy.fft"),
    "scipy.special": ("autograd.scipy.special", "jax.scipy.special"),
    "scipy.linalg": ("autograd.scipy.linalg", "jax.scipy.linalg"),
    "scipy.fft": (None, "jax.scipy.fft"),
    "scipy.stats": ("autograd.scipy.stats", "jax.scipy.stats"),
}


def autograds(module):
    """Return the functions of a module of autograd that it can go through."""
    from autograd.core import primitive_vjps
    from autograd.tracer import notrace_primitives

    known = {*primitive_vjps, *(f for found in notrace_primitives.values() for f in found)}
    return [name for name, x in public(module) if x in known or not hasattr(x, "fun")]


def public(module):
    """Return the public functions of a module by name."""
    functions = inspect.getmembers(module, lambda x: callable(x) and not isinstance(x, type))
    return [(name, x) for name, x in functions if not name.startswith("_")]


def densities(module, of):
    """Return the densities of the distributions of a module, such as ``norm.logpdf``."""
    found = []
    for name, distribution in inspect.getmembers(module):
        has = [x for x in ("logpdf", "logpmf", "pdf", "pmf") if hasattr(distribution, x)]
        if not name.startswith("_") and not isinstance(distribution, type):
            found += [f"{name}.{x}" for x in has if of(distribution, x)]
    return found


def has_derivative(distribution, name):
    from autograd.core import primitive_vjps

    function = getattr(distribution, name)
    return function in primitive_vjps or not hasattr(function, "fun")


# ---- by trial


def differentiated(home, names, module, gradients):
    """Return those functions of a module that have a gradient in one of the sample calls."""
    return [name for name in names if is_differentiated(f"{home}.{name}", attrgetter(name)(module), gradients)]


def is_differentiated(path, function, gradients):
    try:
        calls = calls_of(path, found_at(path))
    except AttributeError:  # NumPy, or SciPy, has no such function
        return False
    options = {"inplace": False} if path in WRITES else {}
    return any(has_gradient(function, arguments, options, gradients) for arguments in calls)


def has_gradient(function, arguments, options, gradients):
    values = []
    template = filled(arguments, values)
    floating = [i for i, x in enumerate(values) if x.dtype.kind in "fc"]

    def call(*xs):
        given = iter([xs[floating.index(i)] if i in floating else x for i, x in enumerate(values)])
        return function(*template(given), **options)

    try:
        found = [np.asarray(g) for g in gradients(call, [values[i] for i in floating])]
    except Exception:  # whatever it raises: it takes other arguments, or has no derivative
        return False
    return any(g.dtype.kind in "fc" and np.all(np.isfinite(g)) and np.any(g) for g in found)


def filled(x, values):
    """Append arrays for the specs of arguments to `values`; return a function that puts arrays in their places."""
    if isinstance(x, (list, tuple)):
        parts = [filled(item, values) for item in x]
        return lambda given: type(x)(part(given) for part in parts)
    if isinstance(x, str) and x.endswith("]"):
        dtype, _, shape = x[:-1].partition("[")
        values.append(drawn(np.dtype(dtype), [int(n) for n in shape.split(",") if n]))
        return next
    return lambda given: x


def drawn(dtype, shape):
    """Return an array of small integers, or of numbers between 0 and 1; square ones are symmetric and positive."""
    rng = np.random.default_rng(len(shape))
    if dtype.kind == "i":
        return np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
    x = rng.uniform(0.2, 0.8, shape) + (0.3j if dtype.kind == "c" else 0)
    if len(shape) == 2 and shape[0] == shape[1]:
        x = (x + x.T) / 8 + np.diag(rng.uniform(0.4, 0.7, shape[0]))
    return np.asarray(x, dtype)


def of_jax(call, xs):
    import jax

    jax.config.update("jax_enable_x64", True)
    outputs, pulled_back = jax.vjp(lambda *xs: [y for y in jax.tree.leaves(call(*xs)) if is_inexact(y)], *xs)
    return pulled_back([weights(y) for y in outputs]) if outputs else []


def of_autograd(call, xs):
    import autograd
    import autograd.numpy as anp

    def total(xs):
        y = call(*xs)
        parts = y if isinstance(y, (list, tuple)) else [y]
        return reduce(anp.add, [anp.sum(anp.real(part * weights(part))) for part in parts])

    return autograd.grad(total)(xs)


def is_inexact(y):
    return np.dtype(y.dtype).kind in "fc"


def weights(y):
    """Return weights of the numbers of a result, by which its sum is not constant."""
    return np.arange(1.0, 1 + np.prod(y.shape, dtype=int)).reshape(y.shape).astype(y.dtype)


def main():
    found = {"autograd": {}, "jax": {}}
    for home, (of_autograd_, of_jax_) in MODULES.items():
        if of_autograd_:
            module = import_module(of_autograd_)
            stats = home == "scipy.stats"
            found["autograd"][home] = densities(module, has_derivative) if stats else autograds(module)
        module = import_module(of_jax_)
        if home == "scipy.stats":
            for name in [name for _, name, is_package in walk(module) if not is_package]:
                import_module(f"{of_jax_}.{name}")
            found["jax"][home] = densities(module, lambda distribution, name: True)
        else:
            found["jax"][home] = [name for name, _ in public(module)]
    document = {}
    for i, (peer, gradients) in enumerate({"autograd": of_autograd, "jax": of_jax}.items()):
        document[peer] = {
            "version": metadata.version(peer),
            "functions": found[peer],
            "differentiated": {
                home: differentiated(home, names, import_module(MODULES[home][i]), gradients)
                for home, names in found[peer].items()
            },
        }
    TARGET.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def walk(module):
    from pkgutil import iter_modules

    return iter_modules(module.__path__)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
