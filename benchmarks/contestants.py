"""Contestants: each makes of a case a function without arguments that computes value and gradients once."""

import importlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from cases import Case
from optree import tree_leaves, tree_map, tree_unflatten

Run = Callable[[], Any]


class Contestant:
    """Base of the contestants.

    Attributes
    ----------
    title : str
        As it stands in the table.
    modules : tuple of str
        What must be installed.
    first_calls : int
        How many fresh functions are made to measure a first call.
    """

    title: str
    modules: tuple[str, ...] = ()
    first_calls = 1

    def version(self) -> str:
        """Imports the modules; the version of the first."""
        for module in self.modules:
            importlib.import_module(module)
        name = self.modules[0]
        return getattr(importlib.import_module(name), "__version__", None) or metadata.version(name)

    def warm_up(self) -> None:
        """Let whatever is imported late or compiled once for all be there before a first call is measured."""

    def place(self, args: tuple) -> tuple:
        """The arguments as this contestant keeps them."""
        return args

    def prepare(self, case: Case, args: tuple) -> Run:
        """A fresh function; nothing of it is compiled yet, or else all of it in here."""
        raise NotImplementedError

    def compile(self, case: Case, args: tuple) -> Run | None:
        """A fresh function that is compiled but was not called yet, where these can be told apart."""
        return None

    def numbers(self, result: Any) -> list[np.ndarray]:
        """Value and gradients as NumPy's arrays."""
        return [np.asarray(x) for x in tree_leaves(result)]


class Symgrad(Contestant):
    title = "symgrad"
    modules = ("symgrad",)
    first_calls = 5

    def __init__(self, **options: Any) -> None:
        self.options = options

    def warm_up(self) -> None:
        import symgrad as sg

        sg.value_and_grad(lambda x: np.sum(np.cos(x) * x), **self.options)(np.ones(3))

    def prepare(self, case: Case, args: tuple) -> Run:
        return partial(self.function(case), *args)

    def compile(self, case: Case, args: tuple) -> Run:
        return partial(self.function(case).compile(*args), *args)

    def function(self, case: Case) -> Any:
        """The function of symgrad, not compiled yet."""
        import symgrad as sg

        loss = partial(case.model.loss, np)
        if not case.model.wrt:
            return sg.compile(lambda *args: (loss(*args), ()), **self.options)
        return sg.value_and_grad(loss, case.model.argnums, **self.options)


class InC(Symgrad):
    title = "symgrad in C"
    first_calls = 1

    def __init__(self, **options: Any) -> None:
        super().__init__(target="c", **options)


class FromSpecs(Symgrad):
    """The code that is kept: compiled once for all sizes, before there are arrays."""

    title = "from specs"

    def prepare(self, case: Case, args: tuple) -> Run:
        return self.compile(case, args)

    def compile(self, case: Case, args: tuple) -> Run:
        import symgrad as sg

        *general, last = case.specs()
        for specs in general:
            with suppress(sg.errors.SymgradError):
                return partial(self.function(case).compile(*specs), *args)
        return partial(self.function(case).compile(*last), *args)


class ByHand(Contestant):
    title = "NumPy by hand"
    modules = ("numpy",)

    def prepare(self, case: Case, args: tuple) -> Run:
        return partial(case.model.by_hand, *args)


class Jax(Contestant):
    title = "jax.jit"
    modules = ("jax",)
    first_calls = 3

    def version(self) -> str:
        import jax

        jax.config.update("jax_enable_x64", True)
        return super().version()

    def warm_up(self) -> None:
        import jax
        import jax.numpy as jnp

        jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.cos(x) * x)))(np.ones(3))

    def place(self, args: tuple) -> tuple:
        import jax

        return jax.block_until_ready(jax.device_put(args))

    def prepare(self, case: Case, args: tuple) -> Run:
        import jax
        import jax.numpy as jnp

        loss = case.model.loss_of("jax", jnp)
        compiled = jax.jit(self.derivative(case, lambda *args: loss(*args)))  # jax remembers what it has traced
        return lambda: jax.block_until_ready(compiled(*args))

    @staticmethod
    def derivative(case: Case, loss: Callable) -> Callable:
        """Value and gradients, in the mode that there is."""
        import jax

        argnums = case.model.argnums
        if not argnums:
            return loss
        if "jax" in case.model.forward:
            return lambda *args: (loss(*args), jax.jacfwd(loss, argnums)(*args))
        return jax.value_and_grad(loss, argnums)


class Torch(Contestant):
    title = "PyTorch"
    modules = ("torch",)

    def place(self, args: tuple) -> tuple:
        import torch

        return tree_map(torch.from_numpy, args)

    def prepare(self, case: Case, args: tuple) -> Run:
        import torch

        loss = case.model.loss_of("torch", torch)
        leaves = [x.requires_grad_() for x in tree_leaves(args[: case.model.wrt])]

        def run() -> tuple:
            value = loss(*args)
            return value.detach(), torch.autograd.grad(value, leaves) if leaves else ()

        return run


class Autograd(Contestant):
    title = "autograd"
    modules = ("autograd",)

    def prepare(self, case: Case, args: tuple) -> Run:
        import autograd
        import autograd.numpy as anp

        loss = case.model.loss_of("autograd", anp)
        if not case.model.wrt:
            return partial(loss, *args)
        return partial(autograd.value_and_grad(lambda *args: loss(*args), case.model.argnums), *args)


class PyTensor(Contestant):
    title = "PyTensor"
    modules = ("pytensor",)

    def prepare(self, case: Case, args: tuple) -> Run:
        import pytensor
        import pytensor.tensor as pt

        leaves, structure = self.leaves(args)
        with pytensor.config.change_flags(floatX=case.dtype):
            inputs = [pt.tensor(f"x{i}", dtype=x.dtype, shape=x.shape) for i, x in enumerate(leaves)]
            arguments = tree_unflatten(structure, inputs)
            value = case.model.loss_of("pytensor", pt)(*arguments)
            wrt = inputs[: len(tree_leaves(args[: case.model.wrt]))]
            function = pytensor.function(inputs, [value, *pytensor.grad(value, wrt)])
        function.trust_input = True
        return partial(function, *leaves)

    @staticmethod
    def leaves(args: tuple) -> tuple[list[np.ndarray], Any]:
        from optree import tree_flatten

        return tree_flatten(args)


CONTESTANTS = {
    "symgrad": Symgrad,
    "c": InC,
    "specs": FromSpecs,
    "numpy": ByHand,
    "jax": Jax,
    "torch": Torch,
    "autograd": Autograd,
    "pytensor": PyTensor,
}
