"""np.einsum: no index twice in an operand, one node for calls that differ in their letters only; products of matrices
become that."""

import math
from collections import Counter

import numpy as np

from symgrad.core.axes import lettered
from symgrad.core.graph import Aval
from symgrad.core.shapes import broadcast_shapes, is_one, product
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.ops.arguments import refuse
from symgrad.ops.contract import fits
from symgrad.ops.define import implements, operator
from symgrad.ops.dtypes import common_dtype
from symgrad.ops.operands import as_input, is_traced, strong
from symgrad.ops.spellings import is_small, may_be_small
from symgrad.spelling import call

LETTERS = "ijklmnopqrstuvwxyzabcdefghIJKLMNOPQRSTUVWXYZABCDEFGH"

# ---- the node: subscripts such as "ij,jk->ik"


class Subscripts(str):
    """Subscripts that equal others with other letters, so that such einsums are one node; it keeps those it has."""

    __slots__ = ("_canonical",)

    def __new__(cls, text):
        self = super().__new__(cls, text)
        names = {}
        self._canonical = tuple(c if c in ",->" else names.setdefault(c, len(names)) for c in text)
        return self

    def __eq__(self, other):
        return self._canonical == (other if isinstance(other, Subscripts) else Subscripts(other))._canonical

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(self._canonical)


def _split(subscripts):
    """The letters of the operands, and those of the result."""
    terms, out = subscripts.split("->")
    return terms.split(","), out


def _sizes(avals, terms):
    """The size of each letter; a size of 1 is stretched, as everywhere in NumPy."""
    sizes = {}
    for i, (x, term) in enumerate(zip(avals, terms, strict=True)):
        for letter, size in zip(term, x.shape, strict=True):
            known = sizes.setdefault(letter, size)
            if is_one(known):
                sizes[letter] = size
            elif not is_one(size) and not fits(known, size):
                shapes, named = ", ".join(map(str, avals)), ",".join(terms)
                raise ShapeError(
                    f"np.einsum: index {letter!r} of {named!r} for {shapes} is {known} and, in operand {i}, {size}",
                    "An index stands for axes of the same size.",
                )
    return sizes


def _infer_einsum(*xs, subscripts, optimize=False):
    terms, out = _split(subscripts)
    sizes = _sizes(xs, terms)
    return Aval(tuple(sizes[letter] for letter in out), common_dtype(*xs))


def _vjp_einsum(g, y, *xs, subscripts, optimize):
    terms, out = _split(subscripts)
    return tuple(_cotangent(g, xs, terms, out, i, optimize) for i in range(len(xs)))


def _cotangent(g, xs, terms, out, i, optimize):
    """The einsum with the cotangent in the place of operand i; indices that only it has are repeated."""
    operands, letters = [*xs], [*terms]
    operands[i], letters[i] = g, out
    known = {letter for term in letters for letter in term}
    kept = "".join(letter for letter in terms[i] if letter in known)
    gx = np.einsum(f"{','.join(letters)}->{kept}", *operands, optimize=optimize)
    if kept != terms[i]:
        gx = gx[tuple(slice(None) if letter in known else None for letter in terms[i])]
    if any(is_one(size) and not is_one(n) for size, n in zip(gx.shape, xs[i].shape, strict=True)):
        gx = np.broadcast_to(gx, broadcast_shapes(gx.shape, xs[i].shape))
    return gx


def _batch_einsum(batched, *xs, subscripts, optimize):
    terms, out = _split(subscripts)
    extra = next(letter for letter in LETTERS if letter not in subscripts)
    terms = [extra + term if flag else term for flag, term in zip(batched, terms, strict=True)]
    return np.einsum(f"{','.join(terms)}->{extra}{out}", *xs, optimize=optimize)


PLANNING = 5000
"""Multiplications from which on it pays to look for products of matrices: NumPy takes 10 us to do so."""


def _pays(shapes, subscripts, optimize):
    """Whether NumPy should plan before it runs: where it is asked to, and for two operands that are matrices.

    More of them it would multiply in another order, and sum early what one of them alone has: 0.0 becomes a NaN.
    """
    if len(shapes) > 2:
        return optimize
    terms, out = _split(subscripts)
    if len(terms) < 2 or not any(letter not in out for letter in terms[0] if letter in terms[1]):
        return False
    a, b = terms
    if not (set(a) - set(b)).intersection(out) or not (set(b) - set(a)).intersection(out):
        return False
    return _multiplications(shapes, terms) >= PLANNING


def _multiplications(shapes, terms):
    """Return the number of multiplications of a direct evaluation; a symbolic size counts as large."""
    sizes = {}
    for shape, term in zip(shapes, terms, strict=True):
        for letter, size in zip(term, shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size if isinstance(size, int) else PLANNING)
    return math.prod(sizes.values())


def _evaluate_einsum(*xs, subscripts, optimize=False):
    return np.einsum(str(subscripts), *xs, optimize=_pays([x.shape for x in xs], subscripts, optimize))


def _spell_einsum(node, *xs):
    params = node.op.defaults | dict(node.params)
    planned = ["optimize=True"] if _pays([x.aval.shape for x in node.inputs], **params) else []
    return call("np.einsum", [f'"{params["subscripts"]}"', *(x.text for x in xs), *planned])


def _flops_einsum(y, *xs, subscripts, optimize):
    """Estimate the operations of a direct evaluation, without a pairwise contraction order."""
    terms, _ = _split(subscripts)
    sizes = _sizes(xs, terms)
    return product(sizes.values()) * len(xs)


def _dot(node, *inputs):
    """Return the dot product of two arrays, or of their rows: for small arrays in a third of the time."""
    terms, _, result = dict(node.params)["subscripts"].partition("->")
    alike = {(term, x.aval) for term, x in zip(terms.split(","), node.inputs, strict=True)}
    if len(inputs) != 2 or len(alike) > 1:
        return None
    ((term, x),) = alike
    if x.dtype.kind != "f" or x.weak:
        return None
    if not result:
        return call("np.vdot" if is_small(*node.inputs) else "_dot", [x.text for x in inputs])
    of_rows = term[:-1] == result and may_be_small(*node.inputs)
    return call("_vecdot", [x.text for x in inputs]) if of_rows else None


EINSUM = operator(
    np.einsum,
    arrays=-1,
    bind=lambda *xs, subscripts, optimize=False: (
        [as_input(x) for x in xs],
        {"subscripts": Subscripts(subscripts), "optimize": optimize},
    ),
    infer=_infer_einsum,
    vjp=_vjp_einsum,
    batch=_batch_einsum,
    evaluate=_evaluate_einsum,
    spell=_spell_einsum,
    quick=_dot,
    flops=_flops_einsum,
    signature=lambda y, *xs, subscripts, optimize: lettered(subscripts, np.add)(y, *xs),
    linear=True,
    contracts=True,
    out=True,
)

# ---- the call


@implements(np.einsum)
def einsum(*operands, optimize=False, dtype=None, order="K", casting="safe"):
    if order != "K":
        refuse("einsum", "order")
    xs, terms, out = _parse(operands)
    # before anything is summed: the sum of booleans is whether any is true, and small integers wrap around
    xs = [x if is_traced(x) else np.asarray(x) for x in map(strong, xs)]
    dtype = np.dtype(dtype) if dtype is not None else np.result_type(*[x.dtype for x in xs])
    xs = [np.astype(x, dtype, copy=False) for x in xs]
    terms, out = _without_ellipsis(xs, terms, out)
    _check(terms, out)
    xs, terms = zip(*map(_without_repeats, xs, terms), strict=True)
    scalars = [x for x, term in zip(xs, terms, strict=True) if not term]
    rest = [(x, term) for x, term in zip(xs, terms, strict=True) if term]
    y = _contract(*zip(*rest, strict=True), out, bool(optimize)) if rest else None
    for x in scalars:
        y = x[()] if y is None else np.multiply(x, y)
    return y


def _contract(xs, terms, out, optimize):
    if len(xs) == 1 and (xs[0].dtype.kind in "fc" or len(terms[0]) == len(out)):  # np.sum would widen small integers
        return _permute(xs[0], list(terms[0]), out)
    if len(xs) == 2:
        y = _matrix_product(*xs, *map(list, terms), out)
        if y is not None:
            return y
    names = _named(list(dict.fromkeys(label for term in terms for label in term)))
    spelled = ["".join(names[label] for label in term) for term in (*terms, out)]
    return EINSUM(*xs, subscripts=f"{','.join(spelled[:-1])}->{spelled[-1]}", optimize=optimize)


def _named(labels):
    """A letter for each label: its own if it is one."""
    if len(labels) >= len(LETTERS):  # one is left for a batch axis
        raise UnsupportedError(
            f"np.einsum: {len(labels)} different indices are too many", "Write it as several products."
        )
    free = iter(letter for letter in LETTERS if letter not in labels)
    return {label: label if isinstance(label, str) else next(free) for label in labels}


def _matrix_product(x, y, a, b, out):
    """`x @ y` or `np.outer` where the einsum is one of two matrices or vectors, but for their transposes; else None."""
    if x.dtype.kind not in "iufc" or y.dtype.kind not in "iufc" or max(len(a), len(b)) > 2:
        return None
    shared = [label for label in a if label in b]
    rows, columns = ([label for label in term if label not in shared] for term in (a, b))
    if len(shared) > 1 or len(rows) > 1 or len(columns) > 1 or sorted(out, key=str) != sorted(rows + columns, key=str):
        return None
    if out != rows + columns:
        return _matrix_product(y, x, b, a, out)
    if not shared:
        return np.outer(x, y) if rows and columns else None
    i, j = a.index(shared[0]), b.index(shared[0])
    if is_one(x.shape[i]) != is_one(y.shape[j]) or not fits(x.shape[i], y.shape[j]):
        return None  # stretched, or wrong: an einsum says it better
    return (x.T if i < len(a) - 1 else x) @ (y.T if j > 0 else y)


def _permute(x, term, out):
    """An einsum of one operand: a sum and a transpose."""
    summed = tuple(i for i, label in enumerate(term) if label not in out)
    x = np.sum(x, axis=summed) if summed else x
    order = [[label for label in term if label in out].index(label) for label in out]
    return x if order == sorted(order) else np.transpose(x, order)


def _parse(operands):
    """Operands, their labels, and those of the result or None: letters, or the numbers of the interleaved form."""
    if not operands:
        raise UnsupportedError("np.einsum: no subscripts and no operands", 'Write np.einsum("ij,jk->ik", a, b).')
    if not isinstance(operands[0], str):
        return _parse_interleaved(operands)
    text = operands[0].replace(" ", "")
    inputs, arrow, out = text.partition("->")
    terms = [_labels(term, text) for term in inputs.split(",")]
    xs = [as_input(x) for x in operands[1:]]
    if len(terms) != len(xs):
        raise ShapeError(
            f"np.einsum: {text!r} names {len(terms)} operands, but {len(xs)} are given",
            "Give one operand for each term between the commas.",
        )
    return xs, terms, _labels(out, text) if arrow else None


def _labels(term, text):
    head, dots, tail = term.partition("...")
    for letter in head + tail:
        if not (letter.isascii() and letter.isalpha()):
            raise ShapeError(
                f"np.einsum: {letter!r} in {text!r} is not an index", 'Indices are letters: write "ij,jk->ik".'
            )
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
            raise ShapeError(
                f"np.einsum: operand {i} has {np.ndim(x)} dimensions, but its subscripts are {named!r}",
                "Write one letter for each axis, or an ellipsis for those that are not named.",
            )
        depths.append(depth)
    deepest = max(depths)
    if out is None:
        count = Counter(label for term in terms for label in term if label is not Ellipsis)
        out = [Ellipsis, *sorted(label for label, n in count.items() if n == 1)]
    if deepest and Ellipsis not in out:
        raise ShapeError(
            "np.einsum: the result has no ellipsis, but that of an operand stands for axes",
            'Write "...ij,...jk->...ik", or sum over the other axes first.',
        )

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
            raise ShapeError(
                f"np.einsum: index {label!r} of the result is in no operand", "Use letters of the operands behind ->."
            )
        if out.count(label) > 1:
            raise ShapeError(f"np.einsum: index {label!r} is in the result twice", "Name each index once behind ->.")


def _without_repeats(x, term):
    """An index that an operand has twice is its diagonal."""
    repeated = next((label for label in term if term.count(label) > 1), None)
    if repeated is None:
        return x, term
    i = term.index(repeated)
    j = term.index(repeated, i + 1)
    if not fits(x.shape[i], x.shape[j]):
        raise ShapeError(
            f"np.einsum: index {repeated!r} of one operand is {x.shape[i]} and {x.shape[j]}",
            "A repeated index takes a diagonal, and needs axes of the same size.",
        )
    rest = [label for k, label in enumerate(term) if k not in (i, j)]
    y = np.diagonal(x, axis1=i, axis2=j)
    if is_traced(y):
        y.locked = x.locked  # that of np.diagonal is read-only, this one is not
    return _without_repeats(y, [*rest, repeated])
