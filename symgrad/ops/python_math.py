"""Python's `math` on traced numbers: each function computes in double precision and gives a Python number.

Where a function of `math` raises for a number, the program has NumPy's infinity or NaN.
"""

import cmath
import math
from collections.abc import Callable
from functools import partial, reduce, wraps
from operator import mul
from types import ModuleType
from typing import Any

import numpy as np

from symgrad.core.graph import CONSTANT, Node
from symgrad.errors import DTypeError, UnsupportedError
from symgrad.ops.astype import ASTYPE
from symgrad.ops.control import NUMBER
from symgrad.ops.define import TABLE, implements_at
from symgrad.ops.known import is_constant
from symgrad.ops.marks import ALIAS
from symgrad.ops.operands import Array, is_traced
from symgrad.ops.parts import COMPLEX
from symgrad.ops.piecewise_constant import ROUND
from symgrad.ops.truths import INTEGER, of_python


def as_float(x: Array) -> Array:
    """A number as `float` gives it, still an operand of NumPy."""
    if not is_traced(x):
        return x
    if x.dtype.kind == "c":
        raise DTypeError(
            f"{x.aval} is not a real number", "Write it in terms of real and imaginary parts: x.real, x.imag."
        )
    return x if x.dtype == np.float64 else np.astype(x, np.float64)


def is_integral(node: Node) -> bool:
    """Whether a value has no fraction whatever the arguments are."""
    waiting, seen = [node], {node}
    while waiting:
        x = waiting.pop()
        if x.aval.dtype.kind in "biu" or x.op in _ROUNDED or (x.op is ROUND and dict(x.params).get("decimals", 0) <= 0):
            continue
        if x.op is CONSTANT and np.array_equal(x.constant, np.rint(x.constant)):
            continue
        if x.op not in _KEEP_INTEGRAL:
            return False
        waiting += [y for y in x.inputs if y not in seen]
        seen.update(x.inputs)
    return True


_ROUNDED = frozenset(TABLE[f] for f in (np.floor, np.ceil, np.trunc, np.rint, np.sign, np.floor_divide))
_KEEP_INTEGRAL = {NUMBER, ASTYPE, ALIAS} | {
    TABLE[f] for f in (np.add, np.subtract, np.multiply, np.negative, np.absolute, np.maximum, np.minimum)
}


def as_python_int(x: Array) -> Array:
    """An integral number as a Python integer."""
    if not is_traced(x):
        return int(x)
    return INTEGER(x) if x.dtype.kind == "b" else NUMBER(x if x.dtype.kind in "iu" else np.astype(x, np.int64))


def as_python_float(x: Array) -> Array:
    """A number as a Python float."""
    return x if is_traced(x) and x.aval.weak and x.dtype == np.float64 else NUMBER(as_float(x))


def as_python_complex(real: Any = 0, imag: Any = 0) -> Any:
    """A number, or two of which one is traced, as a complex number of Python's."""
    if any(x.dtype.kind == "c" for x in (real, imag) if is_traced(x)) or complex in (type(real), type(imag)):
        return NUMBER(np.astype(real + 1j * imag if is_traced(imag) or imag else real, complex))
    return NUMBER(COMPLEX(real, imag))


def _value(x: Any) -> Any:
    """The number that a traced one is known to be, in lists too."""
    return type(x)(map(_value, x)) if type(x) in (list, tuple) else x.known_value() if is_traced(x) else x


def _traced(args: Any) -> list[Any]:
    """The traced values among arguments, in lists too."""
    return [x for arg in args for x in (_traced(arg) if type(arg) in (list, tuple) else [arg]) if is_traced(x)]


def _with_math(
    name: str, known: Callable[[Any], bool] = is_constant, numbers: bool = True, module: ModuleType = math
) -> Callable[[Callable[..., Any]], None]:
    """Register what runs instead of a function of `math`; `math` itself computes what is `known` before the run.

    Where it takes `numbers`, an array is refused by Python's ``float(x)``, which `math` asks for. All this holds of
    `cmath` as well.
    """
    plain = getattr(module, name)

    def register(written: Callable[..., Any]) -> None:
        @wraps(plain)
        def function(*args: Any, **kwargs: Any) -> Any:
            traced = _traced([*args, *kwargs.values()])
            if all(map(known, traced)):
                return plain(*map(_value, args), **{key: _value(x) for key, x in kwargs.items()})
            if numbers and any(x.shape for x in traced):
                return plain(*args, **kwargs)
            return written(*args, **kwargs)

        implements_at(module, name)(function)

    return register


# ---- functions of numbers

_SAME = """
    acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees exp exp2 expm1 fabs fmod log10 log1p log2
    radians sin sinh sqrt tan tanh
""".split()
_OTHER_NAMES = {"acos": "arccos", "asin": "arcsin", "atan": "arctan", "acosh": "arccosh", "asinh": "arcsinh"}
_OTHER_NAMES |= {"atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


def _float_result(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: as_python_float(function(*map(as_float, args)))


for _name in (*_SAME, "pow"):
    _with_math(_name)(_float_result(getattr(np, _OTHER_NAMES.get(_name, _name))))
_with_math("nextafter")(_float_result(np.nextafter))
_with_math("ulp")(_float_result(lambda x: np.spacing(np.abs(x))))
for _name in ("isnan", "isinf", "isfinite"):
    _with_math(_name)(partial(lambda ufunc, x: of_python(ufunc(x)), getattr(np, _name)))


def _of_scipy(name: str, in_scipy: str) -> None:
    """Register a function that `scipy.special` has for arrays; SciPy is imported when it is first called."""

    @_with_math(name)
    @_float_result
    def function(x: Array) -> Array:
        try:
            from scipy import special
        except ImportError:
            raise UnsupportedError(f"math.{name} of a traced value needs SciPy", "Install scipy.") from None
        from symgrad.ops.scipy import load

        load()
        return getattr(special, in_scipy)(x)


for _name, _in_scipy in (("erf", "erf"), ("erfc", "erfc"), ("gamma", "gamma"), ("lgamma", "gammaln")):
    _of_scipy(_name, _in_scipy)


@_with_math("log")
@_float_result
def _log(x: Array, base: Array = math.e) -> Array:
    return np.log(x) if base is math.e else np.log(x) / np.log(base)


@_with_math("remainder")
@_float_result
def _remainder(x: Array, y: Array) -> Array:
    """The quotient is rounded to even: two divisors less do not change which way."""
    rest = np.fmod(x, 2 * y)
    return rest - np.where(np.isfinite(y), y, 0.0) * np.rint(rest / y)


@_with_math("modf")
def _modf(x: Array) -> tuple[Array, Array]:
    fraction, whole = np.modf(as_float(x))
    return as_python_float(fraction), as_python_float(whole)


@_with_math("frexp")
def _frexp(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(as_float(x))
    return as_python_float(mantissa), as_python_int(exponent)


_with_math("ldexp")(lambda x, i: as_python_float(np.ldexp(as_float(x), i)))


@_with_math("isclose")
def _isclose(a: Array, b: Array, *, rel_tol: Array = 1e-9, abs_tol: Array = 0.0) -> Array:
    a, b = as_float(a), as_float(b)
    near = np.abs(a - b) <= np.maximum(rel_tol * np.maximum(np.abs(a), np.abs(b)), abs_tol)
    return of_python((a == b) | (near & np.isfinite(a) & np.isfinite(b)))


# ---- whole numbers


def _is_known(x: Any) -> bool:
    """Whether a number is known, pinning symbolic sizes: integers are wanted as sizes."""
    return x.known_value() is not None


for _name in ("floor", "ceil", "trunc"):
    _with_math(_name, _is_known)(partial(lambda to, x: as_python_int(to(as_float(x))), getattr(np, _name)))
for _name in ("gcd", "lcm"):
    _with_math(_name, _is_known)(partial(lambda of_two, *n: as_python_int(reduce(of_two, n)), getattr(np, _name)))


def _factors(name: str, k: Any) -> range:
    """The numbers that n is made smaller by in ``n * (n - 1) * ...``, a product of k factors."""
    if is_traced(k):
        raise UnsupportedError(
            f"math.{name}: k is traced", "Give k as a number, or write it with scipy.special.gammaln."
        )
    return range(int(k))


@_with_math("comb", _is_known)
def _comb(n: Array, k: Any) -> Array:
    """Each product of as many factors is a multiple of their factorial."""
    return as_python_int(reduce(lambda c, i: c * (n - i) // (i + 1), _factors("comb", k), n * 0 + 1))


@_with_math("perm", _is_known)
def _perm(n: Array, k: Any) -> Array:
    return as_python_int(reduce(lambda c, i: c * (n - i), _factors("perm", k), n * 0 + 1))


@_with_math("factorial", _is_known)
def _factorial(n: Array) -> None:
    raise UnsupportedError("math.factorial of a traced number is not supported", "Write scipy.special.gamma(n + 1).")


@_with_math("isqrt", _is_known)
def _isqrt(n: Array) -> None:
    raise UnsupportedError("math.isqrt of a traced number is not supported", "Write np.floor(np.sqrt(n)).")


# ---- several numbers


def _items(x: Any) -> Any:
    return x if is_traced(x) else np.array([*x], like=_traced([x])[0]) if _traced([[*x]]) else np.asarray(x)


@_with_math("hypot")
@_float_result
def _hypot(*coordinates: Array) -> Array:
    return reduce(np.hypot, coordinates) if coordinates[1:] else np.abs(coordinates[0])


@_with_math("fsum", numbers=False)
def _fsum(items: Any) -> Array:
    return as_python_float(np.sum(as_float(_items(items))))


@_with_math("prod", numbers=False)
def _prod(items: Any, *, start: Array = 1) -> Array:
    if not is_traced(items):
        return reduce(mul, items, start)
    one = start * np.ones((), items.dtype)[()]  # Python multiplies in this dtype, NumPy small integers in a wider one
    return start * np.prod(items, dtype=(one * items.dtype.type(1)).dtype)


@_with_math("dist", numbers=False)
def _dist(p: Any, q: Any) -> Array:
    return as_python_float(np.linalg.norm(as_float(_items(p)) - as_float(_items(q))))


if hasattr(math, "sumprod"):  # Python 3.12

    @_with_math("sumprod", numbers=False)
    def _sumprod(p: Any, q: Any) -> Array:
        return np.dot(p, q) if is_traced(p) and is_traced(q) else sum(map(mul, p, q))


# ---- complex numbers


def _as_complex(x: Array) -> Array:
    return np.astype(x, np.complex128) if is_traced(x) else complex(x)


def _complex_result(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: NUMBER(function(*map(_as_complex, args)))


for _name in "acos acosh asin asinh atan atanh cos cosh exp log10 sin sinh sqrt tan tanh".split():
    _with_math(_name, module=cmath)(_complex_result(getattr(np, _OTHER_NAMES.get(_name, _name))))
for _name in ("isnan", "isinf", "isfinite"):
    _with_math(_name, module=cmath)(partial(lambda ufunc, x: of_python(ufunc(_as_complex(x))), getattr(np, _name)))
_with_math("phase", module=cmath)(lambda x: as_python_float(np.angle(_as_complex(x))))
_with_math("polar", module=cmath)(lambda x: tuple(as_python_float(f(_as_complex(x))) for f in (np.abs, np.angle)))
_with_math("rect", module=cmath)(lambda r, phi: NUMBER(COMPLEX(r * np.cos(as_float(phi)), r * np.sin(as_float(phi)))))


@_with_math("log", module=cmath)
@_complex_result
def _log_of_complex(x: Array, *base: Array) -> Array:
    return np.log(x) / np.log(*base) if base else np.log(x)


@_with_math("isclose", module=cmath)
def _isclose_in_plane(a: Array, b: Array, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> Array:
    raise UnsupportedError("cmath.isclose of a traced number is not supported", "Write np.isclose(a, b).")
