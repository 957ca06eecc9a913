"""np.einsum: every spelling of a call becomes one node with canonical letters and no index twice in an operand."""

from collections import Counter

import numpy as np

from symgrad.dims import broadcast_shapes
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.graph import Aval
from symgrad.ops.contract import fits
from symgrad.ops.define import as_input, common_dtype, implements, operator, refuse
from symgrad.spelling import call

LETTERS = "ijklmnopqrstuvwxyzabcdefghIJKLMNOPQRSTUVWXYZABCDEFGH"

# ---- the node: subscripts such as "ij,jk->ik"


def _split(subscripts):
    """The letters of the operands, and those of the result."""
    terms, out = subscripts.split("->")
    return terms.split(","), out


def _is_one(size):
    return isinstance(size, int) and size == 1


def _sizes(avals, terms):
    """The size of each letter; a size of 1 is stretched, as everywhere in NumPy."""
    sizes = {}
    for i, (x, term) in enumerate(zip(avals, terms, strict=True)):
        for letter, size in zip(term, x.shape, strict=True):
            known = sizes.setdefault(letter, size)
            if _is_one(known):
                sizes[letter] = size
            elif not _is_one(size) and not fits(known, size):
                shapes, named = ", ".join(map(str, avals)), ",".join(terms)
                raise ShapeError(
                    f"np.einsum: index {letter!r} of {named!r} for {shapes} is {known} and, in operand {i}, {size}"
                )
    return sizes


def _infer_einsum(*xs, subscripts):
    terms, out = _split(subscripts)
    sizes = _sizes(xs, terms)
    return Aval(tuple(sizes[letter] for letter in out), common_dtype(*xs))


def _vjp_einsum(g, y, *xs, subscripts):
    terms, out = _split(subscripts)
    return tuple(_cotangent(g, xs, terms, out, i) for i in range(len(xs)))


def _cotangent(g, xs, terms, out, i):
    """The einsum with the cotangent in the place of operand i; indices that only it has are repeated."""
    operands, letters = [*xs], [*terms]
    operands[i], letters[i] = g, out
    known = {letter for term in letters for letter in term}
    kept = "".join(letter for letter in terms[i] if letter in known)
    gx = np.einsum(f"{','.join(letters)}->{kept}", *operands)
    if kept != terms[i]:
        gx = gx[tuple(slice(None) if letter in known else None for letter in terms[i])]
    if any(_is_one(size) and not _is_one(n) for size, n in zip(gx.shape, xs[i].shape, strict=True)):
        gx = np.broadcast_to(gx, broadcast_shapes(gx.shape, xs[i].shape))
    return gx


def _batch_einsum(batched, *xs, subscripts):
    terms, out = _split(subscripts)
    extra = next(letter for letter in LETTERS if letter not in subscripts)
    terms = [extra + term if flag else term for flag, term in zip(batched, terms, strict=True)]
    return np.einsum(f"{','.join(terms)}->{extra}{out}", *xs)


def _spell_einsum(node, *xs):
    subscripts = dict(node.params)["subscripts"]
    optimize = ["optimize=True"] if len(xs) > 2 else []
    return call("np.einsum", [f'"{subscripts}"', *(x.text for x in xs), *optimize])


EINSUM = operator(
    np.einsum,
    arrays=-1,
    bind=lambda *xs, subscripts: ([as_input(x) for x in xs], {"subscripts": subscripts}),
    infer=_infer_einsum,
    vjp=_vjp_einsum,
    batch=_batch_einsum,
    evaluate=lambda *xs, subscripts: np.einsum(subscripts, *xs, optimize=len(xs) > 2),
    spell=_spell_einsum,
    linear=True,
)

# ---- the call


@implements(np.einsum)
def einsum(*operands, optimize=False, dtype=None, order="K", casting="safe"):
    """`optimize` is not needed: the generated call carries it where there is an order to choose."""
    if order != "K":
        refuse("einsum", "order")
    xs, terms, out = _parse(operands)
    if dtype is not None:
        xs = [np.astype(x, np.dtype(dtype)) for x in xs]
    terms, out = _without_ellipsis(xs, terms, out)
    _check(terms, out)
    xs, terms = zip(*map(_without_repeats, xs, terms), strict=True)
    scalars = [x for x, term in zip(xs, terms, strict=True) if not term]
    rest = [(x, term) for x, term in zip(xs, terms, strict=True) if term]
    y = _contract(*zip(*rest, strict=True), out) if rest else None
    for x in scalars:
        y = x if y is None else np.multiply(x, y)
    return y


def _contract(xs, terms, out):
    if len(xs) == 1 and xs[0].dtype.kind in "fc":  # np.sum would widen small integers
        return _permute(xs[0], list(terms[0]), out)
    labels = list(dict.fromkeys(label for term in terms for label in term))
    if len(labels) >= len(LETTERS):  # one is left for a batch axis
        raise UnsupportedError(f"np.einsum: {len(labels)} different indices are too many")
    names = dict(zip(labels, LETTERS, strict=False))
    spelled = ["".join(names[label] for label in term) for term in (*terms, out)]
    return EINSUM(*xs, subscripts=f"{','.join(spelled[:-1])}->{spelled[-1]}")


def _permute(x, term, out):
    """An einsum of one operand: a sum and a transpose."""
    summed = tuple(i for i, label in enumerate(term) if label not in out)
    x = np.sum(x, axis=summed) if summed else x
    order = [[label for label in term if label in out].index(label) for label in out]
    return x if order == sorted(order) else np.transpose(x, order)


def _parse(operands):
    """Operands, their labels, and those of the result or None: letters, or the numbers of the interleaved form."""
    if not operands:
        raise UnsupportedError("np.einsum: no subscripts and no operands")
    if not isinstance(operands[0], str):
        return _parse_interleaved(operands)
    text = operands[0].replace(" ", "")
    inputs, arrow, out = text.partition("->")
    terms = [_labels(term, text) for term in inputs.split(",")]
    xs = [as_input(x) for x in operands[1:]]
    if len(terms) != len(xs):
        raise ShapeError(f"np.einsum: {text!r} names {len(terms)} operands, but {len(xs)} are given")
    return xs, terms, _labels(out, text) if arrow else None


def _labels(term, text):
    head, dots, tail = term.partition("...")
    for letter in head + tail:
        if not (letter.isascii() and letter.isalpha()):
            raise ShapeError(f"np.einsum: {letter!r} in {text!r} is not an index")
    return [*head, *([Ellipsis] if dots else []), *tail]


def _parse_interleaved(operands):
    pairs = len(operands) // 2
    xs = [as_input(x) for x in operands[0 : 2 * pairs : 2]]
    terms = [list(term) for term in operands[1 : 2 * pairs : 2]]
    return xs, terms, list(operands[-1]) if len(operands) % 2 else None


def _without_ellipsis(xs, terms, out):
    """Labels for every axis: those of an ellipsis count from its end."""
    depths = []
    for i, (x, term) in enumerate(zip(xs, terms, strict=True)):
        depth = np.ndim(x) - sum(label is not Ellipsis for label in term)
        if depth < 0 or (depth and Ellipsis not in term):
            named = "".join("..." if label is Ellipsis else str(label) for label in term)
            raise ShapeError(f"np.einsum: operand {i} has {np.ndim(x)} dimensions, but its subscripts are {named!r}")
        depths.append(depth)
    deepest = max(depths)
    if out is None:
        count = Counter(label for term in terms for label in term if label is not Ellipsis)
        out = [Ellipsis, *sorted(label for label, n in count.items() if n == 1)]
    if deepest and Ellipsis not in out:
        raise ShapeError("np.einsum: the result needs an ellipsis, as an operand has axes under one")

    def expand(term, depth):
        if Ellipsis not in term:
            return term
        at = term.index(Ellipsis)
        return [*term[:at], *((..., -k) for k in range(depth, 0, -1)), *term[at + 1 :]]

    return [expand(term, depth) for term, depth in zip(terms, depths, strict=True)], expand(out, deepest)


def _check(terms, out):
    known = {label for term in terms for label in term}
    for label in out:
        if label not in known:
            raise ShapeError(f"np.einsum: index {label!r} of the result is in no operand")
        if out.count(label) > 1:
            raise ShapeError(f"np.einsum: index {label!r} is in the result twice")


def _without_repeats(x, term):
    """An index that an operand has twice is its diagonal."""
    repeated = next((label for label in term if term.count(label) > 1), None)
    if repeated is None:
        return x, term
    i = term.index(repeated)
    j = term.index(repeated, i + 1)
    if not fits(x.shape[i], x.shape[j]):
        raise ShapeError(f"np.einsum: index {repeated!r} of one operand is {x.shape[i]} and {x.shape[j]}")
    rest = [label for k, label in enumerate(term) if k not in (i, j)]
    return _without_repeats(np.diagonal(x, axis1=i, axis2=j), [*rest, repeated])
