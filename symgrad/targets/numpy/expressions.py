"""Values as expressions: calls, numbers in the dtypes beside them, arrays that are written out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from symgrad.core.graph import CONSTANT, Node, Op
from symgrad.core.sizes import Dim
from symgrad.core.text import literal
from symgrad.ops.contract import MATMUL
from symgrad.spelling import Call, Code, call, spell_dtype, spell_number, spell_param

EXACT = 2048  # up to which integers are floats of any precision
ONE_THREAD = 10_000  # numbers up to which OpenBLAS multiplies vectors without threads
SMALL = 64  # elements of a constant array that are still written out
INSTEAD = {
    (np.negative, True): lambda x: call("np.multiply", ["-1.0", x]),
    (np.negative, False): lambda x: call("np.subtract", ["0", x]),
    (np.isnan, True): lambda x: call("np.not_equal", [x, x]),
    (np.isinf, True): lambda x: call("np.equal", [f"np.abs({x})", "np.inf"]),
    (np.isfinite, True): lambda x: call("np.less", [f"np.abs({x})", "np.inf"]),
    (np.signbit, True): lambda x: call("np.less", [f"np.copysign(1.0, {x})", "0"]),
    (np.signbit, False): lambda x: call("np.less", [x, "0"]),
}
"""By ufunc, and whether its operand is floating: NumPy 2.4 reads or writes wrong numbers with these where the memory
that they write into does not lie in one piece."""


def with_floats(node: Node, inputs: Sequence[Code]) -> Sequence[Code]:
    """Python's integers as floats beside arrays of floats: NumPy converts them in half of the time."""
    if not any(x.op is CONSTANT and x.aval.weak for x in node.inputs):
        return inputs
    if not node.op.elementwise or node.op.integral or node.op.package or not node.aval.shape:
        return inputs
    kinds = {x.aval.dtype.kind for x in node.inputs if not (x.op is CONSTANT and x.aval.weak)}
    if kinds - {"b"} != {"f"}:
        return inputs
    return [_as_float(x, code) for x, code in zip(node.inputs, inputs, strict=True)]


def _as_float(node: Node, code: Code) -> Code:
    value = node.constant if node.aval.weak else None
    return spell_number(float(value), True) if type(value) is int and abs(value) <= EXACT else code


def written_into(node: Node, inputs: Sequence[Code], out: Code, gaps: bool = True) -> Call:
    """The call of a ufunc that writes its result into memory that is there, and that may have gaps."""
    arguments = [x.text for x in with_floats(node, inputs)]
    kind = node.inputs[0].aval.dtype.kind
    instead = INSTEAD.get((node.op.evaluate, kind == "f")) if gaps and kind in "iuf" else None
    return (instead(*arguments) if instead else call(node.op.path, arguments)).into(out)


def called(node: Node, function: str, inputs: Sequence[Code]) -> Call:
    """The call of a function with the parameters of a node."""
    return call(function, [*(x.text for x in inputs), *(f"{key}={spell_param(value)}" for key, value in node.params)])


def is_long_product(node: Node) -> bool:
    """Whether a value is the product of vectors for which BLAS starts threads."""
    if node.op is not MATMUL or node.aval.shape or node.aval.dtype.kind != "f":
        return False
    (n,) = node.inputs[0].aval.shape
    return not isinstance(n, Dim) and n > ONE_THREAD


def is_numpy(op: Op) -> bool:
    """Whether an operator is the NumPy function of its name, rather than a user's that may be called the same."""
    if op.written:
        return False
    named = reduce(lambda place, part: getattr(place, part, None), op.name.split("."), np)
    home = getattr(op.evaluate, "__module__", None) or ""
    return named is not None and (named is op.evaluate or home.split(".")[0] in ("numpy", "symgrad"))


def spell_array(value: np.ndarray) -> str | None:
    """An array as source: as the call that makes it, or elementwise while it is small; None where it is large."""
    dtype = f"dtype={spell_dtype(value.dtype)}"
    of_float, of_int = ("" if value.dtype == usual else f", {dtype}" for usual in (float, int))
    if not value.size:
        return f"np.empty({literal(value.shape)}{of_float})"
    if value.ndim == 1 and value.dtype.kind == "i" and value.size > 2 and np.array_equal(value, np.arange(value.size)):
        return f"np.arange({value.size}{of_int})"
    if value.ndim == 2 and value.size > 1 and _is_identity(value):
        return f"np.eye({', '.join(map(str, dict.fromkeys(value.shape)))}{of_float})"
    numbers = None if value.size > SMALL else literal(value.tolist())
    if numbers is None:
        return None
    usual = value.dtype in (np.dtype(int), np.dtype(float), np.dtype(bool))
    return f"np.array({numbers}{'' if usual else f', {dtype}'})"


def _is_identity(value: np.ndarray) -> bool:
    return value.tobytes() == np.eye(*value.shape, dtype=value.dtype).tobytes()  # zeros have signs
