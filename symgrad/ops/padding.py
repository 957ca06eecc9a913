"""Padding: an array in the midst of a larger one."""

import numpy as np

from symgrad.core.axes import beside
from symgrad.core.graph import Aval
from symgrad.core.shapes import key_along, same_shape, with_size
from symgrad.core.sizes import same
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops import margins
from symgrad.ops.arguments import axis_index
from symgrad.ops.arrange import known_argument
from symgrad.ops.define import implements, operator
from symgrad.ops.index import ADD_AT, put
from symgrad.ops.index_expressions import EVERYTHING, Slot
from symgrad.ops.operands import as_input, is_traced
from symgrad.ops.shape import as_size
from symgrad.spelling import call, spell_param

_OPTION = {
    "constant": ("constant_values", 0),
    "edge": (None, None),
    "reflect": ("reflect_type", "even"),
    "symmetric": ("reflect_type", "even"),
    "wrap": (None, None),
    **dict.fromkeys(margins.STATISTICS, ("stat_length", None)),
    "linear_ramp": ("end_values", 0),
    "empty": (None, None),
}
"""The modes of np.pad, each with the argument that it takes and what that is where it is not given."""


def _is_several(width):
    return isinstance(width, (tuple, list)) or (isinstance(width, np.ndarray) and width.ndim > 0)


def _widths(width, ndim):
    """(before, after) for each axis from the forms that np.pad takes."""
    if isinstance(width, dict):
        given = {axis_index("pad", axis, ndim): pair for axis, pair in width.items()}
        return tuple(_pair(given.get(i, 0)) for i in range(ndim))
    items = list(width) if _is_several(width) else [width]
    if not any(map(_is_several, items)):
        return (_pair(items),) * ndim
    if len(items) not in (1, ndim):
        raise ShapeError(
            f"np.pad: {len(items)} pairs of widths for {ndim} dimensions",
            "Give one pair for all dimensions, or one for each.",
        )
    return tuple(_pair(item) for item in (items * ndim if len(items) == 1 else items))


def _pair(item):
    pair = list(item) if _is_several(item) else [item]
    if len(pair) not in (1, 2):
        raise ShapeError(f"np.pad: {len(pair)} widths for one axis", "Give (before, after).")
    return pair[0], pair[-1]


def _is_none(pair):
    return all(same(n, 0) for n in pair)


def _padded(shape, widths):
    return tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))


def _inside(shape, widths):
    """The key of what was padded."""
    return tuple(slice(a, a + n) for n, (a, _) in zip(shape, widths, strict=True))


def _vjp_pad(g, y, x, pad_width, mode):
    if mode == "constant":
        return (g[_inside(x.shape, pad_width)],)
    for axis, (a, b) in reversed(list(enumerate(pad_width))):
        if _is_none((a, b)):
            continue
        places = np.pad(np.arange(x.shape[axis], like=g), (a, b), mode)
        target, key = with_size(g.shape, axis, x.shape[axis]), with_size((EVERYTHING,) * g.ndim, axis, Slot(0))
        g = ADD_AT(np.full(target, 0, g.dtype, like=g), g, places, key=key)
    return (g,)


def _spell_pad(node, x):
    width, mode = dict(node.params)["pad_width"], dict(node.params).get("mode", "constant")
    if all(same_shape(pair, width[0]) for pair in width):
        a, b = width[0]
        width = a if same(a, b) else (a, b)
    return call("np.pad", [x.text, spell_param(width), *([] if mode == "constant" else [f"mode={spell_param(mode)}"])])


PAD = operator(
    np.pad,
    infer=lambda x, pad_width, mode="constant": Aval(_padded(x.shape, pad_width), x.dtype),
    vjp=_vjp_pad,
    spell=_spell_pad,
    signature=lambda y, x, pad_width, mode: beside([i for i, pair in enumerate(pad_width) if not _is_none(pair)], y, x),
    axes={"pad_width": lambda widths, at, ndim, size: (*widths[:at], (0, 0), *widths[at:])},
    linear=True,
)


@implements(np.pad)
def pad(array, pad_width, mode="constant", **kwargs):
    array = as_input(array)
    if mode not in _OPTION:
        raise UnsupportedError(f"np.pad: mode={mode!r} is not supported", f"The modes are {', '.join(_OPTION)}.")
    if np.ndim(array) == 0:
        return np.copy(array)
    name, default = _OPTION[mode]
    option = kwargs.pop(name, default)
    for argument in kwargs:
        raise UnsupportedError(
            f"np.pad: the argument {argument}= is not supported with mode={mode!r}", f"Leave {argument}= out."
        )
    ndim = np.ndim(array)
    widths = tuple((as_size(a), as_size(b)) for a, b in _widths(known_argument("pad", "pad_width", pad_width), ndim))
    if any(isinstance(n, int) and n < 0 for pair in widths for n in pair):
        raise ShapeError("np.pad: widths cannot be negative", "To cut an array off, write x[1:-1].")
    if all(map(_is_none, widths)):
        return np.copy(array)
    if mode in margins.STATISTICS:
        return margins.with_margins(array, widths, margins.statistic(mode, _widths(option, ndim)))
    if mode == "linear_ramp":
        return margins.with_margins(array, widths, margins.ramp(_widths(option, ndim)))
    if isinstance(option, str) and option == "odd":
        return margins.with_margins(array, widths, margins.odd(mode))
    if mode == "constant" and (is_traced(option) or not (isinstance(option, (int, float, np.number)) and option == 0)):
        return _pad_with(array, widths, option)
    return PAD(array, widths, "constant" if mode == "empty" else mode)


def _pad_with(x, widths, fill):
    """Pad with given numbers: the margins of a later axis go over those of an earlier one."""
    values = _widths(fill, len(widths))
    like = next(v for v in (x, *(v for pair in values for v in pair)) if is_traced(v))
    if all(np.ndim(v) == 0 and v is values[0][0] for pair in values for v in pair):
        y = np.full(_padded(x.shape, widths), values[0][0], x.dtype, like=like)
        return put(y, _inside(x.shape, widths), x)
    y = PAD(x, widths, "constant") if is_traced(x) else np.array(np.pad(x, widths), like=like)
    for axis, ((a, b), (before, after)) in enumerate(zip(widths, values, strict=True)):
        behind = a + x.shape[axis]
        y = put(put(y, key_along(axis, slice(0, a)), before), key_along(axis, slice(behind, behind + b)), after)
    return y
