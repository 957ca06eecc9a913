"""Statements of random programs: templates, and how their places are filled from what the program has computed so far.

A template is a line of NumPy with places in braces, each of which is a method of `Choice`. What is written need not be
valid: the generator runs each statement and leaves out those that NumPy refuses.
"""

from __future__ import annotations

import re

import numpy as np

EXPRESSIONS = """
{x} + {y}; {x} - {y}; {x} * {y}; {f} / (2 + {sq}); {x} * {c}; {c} - {x}; {x} + {c}; {c} / (1.5 + np.cos({f})); -{x}
+{x}; np.multiply({x}, {y}, dtype={float}); np.add({x}, {y}, out=np.zeros({it}.shape)); {x} % 3; {x} // 2; {i} ** 2
{x} ** 2; {f} ** 3; ({f} * {it} + 1) ** {c}; np.power(2.0, np.tanh({f})); np.float32({c}) * {x}; {x} * np.array({c})
{x} * True; np.sin({x}); np.tanh({x}); np.exp(np.minimum({f}, 2)); np.log1p({f} * {it}); np.log(1 + np.exp({f}))
np.sqrt({f} ** 2 + 1); np.expm1(np.tanh({f})); np.arctan2({f}, np.abs({g}) + 0.5); np.arcsinh({x})
np.cbrt({f} ** 2 + 0.1); np.logaddexp({f}, {g}); np.hypot({f}, {g}); np.square({x}); np.abs({x}); np.sign({x})
np.floor({f}); np.round({f}, 1); np.reciprocal(2 + np.cos({x})); np.sinc({f}); np.maximum({x}, {y})
np.minimum({x}, {c}); np.maximum({f}, 0); np.clip({x}, -1, 1); np.clip({f}, {g}, 2); np.fmax({f}, {g})
np.where({m}, {y}, {y}); np.where({m}, {g}, {c}); np.where({f} > 0, np.sqrt({it}), 0.0)
np.where({f} > 0, np.log({it}), {g}); np.where({f} == 0, 1.0, np.sin({it}) / {it})
np.sqrt({f}, where={it} > 0, out=np.zeros_like({it})); np.select([{m}], [{x}], 1)
np.log({f}, where={it} > 0, out=np.ones({it}.shape)); np.add({x}, {y}, where={m}, out=np.ones({it}.shape))
np.sum({x}, where={m}); np.mean({f}, axis={axis}, where={m} | True); np.max({f}, where={m}, initial=-1.005); np.sum({x})
np.sum({x}, axis={axis}); np.sum({x}, axis={axis}, keepdims=True); np.mean({x}, axis={axis}); {x}.sum({axis})
np.max({x}, axis={axis}); np.min({x}, axis={axis}, keepdims=True); np.prod({x}, axis={axis})
np.std({f} + {g}, axis={axis}); np.var({f}, axis={axis}); np.any({m}, axis={axis}); np.all({m})
np.count_nonzero({m}, axis={axis}); np.ptp({f}, axis={axis}); np.argmax({x}, axis={axis}); np.argmin({x}, axis={axis})
np.median({f}, axis={axis}); np.logaddexp.reduce({f}, axis={axis}); np.linalg.norm({f} + 2); np.sum({m})
np.sum({i}, dtype=np.float32); np.nansum({f}, axis={axis}); np.average({f}, axis={axis}); np.cumsum({x}, axis={axis})
np.cumprod(np.tanh({f}), axis={axis}); np.maximum.accumulate({x}, axis={axis}); np.add.accumulate({x})
np.minimum.accumulate({f}, axis={axis}); np.cumsum({x}); np.diff({x}, axis={axis}); np.diff({f}, n=2)
np.subtract.outer({f}, {g}); np.multiply.outer({x}, {y}); np.add.reduce({x}, axis={axis}); np.gradient({f}, axis=0)
{x}.T; np.transpose({x}, {axes}); np.swapaxes({x}, 0, {axis}); np.moveaxis({x}, {axis}, 0); {x}.reshape(-1)
{x}.ravel(); {x}.reshape({shape}); np.reshape({x}, {shape}); {x}.T.reshape({shape}); {x}.flatten(); {x}[None]
{x}[..., None]; np.expand_dims({x}, {axis}); np.squeeze({x}); np.flip({x}); np.flip({x}, {axis}); np.roll({x}, 1)
np.roll({x}, -1, axis={axis}); np.rot90({x}); np.ravel({x}, order="F"); {x}.reshape({shape}, order="F")
np.broadcast_to({x}, (2, *{it}.shape)); np.concatenate([{x}, {y}]); np.concatenate([{x}, {it}[:1]], axis={axis})
np.stack([{x}, {y}], axis={axis}); np.vstack([{x}, {y}]); np.hstack([{x}, {y}]); np.array([{x}, {y}])
np.array([{x}, {c}, {y}]); np.tile({x}, 2); np.repeat({x}, 2, axis={axis}); np.array_split({x}, 2)[{bit}]
np.split({x}, 2)[0]; np.pad({x}, 1); np.pad({f}, 1, mode="edge"); np.append({x}, {y}); np.atleast_2d({x})
np.tril({x}); np.triu({x}, 1); np.diag({x}); np.diagonal({x}); np.trace({x}); np.diagflat({x}); np.zeros_like({x})
np.ones({x}.shape); np.full_like({x}, {c}); np.eye(len({x})); np.arange(len({x})); np.zeros({x}.shape, {dtype})
np.linspace(0, 1, len({x})); np.asarray({x}); np.array({x}); {x}.copy(); np.array({x}, dtype={dtype}); {x}; {x}[...]
{x}[()]; {x}[{s}]; {x}[{s}]; {x}[{s}]; {x}[{s}, {s}]; {x}[..., {s}]; {x}[{t}]; {x}[{t}]; {x}[{t}, {t}]; {x}[:, {t}]
{x}[{s}, {t}]; {x}[..., {t}]; {x}[{t}, None]; np.take({x}, {t}, axis={axis}); np.take({x}, {t}, mode="wrap")
{x}[::-1][{s}]; {x}[{s}][{s}]; {x}[{x} > 0]; np.take_along_axis({x}, np.argsort({it}, axis={axis}), axis={axis})
np.sort({x}); np.sort({x}, axis={axis}); np.argsort({x}); np.sort({f}, axis=None)[{s}]
{x}[np.argsort({it}, kind="stable")]; np.partition({f}, 0); np.searchsorted(np.sort({f}), {g})
np.choose({m} * 1, [{x}, {y}]); np.interp({f}, np.arange(3), np.array([0.0, 1.0, 4.0]))
np.compress([True, False], {x}, axis=0); {x}.astype({dtype}); {x}.astype({float}); {x} > {y}; {x} >= {c}; {x} == {y}
~({m}); {m} & {m}; {m} ^ {m}; {i} & 3; {i} << 1; {i} | {i}; np.isfinite({f}); np.logical_and({x}, {y}); {m} * {x}
{m} + {m}; {i} / 3; {i} - {f}; np.float16({c}) * {x}; {x} + {i}; {m} - {f}; {x} @ {y}; {f}.T @ {f}; {f} @ {it}.T
np.dot({x}, {y}); np.outer({x}, {y}); np.inner({x}, {y}); np.vdot({x}, {it}); np.kron({x}, {y})
np.tensordot({f}, {it}, axes={axis}); np.matmul({f}, {g}); np.vecdot({f}, {g}); np.cross({f}[..., :2], {it}[..., :2])
np.einsum("ij->ji", {x}); np.einsum("i,i", {x}, {it}); np.einsum("ij,ij->i", {x}, {it})
np.einsum("ij,j->i", {x}, {y}); np.einsum("ij,jk->ik", {x}, {y}); np.einsum("ii->i", {x})
np.einsum("i,j->ij", {x}, {y}); np.einsum("...i,...i->...", {x}, {y}); np.einsum("ij,kj->ik", {x}, {y})
np.einsum("ij->", {x}); np.einsum("i,ij,j->", {x}, {y}, {x}); np.einsum("ijk->kj", {x})
np.linalg.inv({mat} @ {it}.T + 3 * np.eye(len({it}))); np.linalg.det(np.tanh({mat} @ {it}.T) + 2 * np.eye(len({it})))
np.linalg.solve({mat} @ {it}.T + 2 * np.eye(len({it})), {it})
np.linalg.cholesky({mat} @ {it}.T + 2 * np.eye(len({it})))
np.linalg.slogdet({mat} @ {it}.T + 2 * np.eye(len({it})))[1]; np.linalg.eigvalsh({mat} + {it}.T)
np.linalg.norm({f}, axis={axis}); np.linalg.solve({mat}.T @ {it} + 2 * np.eye({it}.shape[1]), {f})
np.linalg.matrix_power(np.tanh({mat}), 2); np.lib.stride_tricks.sliding_window_view({x}, 2, axis=0)
np.convolve({f}, np.array([1.0, -0.5, 2.0])); np.convolve({f}, {f}, "same")
np.bincount(np.arange(len({f})) % 2, {it}); np.add.reduceat({f}, [0, 1]); np.nan_to_num({f}); np.trapezoid({f})
np.unwrap({f}); sum({x}[k] for k in range(len({it}))); float({c}) + {x}; np.sum([{x}, {it}])
np.max([{x}, {it} * 2], axis=0); {x} * len({y})
"""

STATEMENTS = """
{w}[{s}] = {c}; {w}[{s}] = {y}; {w}[{s}] = {it}[{s}]; {w}[1:] = {it}[:-1]; {w}[:-1] = {it}[1:] * 2; {w}[::-1] = {it}
{w}[...] = {y}; {w}[{t}] = {c}; {w}[{t}] = {y}; {w}[{m}] = {c}; {w}[{it} > 0] = 0; {w}[{it} < {c}] *= 2
{w}[{t}] += {c}; {w}[{s}] += {y}; {w} += {y}; {w} *= {c}; {w} -= {y}; {w} *= np.cos({it}); {w}[{s}] *= {c}
{w}[0] = np.sum({it}); {w}[{s}, {s}] = {y}; {w}.T[{s}] = {y}; {w}.reshape(-1)[{s}] = {c}; {w}[{s}][{s}] = {y}
{w}[..., {s}] *= {c}; {w}.flat[0] = 2; {w}.fill({c}); np.add.at({w}, {t}, {c}); np.add.at({w}, {row}, {y})
np.subtract.at({w}, {t}, {c}); np.multiply.at({w}, {row}, {c}); np.add({it}, {w}, out={w})
np.multiply({w}, {c}, out={it}); np.sin({w}, out={it}); np.copyto({w}, {y}); np.cumsum({w}, out={it})
np.copyto({w}, {y}, where={m}); np.put({w}, [0, -1], {c}); np.fill_diagonal({w}, {c})
np.put_along_axis({w}, {t}, {c}, 0); np.add({it}[1:], {w}[:-1], out={it}[:-1]); np.exp({w}, out={it}, where={it} < 1)
{w}[1:] -= {it}[:-1]; {w}[:, 0] = {y}; {w}[:] = {it}.T; {w}[:] = {it}[::-1]; {w} += {it}[::-1]; {w}[1:] += {it}[:-1]
{w} **= 2; {w} /= 2 + np.abs({it}); {w}.sort()
"""


OF_THE_PLANE = """
np.conj({x}); {x}.conj() * {y}; {x}.real; {x}.imag; np.real({x}) + 1j * np.imag({y}); np.angle({f}); np.abs({f})
np.abs({f}) ** 2; ({x} * {it}.conj()).real; {x} + 1j * {y}; np.exp(1j * {x}.real); np.exp(1j * {f}) / (2 + np.abs({it}))
{x} * {c}; np.vdot({x}, {it}); {f}.conj().T @ {it}; np.sqrt({f} + 3); np.log({f} + 4j); ({f} + 2) ** {c}; {f} ** 2
np.where(np.abs({x}) > 1, {y}, np.conj({it})); np.where({x}.imag > 0, {x}, 0); np.tanh({f} / 4); np.sin({f} / 2)
np.arctan({f} / 8); {f} / (1 + np.abs({it})); np.linalg.norm({f}); np.var({f}, axis={axis}); np.std({f} + 2)
np.linalg.inv({mat} @ {it}.conj().T + 3 * np.eye(len({it}))); np.linalg.eigvalsh({mat} + {it}.conj().T)
np.linalg.cholesky({mat} @ {it}.conj().T + 2 * np.eye(len({it}))); np.linalg.slogdet({mat} + 3 * np.eye(len({it})))[1]
np.linalg.solve({mat} + 4j * np.eye(len({it})), {f}); np.linalg.svd({mat}, compute_uv=False); np.vecdot({f}, {g})
np.linalg.det({mat} + 2j * np.eye(len({it}))); np.einsum("i,i", {x}, np.conj({it})); np.outer({x}, {it}.conj())
np.sum({x} * np.conj({it})); np.sum(np.abs({f})); np.mean({x}, axis={axis}); np.cumsum({x} * 1j); {x}.astype({dtype})
np.isreal({x}); np.iscomplex({x}); np.linspace({c}, 1j, len({x})); np.full({x}.shape, {c}); np.sign({f}); {x} * 1j
"""

PARTS = """
{w}.real = {c}; {w}.imag[...] = 0; {w}.real[{s}] = {y}.real; {w}.imag += {it}.real; {w}[{s}] *= 1j; {w} *= {it}.conj()
"""


def templates(table):
    """Return the templates between the semicolons; a template contains none itself."""
    return [template.strip() for line in table.strip().splitlines() for template in line.split(";")]


class Choice:
    """Fills the places of one template. ``it`` is the variable that was named last as a subject."""

    CONSTANTS = ("-2", "-1", "0", "0.5", "1", "1.5", "2", "3", "-0.25", "True")
    SLICES = ("1:", ":-1", "::-1", "::2", "0", "-1", ":", "1:3", "None", "...", ":1", "-2:", "::-2", "2:0:-1", "5:")
    FLOATS = ("np.float64", "np.float32", "np.float16")
    DTYPES = (*FLOATS, "bool", "int", "np.int8", "np.uint8", "np.int32", "float")

    def __init__(self, rng, values):
        self.rng, self.values, self.subject = rng, values, ""

    def fill(self, template):
        return re.sub(r"\{(\w+)\}", lambda place: getattr(self, place[1])(), template)

    def one(self, options):
        if not len(options):
            raise LookupError("nothing to choose from")
        return options[self.rng.integers(len(options))]

    def named(self, fits, numbers=True):
        """A variable that fits; later ones are likelier."""
        known = {name: x for name, x in self.values.items() if numbers or isinstance(x, (np.ndarray, np.generic))}
        names = [name for name, value in known.items() if fits(np.asarray(value))]
        return self.one(names + names[-3:])

    def about(self, fits):
        self.subject = self.named(fits)
        return self.subject

    def beside(self, fits, numbers=True):
        """A variable that broadcasts with the subject; perhaps no Python number, whose comparison is Python's."""
        shape = np.shape(self.values[self.subject])
        return self.named(lambda v: fits(v) and broadcasts(v.shape, shape), numbers)

    # ---- places

    def x(self):
        return self.about(lambda v: True)

    def f(self):
        return self.about(lambda v: v.dtype.kind == "f")

    def i(self):
        return self.about(lambda v: v.dtype.kind in "iu")

    def w(self):
        return self.about(lambda v: v.flags.writeable and v.ndim and v.size)

    def mat(self):
        return self.about(lambda v: v.ndim == 2 and v.dtype.kind == "f" and v.dtype.itemsize > 2)

    def it(self):
        return self.subject

    def y(self):
        return self.beside(lambda v: True)

    def g(self):
        return self.beside(lambda v: v.dtype.kind == "f")

    def m(self):
        self.subject = self.subject or self.x()
        if self.rng.random() < 0.4:
            return self.beside(lambda v: v.dtype.kind == "b")
        return f"({self.beside(lambda v: True, numbers=False)} {self.one(['>', '<=', '!='])} {self.c()})"

    def sq(self):
        return f"{self.g()} ** 2"

    def c(self):
        return str(self.one(self.CONSTANTS))

    def bit(self):
        return str(self.rng.integers(2))

    def float(self):
        return self.one(self.FLOATS)

    def dtype(self):
        return self.one(self.DTYPES)

    def axis(self):
        ndim = np.ndim(self.values[self.subject])
        return str(self.one(range(-ndim, ndim)) if self.rng.random() < 0.8 else None)

    def axes(self):
        return str(tuple(self.rng.permutation(np.ndim(self.values[self.subject])).tolist()))

    def shape(self):
        size = np.size(self.values[self.subject])
        factors = [k for k in (1, 2, 3, 4) if size % k == 0] or [1]
        return str((self.one(factors), -1) if self.rng.random() < 0.6 else (-1, self.one(factors)))

    def s(self):
        return self.one(self.SLICES)

    def row(self):
        """Places of a vector: of more axes ufunc.at of NumPy 2.4 forgets to broadcast the values."""
        return self.one(["0", "[0]", "[0, 0]", "np.array([0, -1, 0])", f"np.arange(len({self.subject}))[{self.s()}]"])

    def t(self):
        """Return an index that selects entries one by one: constants, computed integers, masks."""
        kind = self.rng.integers(5)
        if kind == 0:
            return self.one(
                ["[0]", "[0, 0]", "[-1, 0]", "np.array([0, 1, 0])", "[[0, 1], [1, 0]]", "np.array([], int)"]
            )
        if kind == 1:
            return self.one(["np.array([True, False])", "[True, False, True]", "np.arange(2) > 0"])
        if kind == 2:
            return self.named(lambda v: v.dtype.kind == "b" and v.ndim > 0)
        if kind == 3:
            return f"np.arange(len({self.subject}))[{self.s()}]"
        return f"np.abs({self.named(lambda v: v.dtype.kind in 'iu')}) % len({self.subject})"


class InThePlane(Choice):
    """Fills places where smooth numbers stand with complex ones as well."""

    CONSTANTS = (*Choice.CONSTANTS, "1j", "-1j", "(0.5 - 1j)", "(2 + 0.25j)")
    FLOATS = ("np.complex128", "np.complex64", "np.float64")
    DTYPES = ("complex", "complex", "np.complex64", "float", "np.float32")

    def f(self):
        return self.about(lambda v: v.dtype.kind in "fc")

    def g(self):
        return self.beside(lambda v: v.dtype.kind in "fc")

    def mat(self):
        return self.about(lambda v: v.ndim == 2 and v.dtype.kind in "fc" and v.dtype.itemsize > 2)


def broadcasts(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))
