"""Contestants: each makes of a case a function without arguments that computes value and gradients once."""

import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import metadata
from tempfile import TemporaryDirectory
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
    form : str
        The peer whose form of a loss it takes.
    """

    title: str
    modules: tuple[str, ...] = ()
    first_calls = 1
    form = ""

    def has(self, case: Case) -> bool:
        """Whether somebody has written the program for it."""
        return case.model.peers.get(self.form, "") is not None

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
    form = "numpy"

    def prepare(self, case: Case, args: tuple) -> Run:
        return partial(case.model.by_hand, *args)


class Jax(Contestant):
    title = "jax.jit"
    modules = ("jax",)
    form = "jax"
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
    form = "torch"

    def place(self, args: tuple) -> tuple:
        import torch

        return tree_map(torch.from_numpy, args)

    def prepare(self, case: Case, args: tuple) -> Run:
        import torch

        loss = self.loss(case)
        leaves = [x.requires_grad_() for x in tree_leaves(args[: case.model.wrt])]

        def run() -> tuple:
            value = loss(*args)
            return value.detach(), torch.autograd.grad(value, leaves) if leaves else ()

        return run

    def loss(self, case: Case) -> Callable:
        import torch

        return case.model.loss_of("torch", torch)


class CompiledTorch(Torch):
    """PyTorch with its compiler, which writes loops out and calls a compiler of the machine."""

    title = "torch.compile"

    def loss(self, case: Case) -> Callable:
        import torch

        torch._dynamo.reset()  # it keeps functions of one code only so often
        loss = super().loss(case)
        return torch.compile(lambda *args: loss(*args))


class Autograd(Contestant):
    title = "autograd"
    modules = ("autograd",)
    form = "autograd"

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
    form = "pytensor"

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


class Casadi(Contestant):
    """Graphs of matrices in double precision, derivatives by CasADi, compiled by the C compiler of the machine."""

    title = "CasADi"
    modules = ("casadi",)
    form = "casadi"

    def version(self) -> str:
        self.folder = TemporaryDirectory()  # what it compiles lies in the folder where it runs
        os.chdir(self.folder.name)
        return super().version()

    def has(self, case: Case) -> bool:
        return case.dtype == "float64" and case.model.wrt > 0 and super().has(case)

    def place(self, args: tuple) -> tuple:
        return tree_map(partial(np.asarray, order="F"), args)

    def prepare(self, case: Case, args: tuple) -> Run:
        import casadi as ca
        from casadi_names import names

        leaves, structure = PyTensor.leaves(args)
        inputs = [ca.MX.sym(f"x{i}", *(*x.shape, 1, 1)[:2]) for i, x in enumerate(leaves) if x.ndim < 3]
        if len(inputs) < len(leaves):
            raise NotImplementedError("its arrays have at most two dimensions")
        value = case.model.loss_of("casadi", names())(*tree_unflatten(structure, inputs))
        wrt = inputs[: len(tree_leaves(args[: case.model.wrt]))]
        outputs = [value, *(ca.densify(ca.gradient(value, x)) for x in wrt)]
        flags = {"flags": ["-O3", "-march=native"], "cleanup": False}
        options = {"jit": True, "compiler": "shell", "jit_options": flags, "jit_cleanup": False}
        return self.calling(ca.Function("f", inputs, outputs, options), leaves, [(), *(x.shape for x in leaves)])

    @staticmethod
    def calling(function: Any, leaves: list[np.ndarray], shapes: list[tuple[int, ...]]) -> Run:
        """Return the call through buffers, which makes new results as others do."""
        buffer, trigger = function.buffer()
        flat = [x.ravel(order="F") for x in leaves]
        for i, x in enumerate(flat):
            buffer.set_arg(i, memoryview(x))
        count = function.n_out()

        def run() -> list[np.ndarray]:
            results = [np.empty(shape, order="F") for shape in shapes[:count]]
            for i, x in enumerate(results):
                buffer.set_res(i, memoryview(x.reshape(-1, order="F")))
            trigger()
            return results

        run.kept = flat  # type: ignore[attr-defined]  # the buffer does not keep its arguments
        return run


class Numba(Contestant):
    """Loops by hand for value and gradients: Numba has no derivatives."""

    title = "Numba by hand"
    modules = ("numba",)
    form = "numba"

    def has(self, case: Case) -> bool:
        return case.dtype == "float64" and case.model.peers.get("numba") is not None

    def prepare(self, case: Case, args: tuple) -> Run:
        return partial(case.model.peers["numba"](), *args)  # type: ignore[misc]


CONTESTANTS = {
    "symgrad": Symgrad,
    "c": InC,
    "specs": FromSpecs,
    "numpy": ByHand,
    "jax": Jax,
    "torch": Torch,
    "compile": CompiledTorch,
    "autograd": Autograd,
    "pytensor": PyTensor,
    "casadi": Casadi,
    "numba": Numba,
}
