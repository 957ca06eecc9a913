"""The checks of `oracle` and `sweep` for functions that find NumPy and SciPy as traced programs do; their source."""

from functools import wraps

from symgrad.frontend.interception import inside
from symgrad.ops.operands import is_traced
from tests import oracle, sweep


def plain(f):
    """`f`, of Variables as `symgrad.trace` runs it."""

    @wraps(f)
    def run(*args):
        traced = next(filter(is_traced, args), None)
        if traced is None:
            return f(*args)
        with inside(traced.graph, f):
            return f(*args)

    return run


def check_close(f, *args, **kwargs):
    sweep.check_close(plain(f), *args, **kwargs)


def check_derivatives(f, *args, **kwargs):
    oracle.check_derivatives(plain(f), *args, **kwargs)


def check_batch(f, *args):
    sweep.check_batch(plain(f), *args)


def without_comments(source):
    """The lines of a source that run."""
    return "".join(line for line in source.splitlines(keepends=True) if not line.lstrip().startswith("#"))
