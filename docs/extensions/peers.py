"""Write docs/peers.json: which public functions of NumPy and SciPy autograd and JAX have, by their modules.

Run it where both are installed: ``python docs/extensions/peers.py``. Of autograd those count that have a derivative or
are said to have none; of JAX, which has no list of what it differentiates, all that it defines.
"""

import inspect
import json
from importlib import import_module, metadata
from pathlib import Path

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


def main():
    found = {"autograd": {}, "jax": {}}
    for home, (of_autograd, of_jax) in MODULES.items():
        if of_autograd:
            module = import_module(of_autograd)
            stats = home == "scipy.stats"
            found["autograd"][home] = densities(module, has_derivative) if stats else autograds(module)
        module = import_module(of_jax)
        if home == "scipy.stats":
            for name in [name for _, name, is_package in walk(module) if not is_package]:
                import_module(f"{of_jax}.{name}")
            found["jax"][home] = densities(module, lambda distribution, name: True)
        else:
            found["jax"][home] = [name for name, _ in public(module)]
    versions = {name: metadata.version(name) for name in ("autograd", "jax")}
    document = {name: {"version": versions[name], "functions": modules} for name, modules in found.items()}
    TARGET.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def walk(module):
    from pkgutil import iter_modules

    return iter_modules(module.__path__)


if __name__ == "__main__":
    main()
