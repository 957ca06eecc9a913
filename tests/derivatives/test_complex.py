"""Derivatives of complex numbers.

The derivative by z = x + iy is df/dx - i df/dy, so that the rules of holomorphic functions are those of real ones.
Everything here is compared with finite differences in directions of the plane, by `check_grads`.
"""

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import DTypeError, NotDifferentiableError
from symgrad.ops.define import TABLE
from tests.oracle import check_grads_in_turn

RNG = np.random.default_rng(0)


def drawn(*shape, low=0.3, high=1.5):
    """Complex numbers off the axes, along which branches are cut."""
    angles = RNG.choice([-1, 1], shape) * RNG.uniform(0.2, 1.4, shape) + RNG.choice([0, np.pi], shape)
    return RNG.uniform(low, high, shape) * np.exp(1j * angles)


def real(*shape):
    return RNG.uniform(0.3, 1.5, shape)


# ---- the table


def _takes_complex(f):
    if not isinstance(f, np.ufunc) or f.signature is not None:
        return False
    try:
        return f.resolve_dtypes((np.dtype(complex),) * f.nin + (None,) * f.nout)[0].kind == "c"
    except TypeError:
        return False


UFUNCS = {f.__name__: f for f in TABLE if _takes_complex(f)}
OF_NUMBERS = [name for name, f in UFUNCS.items() if f(*[1 + 2j] * f.nin).dtype.kind in "fc"]


@pytest.mark.parametrize("name", UFUNCS)
def test_values_are_numpys(name):
    f = UFUNCS[name]
    for mixed in (False, True):
        xs = [drawn(2, 3), real(3) if mixed else drawn(3)][: f.nin]
        result = sg.compile(lambda *xs: f(*xs))(*xs)
        np.testing.assert_allclose(result, f(*xs), rtol=1e-13)
        assert result.dtype == f(*xs).dtype


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_derivatives_equal_differences(name):
    f = UFUNCS[name]
    check_grads_in_turn(lambda *xs: f(*xs), [drawn(2, 3), drawn(3)][: f.nin], OF_NUMBERS.index(name))


@pytest.mark.parametrize("name", [name for name in OF_NUMBERS if UFUNCS[name].nin == 2])
def test_derivatives_of_real_and_complex_numbers_together(name):
    f = UFUNCS[name]
    turn = OF_NUMBERS.index(name)
    check_grads_in_turn(lambda *xs: f(*xs), [drawn(2, 3), real(3)], turn)
    check_grads_in_turn(lambda *xs: f(*xs), [real(2, 1), drawn(2, 3)], turn + 1)


@pytest.mark.parametrize("name", [name for name in OF_NUMBERS if name != "float_power"])
def test_complex64_stays_complex64(name):
    f = UFUNCS[name]
    xs = [x.astype(np.complex64) for x in (drawn(3), drawn(3))][: f.nin]
    loss = sg.value_and_grad(lambda *xs: np.sum(np.abs(f(*xs))), tuple(range(f.nin)))
    value, gradients = loss(*xs)
    assert value.dtype == np.float32
    assert all(g.dtype == np.complex64 for g in gradients)
    source = str(loss.source(*xs, optimize=0))
    assert "complex128" not in source
    assert "float64" not in source


SIDES = [(x, zero) for x in (-2.3, 2.3) for zero in (0.0, -0.0)]
ON_CUTS = [complex(*at) for x, zero in SIDES for at in ((x, zero), (zero, x))]
CUT = [np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh, np.log, np.log2, np.sqrt, lambda z: z**0.3]


@pytest.mark.parametrize("f", CUT, ids=lambda f: f.__name__)
def test_on_a_cut_it_is_the_derivative_of_the_side_that_the_sign_of_zero_says(f):
    for z in map(np.complex128, ON_CUTS):
        step = 1e-7 * complex(np.copysign(0.3, z.real), np.copysign(0.7, z.imag))
        derivative = sg.grad(lambda z: f(z) * 1, holomorphic=True)(z)
        np.testing.assert_allclose(derivative, (f(z + step) - f(z)) / step, rtol=1e-5)


# ---- other operators: what NumPy computes, with z and w complex, x and y real, h Hermitian and m a matrix

N = {"z": drawn(4), "w": drawn(4), "x": real(4), "m": drawn(3, 3), "n": drawn(3, 3), "r": real(3, 3), "t": drawn(4, 3)}
N["h"] = N["m"] @ N["m"].conj().T + 2 * np.eye(3)
CALLS = """\
np.sum(z); np.prod(z); np.mean(t, axis=0); np.var(t, axis=0); np.std(z); np.cumsum(z); np.cumprod(t, axis=1)
np.max(z) * np.min(z); np.max(z, where=x > 0.5, initial=0); np.sort(z); np.nansum(z) + np.nanmean(z); np.nanvar(z)
np.nanstd(z); np.average(z, weights=x)
np.var(z, where=np.abs(z) > 0.5, ddof=1); np.mean(t, axis=0, where=np.abs(t) > 0.5); np.diff(z); np.gradient(z)
z.real * z.imag; z.conj() * z.conjugate(); np.real(z) * np.imag(w); np.angle(z); np.angle(z, deg=True); np.absolute(z)
np.where(np.isreal(z), z, z * 2); np.where(np.iscomplex(z), z, 0); np.clip(z, -1 - 1j, 1 + 1j); np.round(z, 1) * z
z ** 3 + z ** 0.5 + 2 ** z + z ** -2 + z ** (1 + 2j); x ** (1 + 2j); np.sinc(z); np.nan_to_num(z) * z; z * x + 1j
np.where(x > 0.8, z * x, np.conj(z)); np.concatenate([z, x, [1j, 2]]); np.stack([z, x]) * np.array([[z[0]], [x[1]]])
z[[0, 0, 2]] * z[::-1][:3]; t[:, 1] * z; np.broadcast_to(z, (2, 4)) * 1j; np.pad(z, 1); np.roll(z, 1) * z
t @ m; z @ w; t.T @ z; np.vdot(z, w); np.vdot(x, z); np.vecdot(t, m[0]); np.inner(t, m); np.outer(z, x)
np.tensordot(t, m, 1); np.kron(z, w); np.einsum("ij,jk->ki", t, m); np.einsum("i,ij,j->", z, t, m[0]); np.trace(m)
np.cross(t, m[0]); np.convolve(z, w); np.correlate(z, w); np.correlate(z, x, "full"); np.cov(t); np.corrcoef(t)
np.triu(m) + np.conj(np.triu(m, 1)).T; np.diag(z) @ np.diag(w); np.polyval(z, 1.5 + 1j); np.vander(z); np.poly(z)
np.linspace(z[0], z[1], 5); np.add.outer(z, np.conj(w)); np.multiply.reduce(z); np.trapezoid(z, x); np.fliplr(t)
np.linalg.solve(m, n); np.linalg.solve(m, z[:3]); np.linalg.solve(r, z[:3]); np.linalg.solve(m, x[:3])
np.linalg.inv(m); np.linalg.det(m); np.linalg.slogdet(m)[0]; np.linalg.slogdet(m)[1]; np.linalg.cholesky(h)
np.linalg.cholesky(h, upper=True); np.linalg.eigh(h)[0]; np.linalg.eigh(h)[1]; np.linalg.eigh(h, "U")[1]
np.linalg.eigvalsh(h); np.linalg.svdvals(t); np.linalg.svdvals(t.T); np.linalg.svd(t, full_matrices=False)[0]
np.linalg.svd(t, full_matrices=False)[2]; np.linalg.svd(m)[0]; np.linalg.qr(t)[0]; np.linalg.qr(t)[1]
np.linalg.qr(m)[0]; np.linalg.qr(t.T)[1]; np.linalg.pinv(t); np.linalg.pinv(t.T); np.linalg.lstsq(t, z)[0]
np.linalg.lstsq(t, z)[1]; np.linalg.norm(z); np.linalg.norm(t, axis=0); np.linalg.norm(m, 1); np.linalg.norm(m, "nuc")
np.linalg.norm(z, 3); np.linalg.cond(m); np.linalg.matrix_power(m, -2); np.linalg.multi_dot([t, m, n])
np.linalg.tensorsolve(m, z[:3]); np.linalg.eigvals(m); np.linalg.eigvals(r + 0j); np.linalg.eig(m)[0] ** 2
np.linalg.eig(m)[1]; np.linalg.eig(np.stack([m, n]))[1]; np.abs(np.linalg.eig(n).eigenvectors) * np.linalg.eig(n)[0]\
""".replace("\n", "; ").split("; ")


@pytest.mark.parametrize("call", CALLS)
def test_functions_of_arrays(call):
    names = [name for name in N if name in set(_names(call))]
    f = eval(f"lambda {', '.join(names)}: {call}", {"np": np})
    xs = [N[name] for name in names]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(sg.compile(f)(*xs), f(*xs), rtol=1e-9, atol=1e-12)
    check_grads_in_turn(f, xs, CALLS.index(call), rtol=1e-4)


def _names(call):
    return compile(call, "", "eval").co_names


OF_SCIPY = [
    "linalg.solve(m, z[:3], assume_a='her')", "linalg.solve_triangular(m, z[:3], trans='C')",
    "linalg.solve_triangular(m, n, lower=True, trans='C', unit_diagonal=True)",
    "linalg.cho_solve((m, True), z[:3])", "linalg.cho_solve((m, False), n)",
    "linalg.cho_solve(linalg.cho_factor(h), n)", "linalg.lu_solve((m, order), n, 2)",
    "linalg.solveh_banded(b, z)", "linalg.solveh_banded(b[::-1], z, lower=True)", "linalg.lstsq(t, z)[1]",
    "linalg.expm(m)", "linalg.logm(h)", "linalg.sqrtm(h)", "linalg.eigh(h)[1] ** 2", "linalg.polar(m)[1]",
]  # fmt: skip


@pytest.mark.parametrize("call", OF_SCIPY)
def test_functions_of_scipy(call):
    linalg = pytest.importorskip("scipy.linalg")
    given = N | {"b": np.array([drawn(4) / 8, real(4) + 2 + 0j])}
    names = [name for name in given if name in set(_names(call))]
    f = eval(f"lambda {', '.join(names)}: {call}", {"linalg": linalg, "order": np.array([1, 1, 2], np.int32)})
    xs = [given[name] for name in names]
    np.testing.assert_allclose(sg.compile(f)(*xs), f(*xs), rtol=1e-9, atol=1e-12)
    check_grads_in_turn(f, xs, OF_SCIPY.index(call), rtol=1e-4)


def test_a_function_that_scipy_lacks_for_complex_numbers_is_refused():
    special = pytest.importorskip("scipy.special")
    sg.check_grads(special.gamma, (drawn(3),), order=1)
    with pytest.raises(DTypeError, match="of complex numbers is not supported"):
        sg.compile(lambda z: special.polygamma(1, z))(1j)


SOLVED = {
    "root": lambda a: sg.root(lambda x: x**3 + np.real(x * a) - 1, 0.5),
    "fixed_point": lambda a: sg.fixed_point(lambda x: 0.3 * np.cos(x) + 0.1 * np.real(a * x), 0.5),
    "minimize": lambda a: sg.minimize(lambda x: np.abs(x - a) ** 2 + x**4, 0.5),
    "cg": lambda a: sg.cg(lambda x: 4 * x + np.real(a * x), np.ones(3)),
    "odeint": lambda a: sg.odeint(lambda y, t: -y * np.real(a * np.exp(1j * y)), np.ones(2), np.linspace(0, 1, 5)),
    "quad": lambda a: sg.quad(lambda x: np.real(np.exp(-x * a)), 0.0, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVED)
def test_solutions_depend_on_complex_numbers(name):
    """In one mode each where all have the rule of `implicit`, which has one direction; in both elsewhere."""
    modes = {"root": ("fwd",), "fixed_point": ("rev",), "minimize": ("fwd",)}.get(name, ("fwd", "rev"))
    sg.check_grads(SOLVED[name], (1 + 2j,), order=1, modes=modes)


def test_solutions_that_are_complex_are_refused():
    with pytest.raises(DTypeError, match=r"x0 of sg\.root has a leaf"):
        sg.root(lambda x: x**2 + 1, 0.5 + 0j)


# ---- the convention


def test_the_gradient_of_a_real_function():
    z = drawn(3)
    np.testing.assert_allclose(sg.grad(lambda z: np.sum(z.real))(z), np.ones(3))
    np.testing.assert_allclose(sg.grad(lambda z: np.sum(z.imag))(z), np.full(3, -1j))
    np.testing.assert_allclose(sg.grad(lambda z: np.sum(np.abs(z) ** 2))(z), 2 * z.conj())
    np.testing.assert_allclose(sg.grad(lambda z: np.sum(np.angle(z)))(z), -1j / z)
    np.testing.assert_allclose(sg.grad(lambda z: np.sum(np.exp(z)).real)(z), np.exp(z))


def test_the_derivative_of_a_holomorphic_function():
    z = drawn(3)
    np.testing.assert_allclose(sg.grad(lambda z: np.sum(z**3), holomorphic=True)(z), 3 * z**2)
    np.testing.assert_allclose(sg.elementwise_grad(np.sin, holomorphic=True)(z), np.cos(z))
    for transform in (sg.jacrev, sg.jacfwd):
        np.testing.assert_allclose(transform(np.exp, holomorphic=True)(z), np.diag(np.exp(z)))
    np.testing.assert_allclose(sg.hessian(lambda z: np.sum(z**3), holomorphic=True)(z), np.diag(6 * z))


@pytest.mark.slow
def test_steps_against_the_conjugate_go_down():
    target, z = 1 + 2j, 0j
    distance = lambda z: np.abs(z**2 - target) ** 2
    for _ in range(200):
        z = z - 0.02 * np.conj(sg.grad(distance)(z + 0.1))
    assert distance(z + 0.1) < 1e-10


def test_nothing_flows_at_zero():
    z = np.array([0j, 1j])
    np.testing.assert_array_equal(sg.grad(lambda z: np.sum(np.abs(z)))(z), [0, -1j])
    np.testing.assert_array_equal(sg.grad(lambda z: np.sum(np.sign(z).real))(z), [0, 1])
    np.testing.assert_array_equal(sg.grad(np.linalg.norm)(0 * z), [0, 0])


def test_a_real_argument_has_a_real_derivative():
    x = real(3)
    gradient = sg.grad(lambda x: np.sum(np.abs(np.exp((1 + 2j) * x)) ** 2))(x)
    assert gradient.dtype == float
    np.testing.assert_allclose(gradient, 2 * np.exp(2 * x))
    value, tangent = sg.jvp(lambda x: (np.exp(1j * x), np.cos(x)), (x,), (np.ones(3),))
    np.testing.assert_allclose(tangent[0], 1j * value[0])
    assert tangent[1].dtype == float


def test_a_product_with_the_hessian():
    z, v = drawn(3), drawn(3)
    f = lambda z: np.sum(np.abs(z) ** 4)
    gradient = sg.grad(f)
    differences = (gradient(z + 1e-6 * v) - gradient(z - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(sg.hvp(f)(z, v), differences, rtol=1e-7)


def test_jacobians_between_real_and_complex_numbers():
    x, z = real(2), drawn(2)
    np.testing.assert_allclose(sg.jacobian(lambda x: np.exp(1j * x))(x), np.diag(1j * np.exp(1j * x)))
    np.testing.assert_allclose(sg.jacobian(np.abs)(z), np.diag(z.conj() / np.abs(z)))


# ---- loops, branches, writes


def orbit(z, c):
    for _ in range(40):
        z = 0.5 * z * z / (1 + np.abs(z)) + c
    return z


def bounded(z, c):
    steps = 0
    while np.abs(z) < 4 and steps < 30:
        z, steps = 1.3 * z + 0.5 * z * c, steps + 1
    return z


def chosen(z, c):
    if np.abs(z) > 1:
        return z * c
    return np.conj(z) * c * c


def filled(z, c):
    states, z = np.zeros(20, complex), z * 1.0
    for k in range(20):
        z = z * c + 0.1 * k
        states[k] = np.conj(z)
    return states


CONTROL = {
    "orbit": orbit, "while": bounded, "branch": chosen, "filled": filled,
    "scan": lambda z, c: sg.scan(lambda s, x: (s * x + c, np.conj(s) * x), z, np.linspace(0, 1, 7))[1],
    "of complex xs": lambda z, c: sg.scan(lambda s, x: (s * x + z, np.abs(s) * x), 0j, c * np.arange(1, 7))[1],
    "fori_loop": lambda z, c: sg.fori_loop(0, 6, lambda i, s: 0.3 * s * s + c, z),
    "cond": lambda z, c: sg.cond(np.abs(z) > 9, lambda z: z * z, lambda z: np.conj(z) * c, z),
    "associative_scan": lambda z, c: sg.associative_scan(np.multiply, np.stack([z, c, z * c])),
    "vmap": lambda z, c: sg.vmap(lambda a: np.conj(a) * a * c)(np.stack([z, c])),
    "vmap of grad": lambda z, c: sg.vmap(sg.grad(lambda a: np.abs(a * c) ** 3))(np.stack([z, c])),
    "checkpoint": lambda z, c: sg.checkpoint(lambda a: np.sin(a) * np.conj(a))(z * c),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL)
def test_loops_and_branches(name):
    f, z, c = CONTROL[name], np.complex128(0.3 - 0.4j), np.complex128(0.7 + 0.2j)
    np.testing.assert_allclose(sg.compile(f)(z, c), f(z, c), rtol=1e-12)
    check_grads_in_turn(f, (z, c), [*CONTROL].index(name))
    sg.check_grads(f, (complex(3 * z), complex(c)), order=1)


def parts_written(z, x):
    y = z.copy()
    y.real, y.imag[1:] = x, 2 * y.imag[1:]
    y.imag += x * y.real
    y[0] += 1j
    return y * z


def view_written(z, x):
    y = z.copy()
    part = y.real
    part += x
    part[1] = x[0] * x[1]
    return y * y


def places_written(z, x):
    y = np.zeros((2, 4), complex)
    y[0], y[1, 1:] = z, x[1:]
    y[:, 0] *= 1j
    np.add.at(y, (0, [1, 1]), z[:2])
    return y.T @ y


@pytest.mark.parametrize("f", [parts_written, view_written, places_written])
def test_writes(f):
    z, x = drawn(4), real(4)
    np.testing.assert_allclose(sg.compile(f)(z, x), f(z, x), rtol=1e-12)
    sg.check_grads(f, (z, x))


def test_whether_a_number_is_complex_is_no_array():
    def written(x):
        truth = np.iscomplex(x)
        view = truth[..., None]
        view[...] = True
        return truth

    assert not sg.compile(written)(1.5)


# ---- custom rules


def test_a_rule_of_ones_own():
    square = sg.custom_vjp(lambda z: np.abs(z) ** 2)
    square.defvjp(lambda z: (np.abs(z) ** 2, z), lambda z, g: (2 * g * np.conj(z),))
    sg.check_grads(lambda z: square(z) * z.real, (drawn(3),), modes=("rev",))
    product = sg.custom_jvp(lambda z, w: z * np.conj(w))
    product.defjvp(lambda p, t: (p[0] * np.conj(p[1]), t[0] * np.conj(p[1]) + p[0] * np.conj(t[1])))
    sg.check_grads(lambda z, w: product(z, w), (drawn(3), drawn(3)))


# ---- what is refused


def _fact(call):
    with pytest.raises((DTypeError, NotDifferentiableError)) as caught:
        call()
    return caught.value.fact, caught.value.instead


def square(z):
    return z * z


def test_refusals():
    z, x = drawn(3), real(3)
    fact, instead = _fact(lambda: sg.grad(square)(1j))
    assert fact == "grad: the result of square is complex128[]"
    assert "holomorphic=True" in instead
    fact, instead = _fact(lambda: sg.grad(square, holomorphic=True)(1.0))
    assert (fact, instead) == (
        "grad: holomorphic=True, but z is float64[]",
        "Leave holomorphic=True out, or make it complex: x.astype(complex).",
    )
    fact, _ = _fact(lambda: sg.grad(np.abs, holomorphic=True)(1j))
    assert fact == "grad: holomorphic=True, but the result of absolute is float64[]"
    fact, _ = _fact(lambda: sg.jacobian(square)(z))
    assert fact == "jacobian: square has complex results and complex arguments"
    _, instead = _fact(lambda: sg.jacrev(lambda x: 1j * x)(x))
    assert instead == 'Write jacobian(f, mode="fwd").'
    _, instead = _fact(lambda: sg.jacfwd(np.abs)(z))
    assert instead == 'Write jacobian(f, mode="rev").'
    fact, _ = _fact(lambda: sg.jvp(np.sin, (x,), (z,)))
    assert fact == "a tangent for float64[3], which is real, is complex128"
    fact, _ = _fact(lambda: sg.grad(lambda m: np.sum(np.abs(np.linalg.svd(m, full_matrices=False)[0])))(drawn(2, 3)))
    assert fact.startswith(
        "np.linalg.svd: the phases of the vectors of a complex matrix that is wide, or may be, are not"
    )
    with pytest.raises(DTypeError, match="has no imaginary part"):
        sg.compile(_imaginary_part_written)(x)


def _imaginary_part_written(x):
    y = x.copy()
    y.imag = 1
    return y


# ---- JAX


OF_BOTH = {
    "abs": lambda np, z, w: np.sum(np.abs(z) * np.abs(w) ** 3), "angle": lambda np, z, w: np.sum(np.angle(z * w)),
    "powers": lambda np, z, w: np.sum(np.real(z**w + z**2.5 + 2**w)), "log": lambda np, z, w: np.sum(np.log(z)).imag,
    "vdot": lambda np, z, w: np.abs(np.vdot(z, w)) ** 2, "std": lambda np, z, w: np.std(z) * np.var(w),
    "eigvalsh": lambda np, z, w: np.sum(np.linalg.eigvalsh(np.outer(z, w.conj()) + np.outer(w, z.conj())) ** 2),
    "solve": lambda np, z, w: np.real(np.sum(np.linalg.solve(np.diag(z) + np.outer(w, z), w))),
    "slogdet": lambda np, z, w: np.linalg.slogdet(np.diag(z) + np.outer(w, z.conj()))[1],
}  # fmt: skip


@pytest.mark.parametrize("name", OF_BOTH)
def test_gradients_are_those_of_jax(name):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    f, z, w = OF_BOTH[name], drawn(4), drawn(4)
    found = sg.grad(lambda z, w: f(np, z, w), (0, 1))(z, w)
    expected = jax.grad(lambda z, w: f(jax.numpy, z, w), (0, 1))(z, w)
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12)


# ---- what has an order of complex numbers, or of the points that they belong to

MEDIANS = {
    "odd": (np.median, (5,), {}),
    "even": (np.median, (3, 4), {"axis": 1}),
    "without NaNs": (np.nanmedian, (4, 3), {"axis": 0, "keepdims": True}),
}


@pytest.mark.parametrize("name", MEDIANS)
def test_medians(name):
    f, shape, options = MEDIANS[name]
    z = drawn(*shape)
    np.testing.assert_array_equal(sg.compile(lambda z: f(z, **options))(z), f(z, **options))
    sg.check_grads(lambda z: f(z, **options), (z,))


def test_numbers_of_which_a_part_is_nan_are_left_out_of_a_median():
    z = drawn(6)
    z[2], z[4] = np.nan, complex(1, np.nan)
    assert sg.compile(lambda z: np.nanmedian(z))(z) == np.nanmedian(z)
    assert np.count_nonzero(sg.grad(lambda z: np.nanmedian(z).real)(z)) == 2


@pytest.mark.parametrize("options", [{}, {"left": 2j, "right": 1.0}])
def test_interpolation_between_complex_values(options):
    args = np.array([-0.3, 0.4, 1.7, 2.2, 3.5]), np.arange(4.0), drawn(4)
    result = sg.compile(lambda *xs: np.interp(*xs, **options))(*args)
    np.testing.assert_array_equal(result, np.interp(*args, **options))
    sg.check_grads(lambda *xs: np.interp(*xs, **options), args)
