"""Functions of NumPy that are refused by name, most of them since they need the numbers of a traced value."""

import numpy as np

from symgrad.core.shapes import broadcast_shapes
from symgrad.ops.define import implements, refuses
from symgrad.ops.operands import as_input

refuses(
    "{} makes text of numbers, and a traced value has none before the program runs",
    "Return the array, and format the result; sg.debug_print shows a value while the program runs.",
    *(np.array2string, np.array_repr, np.array_str, np.base_repr, np.binary_repr),
    *(np.format_float_positional, np.format_float_scientific),
)
refuses(
    "{} writes numbers into a file, and a traced value has none before the program runs",
    "Return the array, and save the result.",
    *(np.save, np.savez, np.savez_compressed, np.savetxt),
)
refuses(
    "{} is about dates, which no traced value holds",
    "Compute with dates outside of the function, and pass numbers.",
    *(np.busday_count, np.busday_offset, np.is_busday, np.isnat, np.datetime_as_string),
)
refuses(
    "{} is not supported: it packs booleans into bytes",
    "Write np.sum(bits << np.arange(8)[::-1], axis=-1), where the last axis holds eight bits.",
    np.packbits,
)
refuses(
    "{} is not supported: it reads the bits of bytes",
    "Write (x[..., None] >> np.arange(8)[::-1]) & 1.",
    np.unpackbits,
)
refuses(
    "{} is not supported: of a number its result depends on the value",
    "Write x.dtype, or np.result_type(x).",
    np.min_scalar_type,
)
refuses(
    "{} is not supported: the length of the remainder depends on values",
    "Divide in a `for` loop over the coefficients of the quotient, whose number is known.",
    np.polydiv,
)
refuses(
    "{} is not needed: the order of products is found when the program is compiled",
    "Leave it out, and write np.einsum(subscripts, *operands).",
    np.einsum_path,
)
refuses("{} makes a np.matrix, which no traced value can be", "Write np.block, and @ for the matrix product.", np.bmat)
refuses(
    "{} would tell whether memory is shared; a traced value has none before the program runs",
    "Call it with arrays, outside of the function.",
    np.shares_memory,
)


implements(np.broadcast_shapes)(lambda *shapes: broadcast_shapes(*map(_as_tuple, shapes)))


def _as_tuple(shape):
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


@implements(np.common_type)
def common_type(*arrays):
    return np.common_type(*[np.empty(0, as_input(x).dtype) for x in arrays])
