"""A page of a user's code, for type checkers: `mypy --strict` and pyright find no error in it, and know the results."""

from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import symgrad as sg
from symgrad.export.source_text import SourceText

Array = NDArray[np.float64]


def loss(w: Array, X: Array, y: Array, decay: float = 0.1) -> np.float64:
    margin = y * (X @ w)
    return np.float64(np.mean(np.log(1 + np.exp(-margin))) + decay * np.sum(w**2))


def energy(params: dict[str, Array], x: Array) -> np.float64:
    return np.float64(np.sum(np.tanh(x @ params["W"]) ** 2))


def with_aux(x: Array) -> tuple[np.float64, Array]:
    return np.float64(np.sum(x**2)), x


@sg.grad
def cube(x: float) -> float:
    return x**3


@dataclass
class Model:
    loss: sg.Function[[Array], np.float64]
    scale: float = 1.0

    @sg.compile
    def energy(self, x: Array) -> Array:
        return self.scale * x


@sg.custom_vjp
def softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


def softplus_forward(x: Array) -> tuple[Array, Array]:
    return softplus(x), x


def softplus_backward(x: Array, g: Array) -> tuple[Array]:
    return (g / (1 + np.exp(-x)),)


softplus.defvjp(softplus_forward, softplus_backward)


@sg.checkpoint
def block(x: Array) -> Array:
    return sg.name(softplus(x), "block")


def limited(g: Array) -> Array:
    return np.tanh(g)


def functions(x: Array) -> None:
    """Functions that pass a value or a function on keep its type."""
    assert_type(softplus(x), Array)
    assert_type(block(x), Array)
    assert_type(sg.stop_gradient(x), Array)
    assert_type(sg.on_gradient(x, limited), Array)
    value, pullback = sg.vjp(block, x)
    assert_type(value, Array)
    assert_type(sg.jvp(block, (x,), (x,)), tuple[Array, Array])
    print(pullback(x))


def residual(x: Array, a: float) -> Array:
    return x**3 - a


def step(carry: Array, x: float) -> tuple[Array, np.float64]:
    return carry * x, np.float64(carry[0])


def larger(x: Array) -> Array:
    return 2 * x


def loops(x: Array) -> None:
    """Loops, branches and implicit functions give what they start with, and matrices are arrays."""
    assert_type(sg.hessian(loss)(x, x, x), NDArray[Any])
    assert_type(sg.hessian(loss, static_argnames="decay")(x, x, x, 0.5), NDArray[Any])
    assert_type(sg.jacobian(larger)(x), NDArray[Any])
    assert_type(sg.jacfwd(residual)(x, 2.0), NDArray[Any])
    assert_type(sg.jacrev(residual)(x, 2.0), NDArray[Any])
    assert_type(sg.hvp(loss)(x, x, x, x), Array)
    assert_type(sg.cond(True, larger, block, x), Array)
    assert_type(sg.root(residual, x, 2.0), Array)
    assert_type(sg.minimize(loss, x, x, x), Array)
    carry, ys = sg.scan(step, x, x)
    assert_type(carry, Array)
    assert_type(ys, NDArray[Any])
    assert_type(sg.fori_loop(0, 3, lambda i, y: 2 * y, x), Array)
    assert_type(sg.while_loop(lambda y: y[0] < 3, larger, x), Array)


def graph() -> sg.Compiled:
    """The other door."""
    g = sg.Graph()
    x = g.input("x", "float64[n]")
    y = -(x**2) + 2 * x[0]
    assert_type(y, sg.Variable)
    assert_type(sg.gradients(y, [x]), list[sg.Variable])
    assert_type([node.op.name for node in g.nodes], list[str])
    return sg.function([x], sg.gradients(y, [x]))


def saved(program: sg.Compiled, w: Array) -> str:
    """Return the version, after uses of a program's products."""
    profile = program.profile(w)
    assert_type(profile.by_where, dict[str, float])
    assert_type(sg.verify(program.save("slope.py")).fact, str)
    try:
        sg.draw(program, "slope.svg", profile=profile)
    except sg.errors.SymgradError as error:
        assert_type(error.fact, str)
        return error.fact
    return sg.__version__


def main(w: Array, X: Array, y: Array, params: dict[str, Array]) -> None:
    slope = sg.grad(loss)
    assert_type(slope(w, X, y), Array)
    assert_type(slope(w, X, y, decay=0.2), Array)
    value, gradient = sg.value_and_grad(loss, optimize=1)(w, X, y)
    assert_type(value, np.float64)
    assert_type(gradient, Array)
    assert_type(sg.grad(energy, check_nan=True)(params, X), dict[str, Array])
    assert_type(sg.grad(with_aux, has_aux=True)(w)[1], Array)
    assert_type(sg.compile(loss)(w, X, y), np.float64)
    assert_type(cube(2.0), float)
    assert_type(sg.grad(cube)(2.0), float)
    both: tuple[Array, Array] = sg.grad(loss, argnums=(0, 1))(w, X, y)
    curvature: Array = sg.hessian(loss, static_argnames="decay")(w, X, y, 0.5)

    program = slope.compile(w, X, y, optimize=0)
    assert_type(program, sg.Compiled)
    assert_type(program.source, SourceText)
    assert_type(program.source(), SourceText)
    assert_type(slope.source("float64[d]", "float64[n, d]", "float64[n]").program, str)

    model = Model(sg.compile(lambda x: np.float64(1.0)))
    assert_type(model.loss(w), np.float64)
    assert_type(model.energy(w), Array)

    with sg.options(optimize=0, numerics="ieee", threads=1):
        each = sg.vmap(slope, in_axes=(None, 0, 0))
    print(each(w, X, y), both, curvature, refused(w, X, y))


def refused(w: Array, X: Array, y: Array) -> Any:
    """Mistakes that a type checker finds: `warn_unused_ignores` of mypy says if it does not."""
    sg.grad(loss, optimise=1)  # type: ignore[call-overload]
    sg.grad(loss, argnum=1)  # type: ignore[call-overload]
    sg.compile(loss, numerics="fast")  # type: ignore[arg-type]
    sg.jacobian(loss, mode="both")  # type: ignore[call-overload]
    sg.grad(loss)(w, X)  # type: ignore[call-overload]
    return sg.compile(loss)(w, X, "y")  # type: ignore[arg-type]
