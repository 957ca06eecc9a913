"""The same derivative by other packages, for comparison: the model run with their NumPy in place of NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from symgrad.cli.kinds import Derivative
from symgrad.cli.shapes import Call
from symgrad.errors import ArgumentError
from symgrad.export.target import copy_of, find, load_module, split_target
from symgrad.frontend.arguments import bind
from symgrad.transforms.wrt import Choice

PEERS = ("autograd", "jax")
KINDS = ("grad", "value_and_grad", "hessian", "jacobian")


def peer_of(name: str, target: str, derivative: Derivative, call: Call) -> Callable[[], Any]:
    """A call of the derivative as a package computes it, for arguments at hand; tried once, and refused if it fails."""
    try:
        package = importlib.import_module(name)
        other = importlib.import_module({"autograd": "autograd.numpy", "jax": "jax.numpy"}[name])
    except ModuleNotFoundError:
        raise ArgumentError(f"{name} is not installed", "Install it, or leave it out of --against.") from None
    if derivative.kind not in KINDS or derivative.order != 1 or call.kwargs:
        raise ArgumentError(
            f"no comparison with {name} of {derivative.kind}, order {derivative.order}",
            f"It is for {', '.join(KINDS)} of functions whose arguments are positional.",
        )
    place, function = split_target(target)
    model = copy_of(load_module(place))
    _exchange(model, other)
    f = find(model, place, function)
    chosen = _positions(f, derivative, call)
    made = getattr(package, derivative.kind)(f, chosen)
    run = _jax(package, made, call) if name == "jax" else lambda: made(*call.args)
    try:
        run()
    except Exception as error:  # of another package, whatever it does not take
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ArgumentError(f"{name} cannot run {target}: {said}", "Leave it out of --against.") from error
    return run


def _jax(package: Any, made: Callable[..., Any], call: Call) -> Callable[[], Any]:
    package.config.update("jax_enable_x64", True)
    compiled, args = package.jit(made), package.device_put(call.args)
    return lambda: package.block_until_ready(compiled(*args))


def _exchange(model: ModuleType, other: ModuleType) -> None:
    """Names of the model that stand for NumPy, or for something of it, stand for what the other package has."""
    for name, x in list(vars(model).items()):
        own = getattr(x, "__name__", "")
        if x is np:
            setattr(model, name, other)
        elif own and getattr(np, own, None) is x and hasattr(other, own):
            setattr(model, name, getattr(other, own))


def _positions(f: Callable[..., Any], derivative: Derivative, call: Call) -> int | tuple[int, ...]:
    """The arguments to differentiate by as numbers, which is what all packages take."""
    names = list(bind(f, call.args, call.kwargs).arguments)
    choice = Choice(derivative.argnums, derivative.wrt)
    paths = choice.dotted(f, bind(f, call.args, call.kwargs))
    for path in paths:
        if path not in names:
            raise ArgumentError(f"no comparison with respect to {path}", "Choose whole arguments: --wrt w.")
    positions = tuple(map(names.index, paths))
    return positions[0] if choice.single else positions
