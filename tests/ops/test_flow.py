"""Axis signatures: the entry of every operator is complete, and holds on slices."""

import dataclasses
import json
from itertools import product
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from numpy.lib.stride_tricks import sliding_window_view

import symgrad as sg
from symgrad.core.axes import AxisSignature, aligned, lettered, reduced, signature_of
from symgrad.core.graph import ITEM, reached
from symgrad.core.interpret import interpret
from symgrad.derivatives.pullback import pullback
from symgrad.errors import ArgumentError
from symgrad.ops.accumulate import RECURRENCE
from symgrad.ops.bessel import I1
from symgrad.ops.checkpoint import BARRIER
from symgrad.ops.create import ARANGE
from symgrad.ops.determinants import COFACTORS, SLOPE
from symgrad.ops.elementwise import DIFFERENCE, LOGISTIC
from symgrad.ops.parts import COMPLEX
from symgrad.ops.shape import COPY
from tests.ops.test_elementwise import FLOAT_OPS, OPS, arity, draw
from tests.oracle import trace
from tests.slices import check_flows, check_signature
from tests.sweep import check_batched_node
from tests.test_house import in_a_fresh_process
from tests.whole.test_random_programs import arguments, run, steps, value_of

# ---- a flow as text: "ab,bc->ac add", with a dot for an opaque axis


def written(signature):
    names = {}
    terms = [
        "".join("." if label is None else names.setdefault(label, ascii_lowercase[len(names)]) for label in labels)
        for labels in (*signature.inputs, signature.result)
    ]
    text = f"{','.join(terms[:-1])}->{terms[-1]}"
    reduces = any(label not in (*signature.result, None) for labels in signature.inputs for label in labels)
    return f"{text} {signature.combine.__name__}" if reduces else text


OWN = {
    "BARRIER": BARRIER,
    "COPY": COPY,
    "COFACTORS": COFACTORS,
    "RECURRENCE": RECURRENCE,
    "SLOPE": SLOPE,
    "I1": I1,
    "LOGISTIC": LOGISTIC,
    "DIFFERENCE": DIFFERENCE,
    "COMPLEX": COMPLEX,
}


def call(source, *shapes):
    """A call of positive numbers, traced: the nodes of its results, and what they are fed."""
    rng = np.random.default_rng(0)
    xs = [rng.uniform(0.2, 1.8, shape) for shape in shapes]
    f = eval(
        f"lambda {', '.join('xyz'[: len(xs)])}: {source}",
        {"np": np, "sg": sg, "I": np.array([2, 0]), "J": np.array([[1]]), "windows": sliding_window_view, **OWN},
    )
    _, inputs, outputs = trace(f, *xs)
    return outputs, dict(zip(inputs, xs, strict=True))


def node_of(name, outputs):
    return next(node for node in reversed(reached(outputs)) if node.op.name == name)


V, M, N, T = (3,), (3, 4), (4, 3), (2, 3, 4)
SPD = "x @ x.mT + 3 * np.eye(3, like=x)"

CALLS = [
    # reductions
    ("sum", "np.sum(x)", M, "ab-> add"), ("sum", "np.sum(x, 0)", M, "ab->b add"),
    ("sum", "np.sum(x, (0, 2), keepdims=True)", T, "abc->.b. add"), ("sum", "np.sum(x, ())", M, "ab->ab"),
    ("prod", "np.prod(x, 1)", M, "ab->a multiply"), ("max", "np.max(x, 1)", M, "ab->a maximum"),
    ("min", "np.min(x, 0, keepdims=True)", M, "ab->.b minimum"), ("nanmax", "np.nanmax(x)", M, "ab-> fmax"),
    ("nanmin", "np.nanmin(x, 0)", M, "ab->b fmin"), ("any", "np.any(x > 1, 0)", M, "ab->b logical_or"),
    ("all", "np.all(x > 1)", M, "ab-> logical_and"), ("count_nonzero", "np.count_nonzero(x > 1, 1)", M, "ab->a add"),
    ("logaddexp.reduce", "np.logaddexp.reduce(x, 1)", M, "ab->a logaddexp"),
    ("mean", "np.mean(x, 0)", M, ".a->a"), ("mean", "np.mean(x)", M, "..->"),
    ("var", "np.var(x, 1, keepdims=True)", M, "a.->a."), ("std", "np.std(x, 0)", M, ".a->a"),
    ("real_roots", "np.roots(np.poly(x))", (3,), ".->."),
    ("median", "np.median(x, (0, 2))", T, ".a.->a"), ("argmax", "np.argmax(x, 1)", M, "a.->a"),
    ("argmax", "np.argmax(x)", M, "..->"), ("argmin", "np.argmin(x, 0, keepdims=True)", M, ".a->.a"),
    ("quantile", "np.quantile(x, 0.3, 0)", M, ".a,->a"),
    ("quantile", "np.quantile(x, y / 2, 1, keepdims=True)", M, V, "a.,b->ba."),
    ("percentile", "np.percentile(x, [30, 60])", M, "..,a->a"),
    ("nanmedian", "np.nanmedian(x, (0, 2))", T, ".a.->a"), ("nanargmax", "np.nanargmax(x, 1)", M, "a.->a"),
    ("nanargmin", "np.nanargmin(x)", M, "..->"), ("nanquantile", "np.nanquantile(x, 0.3, 0)", M, ".a,->a"),
    ("nanpercentile", "np.nanpercentile(x, [30, 60])", M, "..,a->a"),
    ("bincount", "np.bincount((3 * x).astype(int), x, minlength=6)", V, "a,a->. add"),
    ("bincount", "np.bincount(x.astype(int), minlength=2)", V, "a->. add"),
    ("linalg.norm", "np.linalg.norm(x, axis=1)", M, "a.->a"), ("linalg.norm", "np.linalg.norm(x)", M, "..->"),
    ("linalg.norm", "np.linalg.norm(x, axis=(0, 2), keepdims=True)", T, ".a.->.a."),
    # along an axis
    ("i1", "I1(x)", M, "ab->ab"), ("logistic", "LOGISTIC(x)", M, "ab->ab"),
    ("difference", "DIFFERENCE(x, y)", M, (4,), "ab,b->ab"),
    ("complex_of", "COMPLEX(x, y)", M, (4,), "ab,b->ab"),
    ("real", "np.real(1j * x)", M, "ab->ab"), ("imag", "np.imag(1j * x)", M, "ab->ab"),
    ("fft.fft", "np.fft.fft(x)", M, "a.->a."), ("fft.ifft", "np.fft.ifft(x, axis=1)", T, "a.b->a.b"),
    ("fft.rfft", "np.fft.rfft(x, axis=0)", M, ".a->.a"), ("fft.irfft", "np.fft.irfft(x)", M, "a.->a."),
    ("cumsum", "np.cumsum(x, 1)", M, "a.->a."), ("cumprod", "np.cumprod(x, 0)", M, ".a->.a"),
    ("maximum.accumulate", "np.maximum.accumulate(x, 1)", T, "a.b->a.b"),
    ("minimum.accumulate", "np.minimum.accumulate(x)", M, ".a->.a"),
    ("fmax.accumulate", "np.fmax.accumulate(x, 1)", M, "a.->a."),
    ("fmin.accumulate", "np.fmin.accumulate(x, 1)", M, "a.->a."),
    ("logaddexp.accumulate", "np.logaddexp.accumulate(x, 1)", M, "a.->a."),
    ("recurrence", "RECURRENCE(x, x, axis=1, reverse=True)", M, "a.,a.->a."),
    ("recurrence", "RECURRENCE(x, y, axis=0, reverse=False)", M, (3, 1), ".a,..->.a"),
    ("logical_and.accumulate", "np.logical_and.accumulate(x > 1)", M, ".a->.a"),
    ("logical_or.accumulate", "np.logical_or.accumulate(x > 1, 1)", M, "a.->a."),
    ("add.reduceat", "np.add.reduceat(x, [0, 2], 1)", T, "a.b,.->a.b"),
    ("argpartition", "np.argpartition(x, 1, 1)", T, "a.b->a.b"),
    ("digitize", "np.digitize(x, [0.5, 1])", M, "ab,.->ab"),
    ("isin", "np.isin(x, y)", M, N, "ab,..->ab"),
    ("ravel_multi_index", "np.ravel_multi_index((x.astype(int), y.astype(int)), (2, 2))", M, (4,), "ab,b->ab"),
    ("argsort", "np.argsort(x, 1)", T, "a.b->a.b"), ("searchsorted", "np.searchsorted(x, y)", V, M, ".,ab->ab"),
    ("interp", "np.interp(x, np.sort(y), z)", M, V, V, "ab,.,.->ab"),
    ("take_along_axis", "np.take_along_axis(x, y.astype(int), 1)", T, (2, 5, 1), "a.b,ac.->acb"),
    ("convolve", "np.convolve(x, y)", V, V, ".,.->."), ("correlate", "np.correlate(x, y, 'same')", V, V, ".,.->."),
    # the same numbers in another order
    ("reshape", "np.reshape(x, (2, 12))", T, "a..->a."), ("reshape", "np.reshape(x, (6, 4))", T, "..a->.a"),
    ("reshape", "np.reshape(x, -1)", M, "..->."), ("reshape", "np.reshape(x, (3, 2, 2))", M, "a.->a.."),
    ("reshape", "x[None, :, None]", M, "ab->.a.b"), ("reshape", "np.squeeze(x)", (3, 1, 4), "a.b->ab"),
    ("reshape", "np.reshape(x, (2, 6, 2, 1))", T, "a..->a..."),
    ("reshape", "np.reshape(x, (6, 1, 5, 4))", (2, 3, 5, 2, 2), "..a..->..a."),
    ("transpose", "x.T", T, "abc->cba"), ("transpose", "np.moveaxis(x, 0, 1)", T, "abc->bac"),
    ("broadcast_to", "np.broadcast_to(x, (2, 3, 4))", M, "ab->cab"), ("copy", "COPY(x.T)", T, "abc->abc"),
    ("broadcast_to", "np.broadcast_to(x, (3, 4))", (3, 1), "a.->ab"),
    ("concatenate", "np.concatenate([x, y])", M, (2, 4), ".a,.a->.a"),
    ("concatenate", "np.concatenate([x, x], 2)", T, "ab.,ab.->ab."),
    ("stack", "np.stack([x, y], 1)", M, M, "ab,ab->a.b"), ("stack", "np.array([x[0], x[1]], like=x)", V, ",->."),
    ("tile", "np.tile(x, (2, 1, 3, 1))", T, "a.b->.a.b"), ("repeat", "np.repeat(x, 2, 1)", T, "a.b->a.b"),
    ("lib.stride_tricks.sliding_window_view", "windows(x, (2, 2), (0, 2))", T, ".a.->.a..."),
    ("roll", "np.roll(x, 1, 0)", M, ".a->.a"), ("roll", "np.roll(x, (1, 2), (0, 2))", T, ".a.->.a."),
    ("roll", "np.roll(x, 1)", M, "..->.."), ("pad", "np.pad(x, ((0, 0), (1, 2)), 'edge')", M, "a.->a."),
    ("astype", "x.astype(int)", M, "ab->ab"), ("round", "np.round(x, 1)", M, "ab->ab"),
    ("stop_gradient", "sg.stop_gradient(x)", M, "ab->ab"), ("alias", "sg.name(x, 'h')", M, "ab->ab"),
    ("barrier", "BARRIER(np.sin(x), own=0)", M, "ab->ab"),
    # made from nothing, or nearly
    ("full", "np.full((2, 3), x[0], like=x)", V, "->ab"), ("arange", "np.arange(4, like=x)", V, ",,->."),
    ("eye", "np.eye(3, like=x)", V, "->.."), ("linspace", "np.linspace(x, y, 5)", M, (4,), "ab,b->.ab"),
    # indexing
    ("index", "x[1:]", M, ".a->.a"), ("index", "x[:, 1]", M, "a.->a"), ("index", "x[:, None, ::-1]", M, "a.->a.."),
    ("index", "x[I]", M, ".a,b->ba"), ("index", "x[:, I]", M, "a.,b->ab"), ("index", "x[I, I]", M, "..,a,a->a"),
    ("index", "x[I[:, None], :, I]", (3, 3, 4), ".a.,b.,c->bca"), ("index", "x[J, 0]", T, "..a,bc->bca"),
    ("index", "x[0, :, I]", T, ".a.,b->ba"), ("index", "x[y.astype(int)]", M, (2, 5), ".a,bc->bca"),
    ("index", "x[:, I, 1:]", T, "a..,b->ab."),
    ("index_set", "np.insert(x, 1, y, axis=0)", M, (4,), ".a,.a,.->.a"),
    ("index_add", "np.add.at(x := x.copy(), I, y) or x", M, (2, 4), ".a,.a,.->.a"),
    ("index_add", "np.add.at(x := x.copy(), (slice(None), I), y) or x", M, (2,), "a.,.,.->a."),
    ("index_add", "np.add.at(x := x.copy(), (slice(None), I), y) or x", M, (3, 2), "a.,a.,.->a."),
    ("index_add", "np.add.at(x := x.copy(), (slice(None), I), y) or x", M, (1, 2), "a.,..,.->a."),
    ("index_add", "np.add.at(x := x.copy(), (I, slice(None), I), y) or x", (4, 3, 3), (2, 3), ".a.,.a,.,.->.a."),
    # products
    ("matmul", "x @ y", M, N, "ab,bc->ac add"), ("matmul", "x @ y", M, (4,), "ab,b->a add"),
    ("matmul", "x @ y", V, M, "a,ab->b add"), ("matmul", "x @ y", V, V, "a,a-> add"),
    ("matmul", "x @ y", T, N, "abc,cd->abd add"), ("matmul", "x @ y", T, (5, 1, 4, 3), "abc,d.ce->dabe add"),
    ("matmul", "x @ y", (1, 3, 4), (2, 4, 3), ".ab,cbd->cad add"), ("matmul", "x @ y", V, T, "a,bac->bc add"),
    ("matmul", "x @ y", (3, 1), (1, 4), "ab,bc->ac add"),
    ("outer", "np.outer(x, y)", V, (4,), "a,b->ab"), ("vecdot", "np.vecdot(x, y)", T, (4,), "abc,c->ab add"),
    ("tensordot", "np.tensordot(x, y, 2)", T, (3, 4, 5), "abc,bcd->ad add"),
    ("tensordot", "np.tensordot(x, y, ((1, 2), (2, 0)))", T, (4, 5, 3), "abc,cdb->ad add"),
    ("tensordot", "np.tensordot(x, y, 0)", V, M, "a,bc->abc"),
    ("einsum", "np.einsum('nij,njk->nik', x, y)", T, (2, 4, 3), "abc,acd->abd add"),
    ("einsum", "np.einsum('ij,ij->', x, y)", M, M, "ab,ab-> add"),
    ("einsum", "np.einsum('ij,ij,jk->ik', x, y, z)", M, (1, 4), N, "ab,.b,bc->ac add"),
    ("einsum", "np.einsum('ij,kj->jik', x, y)", (3, 1), (2, 4), "a.,bc->cab"),
    ("einsum", "np.einsum('...i,...i->...', x, y)", T, M, "abc,bc->ab add"),
    ("kron", "np.kron(x, y)", M, (2, 2), "..,..->.."), ("kron", "np.kron(x, y)", (3, 1), (1, 4), "a.,.b->ab"),
    ("kron", "np.kron(x, y)", (1, 4), (2, 2), "..,a.->a."), ("cross", "np.cross(x, y)", (4, 3), V, "a.,.->a."),
    # matrices
    ("diag", "np.diag(x, 1)", V, ".->.."), ("diagonal", "np.diagonal(x, 1, 0, 2)", (3, 2, 3), ".a.->a."),
    ("trace", "np.trace(x, 0, 1, 2)", T, "a..->a"), ("tril", "np.tril(x)", T, "a..->a.."),
    ("vander", "np.vander(x, 20)", V, "a->a."),
    ("triu", "np.triu(x, 1)", M, "..->.."), ("tril", "np.tril(x)", V, ".->.."),
    ("linalg.solve", f"np.linalg.solve({SPD}, y)", (2, 3, 3), V, "a..,.->a."),
    ("linalg.solve", f"np.linalg.solve({SPD}, y)", (2, 3, 3), M, "a..,.b->a.b"),
    ("linalg.solve", f"np.linalg.solve({SPD}, y)", (3, 3), (5, 3, 4), "..,a.b->a.b"),
    ("linalg.lstsq", "np.linalg.lstsq(x, y)[0]", (4, 3), (4, 2), "..,.a->.a"),
    ("linalg.lstsq", "np.linalg.lstsq(x, y)[0]", (4, 3), (4,), "..,.->."),
    ("linalg.inv", f"np.linalg.inv({SPD})", (2, 3, 3), "a..->a.."),
    ("linalg.pinv", "np.linalg.pinv(x)", T, "a..->a.."), ("linalg.det", "np.linalg.det(x)", (2, 3, 3), "a..->a"),
    ("cofactors", "COFACTORS(x)", (2, 3, 3), "a..->a.."),
    ("cofactors_slope", "SLOPE(x, y)", (2, 3, 3), (3, 3), "a..,..->a.."),
    ("linalg.matrix_rank", "np.linalg.matrix_rank(x)", T, "a..->a"),
    ("linalg.cholesky", f"np.linalg.cholesky({SPD})", (2, 3, 3), "a..->a.."),
    ("linalg.eigvalsh", f"np.linalg.eigvalsh({SPD})", (2, 3, 3), "a..->a."),
    ("linalg.svdvals", "np.linalg.svdvals(x)", T, "a..->a."),
    ("linalg.eigvals", "np.linalg.eigvals(x + 0j)", (2, 3, 3), "a..->a."),
    # several results: no axes of one array
    ("divmod", "np.divmod(x, y)", M, (4,), "..,.->"), ("modf", "np.modf(x)", M, "..->"),
    ("frexp", "np.frexp(x)", M, "..->"), ("linalg.slogdet", "np.linalg.slogdet(x)", (2, 3, 3), "...->"),
    ("unravel_index", "np.unravel_index(x.astype(int), (3, 4))", M, "..->"),
    ("linalg.eigh", f"np.linalg.eigh({SPD})", (3, 3), "..->"), ("linalg.qr", "np.linalg.qr(x)", N, "..->"),
    ("linalg.eig", "np.linalg.eig(x + 0j)", (3, 3), "..->"),
    ("linalg.svd", "np.linalg.svd(x)", M, "..->"), ("item", "np.modf(x)", M, "->.."),
]  # fmt: skip


@pytest.mark.parametrize("case", CALLS, ids=lambda case: f"{case[1]} of {', '.join(map(str, case[2:-1]))}")
def test_flow_of_a_call(case):
    name, source, *shapes, want = case
    outputs, feeds = call(source, *shapes)
    assert written(signature_of(node_of(name, outputs))) == want
    check_flows(outputs, feeds)


@pytest.mark.parametrize("case", CALLS, ids=lambda case: f"{case[1]} of {', '.join(map(str, case[2:-1]))}")
def test_every_operator_is_batched(case):
    """Row by row is for the operators of users, and for what is named in the sweep; numbers of np.arange are known."""
    name, source, *shapes, _ = case
    outputs, feeds = call(source, *shapes)
    node = node_of(name, outputs)
    if node.inputs and node.op not in (ITEM, ARANGE):
        check_batched_node(node, interpret([*node.inputs], feeds))


@pytest.mark.parametrize("name", OPS)
def test_elementwise_operators_align_axes_from_the_last(name):
    op = OPS[name]
    n = arity(op)
    xs = draw(op, [np.float64 if name in FLOAT_OPS and name != "ldexp" else np.int64] * n, [(2, 3), (3,), (2, 1)][:n])
    _, _, (y,) = trace(op, *xs)
    assert written(signature_of(y)) == ",".join(["ab", "b", "a."][:n]) + "->ab"
    check_signature(y, xs, op.evaluate(*xs))
    with np.errstate(all="ignore"):
        check_batched_node(y, xs)


# ---- the table

WITHOUT_AXES = {
    "check",
    "cond",
    "custom",
    "scan",
    "transposed",
    "input",
    "constant",
    "size",
    "seed",
    "start",
    "item",
    "checkpoint",
    "loop",
    "chosen",
    "empty",
    "triu_indices",
    "tril_indices",
    "read_rows",
    "write_rows",
}  # given, several, or in loops only
OPAQUE = {
    # slices of a ramp, of a diagonal and of an identity start elsewhere
    "arange", "eye", "diag",
    # windows overlap
    "convolve", "correlate",
}  # fmt: skip


def operators():
    """Every operator that there is, wherever it is kept, and what its signature is, in a process that has no others."""
    return json.loads(
        in_a_fresh_process("""if True:
        import gc, json, symgrad.pipeline
        from symgrad.core.axes import opaque
        from symgrad.core.graph import Op
        ops = [op for op in gc.get_objects() if type(op) is Op]
        print(json.dumps({op.name: op.signature and ("opaque" if op.signature is opaque else "known") for op in ops}))
    """)
    )


def test_every_operator_has_a_flow_or_is_opaque_on_purpose():
    flows = operators()
    assert {name for name, signature in flows.items() if signature is None} == WITHOUT_AXES
    assert {name for name, signature in flows.items() if signature == "opaque"} == OPAQUE


def test_every_flow_is_tested():
    tested = {name for name, *_ in CALLS} | set(OPS)
    assert set(operators()) - tested == WITHOUT_AXES - {"item"} | {"number", "integer", "either"}  # which have no axes


def test_without_an_entry_everything_is_opaque():
    outputs, _ = call("x + y", M, (4,))
    node = with_signature(outputs[0], None)
    assert signature_of(node) == AxisSignature(((None, None), (None,)), (None, None))


def test_what_is_given_is_opaque():
    outputs, _ = call("x + np.ones(4)", M)
    assert [written(signature_of(x)) for x in outputs[0].inputs] == ["->..", "->."]


@pytest.mark.parametrize("text", ["..,.->.", "...i j->...i", "i.j->i", "i1->i"])
def test_signatures_are_of_letters(text):
    with pytest.raises(ArgumentError) as error:
        lettered(text)
    assert error.value.fact == f"{text!r} is not a signature"


# ---- the check can fail


def with_signature(node, signature):
    return dataclasses.replace(node, op=dataclasses.replace(node.op, signature=signature))


WRONG = [
    ("np.cumsum(x, 0)", lambda y, x, axis: aligned(y, x)),
    ("np.sum(x, 0)", lambda y, x, axis, keepdims: reduced(x, (0,), combine=np.maximum)),
    ("np.sum(x, 0)", lambda y, x, axis, keepdims: reduced(x, (1,), combine=np.add)),
    ("np.mean(x, 0)", lambda y, x, axis, keepdims: reduced(x, (0,), combine=np.add)),
    ("np.reshape(x, (4, 3))", lambda y, x, shape: AxisSignature(((1, 0),), (0, 1))),
    ("x.T", lambda y, x, axes: AxisSignature(((None, 1),), (None, 1))),
    ("x[:, :3] @ x[:, 1:]", lambda y, a, b: lettered("...ik,...jk->...ij", np.add)(y, a, b)),
    ("x[:, :3] @ x[:, 1:]", lambda y, a, b: lettered("...ki,...kj->...ij", np.add)(y, a, b)),
    ("np.outer(x[0], x[0])", lambda y, a, b: AxisSignature((("i",), ("i",)), ("i", None))),
    ("x + x[0]", lambda y, a, b: AxisSignature((("i", "j"), (None,)), ("i", "j"))),
    ("x + x[:1]", lambda y, a, b: AxisSignature((("i", "j"), ("i", "j")), ("i", "j"))),
    ("x[:, ::-1]", lambda y, x, key: aligned(y, x)),
    ("np.argsort(x, 1)", lambda y, x, axis, kind: aligned(y, x)),
    ("np.full((2, 3), x[0, 0], like=x)", lambda y, x, shape, dtype: AxisSignature(((),), ("i",))),
]


@pytest.mark.parametrize("source, signature", WRONG, ids=[f"{source} {i}" for i, (source, _) in enumerate(WRONG)])
def test_a_wrong_flow_is_caught(source, signature):
    outputs, feeds = call(source, (3, 4))
    node = outputs[0]
    *inputs, whole = interpret([*node.inputs, node], feeds)
    check_signature(node, inputs, whole)
    with pytest.raises((AssertionError, ValueError)):
        check_signature(with_signature(node, signature), inputs, whole)


@pytest.mark.parametrize(
    "source, facts",
    [
        ("np.cumsum(x, 0)", {"signature": aligned, "axes": {}}),
        ("np.cumsum(x, 0)", {"axes": {"axis": lambda axis, at, ndim, size: 2}}),
        ("np.sum(x, 0)", {"axes": {"axis": lambda axis, at, ndim, size: at - 1}}),
    ],
)
def test_a_wrong_batch_is_caught(source, facts):
    outputs, feeds = call(source, (3, 3))
    node, values = outputs[0], list(feeds.values())
    check_batched_node(node, values)
    with pytest.raises(AssertionError):
        check_batched_node(dataclasses.replace(node, op=dataclasses.replace(node.op, **facts)), values)


# ---- anything


@given(st.lists(st.sampled_from([1, 2, 2, 3, 4]), max_size=5), st.data())
def test_reshape_says_all_that_there_is(old, data):
    """An axis flows if and only if the place along it is the place along another one, for every number."""
    new = tuple(regrouping(data.draw(st.permutations(old)), data))
    assume(new != tuple(old))
    outputs, feeds = call(f"np.reshape(x, {new})", tuple(old))
    check_flows(outputs, feeds)
    (labels,), result = signature_of(outputs[0])[:2]
    pairs = {
        (i, j)
        for (i, place), (j, other) in product(enumerate(np.indices(old)), enumerate(np.indices(new)))
        if old[i] > 1 and new[j] > 1 and np.array_equal(place.reshape(new), other)
    }
    assert {(i, result.index(label)) for i, label in enumerate(labels) if label is not None} == pairs


def regrouping(sizes, data):
    """Some neighbours merged, some split, and some ones."""
    result = []
    for n in sizes:
        action = data.draw(st.sampled_from(["keep", "keep", "merge", "split", "one"]))
        if action == "merge" and result:
            result[-1] *= n
        else:
            result += [n // 2, 2] if action == "split" and n % 2 == 0 else [n, 1] if action == "one" else [n]
    return result


ITEMS = st.sampled_from(
    [slice(None)] * 3 + [slice(1, None), slice(None, None, -1), 0, np.array([1, 0]), np.array([[1]])]
)


@given(st.lists(ITEMS, max_size=4), st.integers(0, 4), st.integers(0, 4), st.data())
def test_keys(key, at, ellipsis, data):
    key.insert(at, None)
    if data.draw(st.booleans()):
        key.insert(ellipsis, Ellipsis)
    x = np.arange(144.0).reshape(2, 3, 4, 2, 3)
    shape = np.shape(x[tuple(key)])
    value = np.arange(1.0, 1 + int(np.prod(shape))).reshape(shape)
    ones = data.draw(st.lists(st.integers(0, 8), max_size=2))
    value = value[tuple(slice(1) if i in ones else slice(None) for i in range(value.ndim))]
    value = value[(0,) * data.draw(st.integers(0, value.ndim))]

    def f(x, value):
        y, z = x.copy(), x.copy()
        y[tuple(key)] = value
        np.add.at(z, tuple(key), value)
        return x[tuple(key)], y, z

    _, inputs, outputs = trace(f, x, value)
    check_flows(outputs, dict(zip(inputs, (x, value), strict=True)))


@given(st.lists(st.lists(st.sampled_from("ijkl"), max_size=3, unique=True), min_size=1, max_size=3), st.data())
def test_einsum(terms, data):
    sizes = {"i": 2, "j": 3, "k": 4, "l": 1}
    known = sorted({letter for term in terms for letter in term})
    out = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    shapes = [tuple(data.draw(st.sampled_from([sizes[k], sizes[k], 1])) for k in term) for term in terms]
    subscripts = f"{','.join(map(''.join, terms))}->{''.join(out)}"
    outputs, feeds = call(f"np.einsum({subscripts!r}, {', '.join('xyz'[: len(terms)])})", *shapes)
    check_flows(outputs, feeds)


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=3), st.booleans(), st.booleans(), st.data())
def test_products_of_stacks(shapes, left, right, data):
    a, b = shapes.input_shapes
    size = data.draw(st.sampled_from([1, 3]))
    x = (*a, 2, size) if left else (size,)
    y = (*b, size, 4) if right else (size,)
    check_flows(*call("x @ y", x, y))


@given(mutually_broadcastable_shapes(num_shapes=3, max_dims=4))
def test_broadcasting(shapes):
    check_flows(*call("np.where(x > 1, y, z)", *shapes.input_shapes))
    check_flows(*call(f"np.broadcast_to(x, {shapes.result_shape})", shapes.input_shapes[0]))


@given(steps)
def test_programs_and_their_gradients(program):
    args = [*map(np.asarray, arguments(1))]
    value_of(lambda *xs: run(program, *xs), args)
    graph, inputs, (y,) = trace(lambda *xs: run(program, *xs), *args)
    gradients = pullback(graph, [y], [graph.constant(np.ones(()))], inputs)
    check_flows([y, *(g for g in gradients if g is not None)], dict(zip(inputs, args, strict=True)))


# ---- symbolic sizes

SYMBOLIC = [
    ("x + y", "n, 3", "3", "ab,b->ab"), ("x * y", "n, 3", "1, 3", "ab,.b->ab"), ("x * y", "n, 1", "n, k", "a.,ab->ab"),
    ("x @ y", "n, k", "k, 2", "ab,bc->ac add"), ("np.sum(x, 0)", "n, k", "ab->b add"), ("x.T", "n, k", "ab->ba"),
    ("x.reshape(n, 6)", "n, 2, 3", "a..->a."), ("x.reshape(n, -1)", "n, k, 2", "a..->a."),
    ("x.reshape(n * k, 2)", "n, k, 2", "..a->.a"), ("x.reshape(-1)", "n, k", "..->."),
    ("x.reshape(n, 2, k)", "n, 2 * k", "a.->a.."), ("x[:, None]", "n, k", "ab->a.b"),
    ("x.reshape(k, n)", "n, k", "..->.."), ("x.reshape(2, n, k)", "2 * n, k", ".a->..a"),
    ("np.broadcast_to(x, (n, k))", "n, 1", "a.->ab"), ("np.full((n, 3), 2.5, like=x)", "n", "->ab"),
    ("np.concatenate([x, x], 1)", "n, k", "a.,a.->a."), ("x[:, 1:]", "n, 3", "a.->a."),
    ("x[np.array([0, 0])]", "n, k", ".a,b->ba"),
    ("np.einsum('ij,ij,kj->ik', x, y, x)", "n, k", "1, k", "ab,.b,cb->ac add"),
    ("np.kron(x, y)", "n, 1", "1, k", "a.,.b->ab"), ("np.kron(x, y)", "n, k", "1, k", "a.,..->a."),
]  # fmt: skip


@pytest.mark.parametrize("case", SYMBOLIC, ids=lambda case: " of ".join(case[:-1]))
def test_symbolic_sizes(case):
    source, *specs, want = case
    g = sg.Graph()
    xs = [g.input(name, f"float64[{spec}]") for name, spec in zip("xyz", specs, strict=False)]
    n, k = (g.sizes.symbol(letter) for letter in "nk")
    y = eval(source, {"np": np, "n": n, "k": k, **dict(zip("xyz", xs, strict=False))})
    assert written(signature_of(y.node)) == want
