"""Trees that hold what has no derivative, such as texts and counts, and paths to parts of arguments."""

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ArgumentError, DTypeError

W = np.array([0.3, 0.5])


class Kind(enum.Enum):
    TANH = 1
    RELU = 2


class Order(enum.IntEnum):
    FIRST = 1
    SECOND = 2


@dataclass
class Model:
    W: Any
    activation: Any = "tanh"
    layers: int = 3
    bias: Any = None
    doubled: bool = True
    steps: "int | None" = None


class Pair(NamedTuple):
    w: Any
    kind: str
    power: int


def loss(model, x=1.5):
    h = model.W * x
    for _ in range(model.layers):
        h = np.tanh(h) if model.activation in ("tanh", Kind.TANH, Order.FIRST, np.tanh) else np.maximum(h, 0)
    if model.bias is not None:
        h = h + model.bias
    return np.sum(h * 2 if model.doubled else h)


def difference(f, w):
    steps = 1e-6 * np.eye(len(w))
    return np.array([(f(w + d) - f(w - d)) / 2e-6 for d in steps])


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"activation": Kind.TANH},
        {"activation": Kind.RELU, "layers": 1},
        {"activation": Order.FIRST, "doubled": False},
        {"activation": np.tanh, "steps": 4},
        {"activation": None, "bias": 0.25},
    ],
    ids=repr,
)
def test_fields_that_have_no_derivative(rest, level):
    found = sg.grad(loss, optimize=level)(Model(W, **rest))
    assert isinstance(found, Model)
    np.testing.assert_allclose(found.W, difference(lambda w: loss(Model(w, **rest)), W), rtol=1e-6)
    assert (found.activation, found.layers, found.doubled, found.steps) == (None,) * 4
    assert (found.bias is None) == ("bias" not in rest) and (found.bias is None or found.bias == 4)


def test_another_text_or_count_is_another_program():
    slope = sg.grad(loss)
    for rest in ({"layers": 1}, {"layers": 2}, {"activation": "relu"}, {"layers": 1}):
        found = slope(Model(W, **rest)).W
        np.testing.assert_allclose(found, difference(lambda w, rest=rest: loss(Model(w, **rest)), W), rtol=1e-6)


def test_named_tuples_dicts_and_lists():
    assert sg.grad(lambda p: np.sum(p.w**p.power))(Pair(W, "a", 2))[1:] == (None, None)
    found = sg.grad(lambda p: np.sum(p["w"] ** 2) if p["kind"] == "a" else 0.0)({"w": W, "kind": "a", "on": True})
    np.testing.assert_allclose(found.pop("w"), 2 * W)
    assert found == {"kind": None, "on": None}
    assert sg.grad(lambda p: p[0] ** 2 if p[1] else p[0])([2.0, True]) == [4.0, None]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_all_transforms(level):
    model, cube = Model(W), lambda m: np.sum(m.W**m.layers)
    value, found = sg.value_and_grad(cube, optimize=level)(model)
    assert value == np.sum(W**3) and found.layers is None
    np.testing.assert_allclose(sg.jacobian(lambda m: m.W * m.layers, optimize=level)(model).W, 3 * np.eye(2))
    np.testing.assert_allclose(sg.hessian(cube, optimize=level)(model).W.W, np.diag(6 * W))
    np.testing.assert_allclose(sg.hvp(cube, optimize=level)(model, model).W, 6 * W * W)
    with sg.options(optimize=level):
        np.testing.assert_allclose(sg.vjp(cube, model)[1](1.0)[0].W, 3 * W**2)
        np.testing.assert_allclose(sg.jvp(cube, (model,), (model,))[1], np.sum(3 * W**3))
    sg.check_grads(cube, (model,))


def test_what_is_chosen_itself_has_to_be_floating():
    with pytest.raises(DTypeError, match=r"p.kind, which is 'a'"):
        sg.grad(lambda p: np.sum(p["w"]), wrt="p.kind")({"w": W, "kind": "a"})
    with pytest.raises(DTypeError, match=r"model.layers, which is 3"):
        sg.grad(loss, wrt="model.layers")(Model(W))
    with pytest.raises(DTypeError, match="p, which has no floating number"):
        sg.grad(lambda p, x: x)({"kind": "a"}, 2.0)


def test_an_int_that_may_be_meant_as_a_float_is_refused():
    for given in ({"w": W, "k": 3}, {"w": W, "k": 3, "kind": "a"}):
        with pytest.raises(DTypeError, match=r"p.k, which is 3") as caught:
            sg.grad(lambda p: np.sum(p["w"]) * p["k"])(given)
        assert caught.value.instead.endswith('static_argnames="p.k".')
    found = sg.grad(lambda p: np.sum(p["w"]) * p["k"], static_argnames="p.k")({"w": W, "k": 3})
    assert found["k"] is None and found["w"].tolist() == [3, 3]


# ---- paths

NETS = [{"layers": [{"W": W}, {"W": 2 * W}]}, Model(W, bias=[Model(2 * W), Model(3 * W)])]


def of_dicts(p, x=2.0):
    return np.sum(p["layers"][0]["W"] ** 2 * x) + np.sum(p["layers"][1]["W"] ** 3)


def of_dataclasses(p):
    return np.sum(p.W) + np.sum(p.bias[0].W ** 2) + np.sum(p.bias[1].W ** 3)


@pytest.mark.parametrize("path", ["p.layers.0.W", "p.layers[0].W", "p['layers'][0]['W']", 'p["layers"][0].W'])
def test_paths_as_signatures_write_them(path):
    np.testing.assert_allclose(sg.grad(of_dicts, wrt=path)(NETS[0]), 4 * W)
    (found,) = sg.grad(of_dicts, wrt=[path])(NETS[0])
    np.testing.assert_allclose(found, 4 * W)


def test_each_path_of_a_signature_is_one_to_differentiate_by():
    for f, net in zip((of_dicts, of_dataclasses), NETS, strict=True):
        signature = sg.compile(f).compile(net).signature.partition(" -> ")[0]
        whole = sg.grad(f)(net)
        for path in [part.partition(": ")[0] for part in signature.split(", ")]:
            np.testing.assert_array_equal(sg.grad(f, wrt=path)(net), eval(path, {"p": whole}))
    assert isinstance(sg.grad(of_dataclasses, wrt="p.bias[1]")(NETS[1]), Model)
    np.testing.assert_allclose(sg.grad(lambda *xs: xs[0] * xs[1] ** 2, wrt="xs[1]")(2.0, 3.0), 12)


def test_a_key_that_looks_like_a_path():
    f = lambda p: p["a[0]"] ** 2 * p["a"][0]
    assert sg.grad(f, wrt="p.a[0]")({"a[0]": 2.0, "a": [5.0]}) == 20
    assert sg.grad(f, wrt="p.a.0")({"a[0]": 2.0, "a": [5.0]}) == 4


def test_a_path_that_is_not_there():
    with pytest.raises(ArgumentError, match="no argument and no value"):
        sg.grad(of_dicts, wrt="p.layers[7].W")(NETS[0])


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("path", ["p.n", "p['n']", 'p["n"]'])
def test_a_static_part_of_an_argument(path, level):
    def f(p, x):
        return sum(np.sum(p["w"]) * x**i for i in range(p["n"]))

    slope = sg.grad(f, static_argnames=path, optimize=level)
    for n in (2, 4, 2):
        found = slope({"w": W, "n": n}, 1.5)
        np.testing.assert_allclose(found["w"], sum(1.5**i for i in range(n)))
        assert found["n"] is None
    compiled = slope.compile({"w": "float64[2]", "n": 3}, "float64[]")
    np.testing.assert_allclose(compiled({"w": W, "n": 3}, np.float64(1.5))["w"], 4.75)
    with pytest.raises(ArgumentError):
        compiled({"w": W, "n": 4}, np.float64(1.5))


def test_static_arrays_below_an_argument():
    f = sg.grad(lambda p, x: np.sum(p["tables"][1] * x), argnums=1, static_argnames=["p.tables"])
    for scale in (1.0, 3.0, 1.0):
        assert f({"tables": [W, scale * W]}, 2.0) == np.sum(scale * W)
    both = sg.grad(lambda p: np.sum(p["a"] * p["b"]), static_argnames="p.a")({"a": W, "b": 2 * W})
    assert both["a"] is None and np.array_equal(both["b"], W)


def test_static_items_of_args_and_keywords():
    f = lambda x, *rest, **named: np.sum(x * np.array(rest[1])) * rest[0] * len(named)
    for options in ({"static_argnums": 2}, {"static_argnums": -1}, {"static_argnames": "rest[1]"}):
        slope = sg.grad(f, **options)
        for table in ([3.0, 4.0], [1.0, 2.0, 3.0]):
            assert slope(1.5, 2.0, table, a=1) == 2 * sum(table)
    by_name = sg.grad(lambda x, **named: x ** len(named["table"]), static_argnames=["table", "named.other"])
    assert by_name(2.0, table={"a": 1, "b": 2}, other=frozenset()) == 4


def test_static_parts_that_are_not_there():
    with pytest.raises(ArgumentError, match=r"there is no argument 'q.n'"):
        sg.grad(of_dicts, static_argnames="q.n")
    with pytest.raises(ArgumentError, match=r"there is no 'p.steps' in this call") as caught:
        sg.grad(of_dicts, static_argnames="p.steps")(NETS[0])
    assert caught.value.instead == "There is layers.0.W, layers.1.W."


def test_static_parts_are_saved(tmp_path):
    f = sg.grad(lambda p, x: p["k"] * x**2 * p["w"], argnums=1, static_argnames="p.k")
    path = tmp_path / "saved.py"
    f.compile({"k": 3, "w": 2.0}, 1.5).save(path)
    assert sg.load(path)({"k": 3, "w": 2.0}, 1.5) == 18
