"""Array attributes of PyTorch, JAX, TensorFlow and pandas, and their counterparts in NumPy."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np

_GRADIENT = "Write sg.grad(f)(x): a derivative is a function, and no array holds one."
_CHOSEN = "Leave .{} out: argnums= or wrt= of sg.grad says what to differentiate by."
_NO_DEVICE = "Leave .{} out: arrays of NumPy are where they are computed."
_IN_PLACE = "Write the operator: x += y, x -= y, x *= y, x /= y; for others x[...] = value."
_INSTEAD = {
    "detach": "Write sg.stop_gradient(x).",
    "detach_": "Write x = sg.stop_gradient(x).",
    **dict.fromkeys(("backward", "grad", "grad_fn", "retain_grad"), _GRADIENT),
    **dict.fromkeys(("requires_grad", "requires_grad_", "is_leaf"), _CHOSEN),
    **dict.fromkeys(("cpu", "cuda", "to_device", "pin_memory"), _NO_DEVICE),
    **dict.fromkeys(("add_", "sub_", "mul_", "div_", "zero_", "fill_", "copy_", "clamp_", "assign"), _IN_PLACE),
    **dict.fromkeys(("numpy", "to_numpy", "values", "eval"), "Leave .{} out: x is an array already."),
    **dict.fromkeys(("block_until_ready", "contiguous"), "Leave .{} out: x is there when the next line runs."),
    **dict.fromkeys(("iloc", "loc"), "Write x[i]: a Series and a DataFrame are taken as their values."),
    **dict.fromkeys(("type", "to", "float64"), "Write x.astype(dtype)."),
    **dict.fromkeys(("double", "float"), "Write x.astype(float), or np.float32."),
    **dict.fromkeys(("long", "int"), "Write x.astype(int); integers have no derivative."),
    **dict.fromkeys(("mm", "bmm", "mv"), "Write x @ y."),
    **dict.fromkeys(("clamp", "clip_by_value"), "Write np.clip(x, low, high)."),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), "Write np.broadcast_to(x, shape)."),
    **dict.fromkeys(("chunk", "split", "unbind"), "Write np.split(x, n, axis)."),
    "at": "Write into a copy: y = x.copy(); y[i] = value, or y[i] += value.",
    "unsqueeze": "Write np.expand_dims(x, axis), or x[:, None].",
    "permute": "Write x.transpose(axes).",
    "t": "Write x.T.",
    "clone": "Write x.copy().",
    "numel": "Write x.size.",
    "dim": "Write x.ndim.",
    "get_shape": "Write x.shape.",
    "view_as": "Write x.reshape(y.shape).",
    "index_select": "Write np.take(x, indices, axis).",
    "gather": "Write np.take_along_axis(x, indices, axis).",
    "scatter_add": "Write np.add.at(y, indices, x).",
    "masked_fill": "Write np.where(mask, value, x).",
    "repeat_interleave": "Write np.repeat(x, n).",
    "norm": "Write np.linalg.norm(x).",
    "det": "Write np.linalg.det(x).",
    "inverse": "Write np.linalg.inv(x).",
    "relu": "Write np.maximum(x, 0).",
    "sigmoid": "Write 1 / (1 + np.exp(-x)), or scipy.special.expit(x).",
    "softmax": "Write scipy.special.softmax(x, axis).",
    "log_softmax": "Write scipy.special.log_softmax(x, axis).",
    "logsumexp": "Write scipy.special.logsumexp(x, axis).",
    "rsqrt": "Write 1 / np.sqrt(x).",
}


def instead_of(name: str, known: list[str]) -> str:
    """Return the counterpart of an attribute that arrays do not have, among the `known` ones or in NumPy."""
    if name in _INSTEAD:
        return _INSTEAD[name].format(name)
    if isinstance(getattr(np, name, None), np.ufunc):
        return f"Write np.{name}(x)."
    if callable(function := getattr(np, name, None)) and not isinstance(function, type):
        return f"Write np.{name}(x, ...)."
    near = get_close_matches(name, [x for x in known if not x.startswith("_")], cutoff=0.75)
    return f"Write {' or '.join(f'.{x}' for x in near)}." if near else ""
