"""scipy.linalg: values, dtypes, derivatives at orders one and two, stacks, batches, sources, and what is refused."""

import importlib.util

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ShapeError, UnsupportedError
from tests.programs import check_batch, check_close, check_derivatives

linalg = pytest.importorskip("scipy.linalg")

F4 = np.dtype(np.float32)
TIGHT = {"rtol": 1e-4, "atol": 1e-6}


def numbers(*shape, seed=1):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def matrix(*shape):
    """Well-conditioned, with positive eigenvalues that are apart."""
    rng = np.random.default_rng(sum(shape))
    m, n = shape[-2:]
    return rng.uniform(-0.5, 0.5, shape) + np.eye(m, n) * (1.5 + np.arange(n))


def symmetric(*shape):
    a = matrix(*shape)
    return (a + np.swapaxes(a, -1, -2)) / 2


def check(f, *args, order=2, batch=True, **tolerances):
    check_close(f, *args)
    check_close(f, *[np.asarray(a, F4) for a in args], rtol=2e-4)  # SciPy may give float64 of few right digits
    check_derivatives(f, *args, order=order, **(TIGHT | tolerances))
    if batch:
        check_batch(f, *args)


# ---- systems of equations

RIGHT_HAND_SIDES = [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2))]


KINDS = [(0, False, False), ("T", True, True), (1, False, True), (0, True, False), ("C", True, False)]


@pytest.mark.parametrize(
    ("sides", "kind"), [*zip(RIGHT_HAND_SIDES, KINDS, strict=True), (RIGHT_HAND_SIDES[0], KINDS[1])]
)
def test_solve_triangular(sides, kind):
    a, b = sides

    def f(a, b):
        return linalg.solve_triangular(a, b, *kind, check_finite=False)

    check(f, matrix(*a), numbers(*b), order=1 if len(a) > 2 else 2)


@pytest.mark.parametrize(("a", "b"), RIGHT_HAND_SIDES)
def test_cholesky(a, b):
    lower = len(b) == 2
    check(lambda a: linalg.cholesky(a, lower=lower), symmetric(*a), order=1, batch=False)

    def f(a, b):
        return linalg.cho_solve(linalg.cho_factor(a, lower=lower), b)

    check(f, symmetric(*a), numbers(*b), order=1 if len(a) > 2 else 2, batch=False)


@pytest.mark.parametrize(("a", "b"), RIGHT_HAND_SIDES)
def test_lu_solve(a, b):
    def f(a, b):
        return linalg.lu_solve(linalg.lu_factor(a), b, int(len(b) == 2))

    check(f, matrix(*a)[..., ::-1, :], numbers(*b), order=1 if len(a) > 2 else 2, batch=len(a) == 2)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (1, 1)])
def test_lu(shape):
    a = matrix(*shape)[..., ::-1, :]
    check(lambda a: linalg.lu_factor(a)[0], a)
    check(lambda a: linalg.lu(a)[1:], a, order=1, batch=False)
    check(lambda a: linalg.lu(a, permute_l=True), a, order=1, batch=False)
    for p_indices in (False, True):
        f = sg.compile(lambda a, p_indices=p_indices: linalg.lu(a, p_indices=p_indices)[0])
        np.testing.assert_array_equal(f(a), linalg.lu(a, p_indices=p_indices)[0])
    np.testing.assert_array_equal(sg.compile(lambda a: linalg.lu_factor(a)[1])(a), linalg.lu_factor(a)[1])


@pytest.mark.parametrize(
    ("structure", "a"),
    [
        (None, matrix(3, 3)), ("gen", matrix(3, 3)), ("sym", symmetric(3, 3)), ("pos", symmetric(3, 3)),
        ("diagonal", np.diag([1.0, 2.0, 3.0])), ("upper triangular", np.triu(matrix(3, 3))),
        ("tridiagonal", np.tril(np.triu(matrix(4, 4), -1), 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lower", [False, True])
def test_solve_reads_no_more_than_the_structure(structure, a, lower):
    lower = lower and structure in ("sym", "pos")
    check_close(lambda a, b: linalg.solve(a, b, assume_a=structure, lower=lower), a, numbers(len(a)))
    gradient = sg.grad(lambda a, b: np.sum(linalg.solve(a, b, assume_a=structure, lower=lower)))(a, numbers(len(a)))
    unread = np.triu(gradient, 1) if lower else np.tril(gradient, -1)
    assert np.all(unread == 0) == (structure in ("sym", "pos", "diagonal", "upper triangular"))


def test_solve_and_inv():
    a, b = matrix(3, 3), numbers(3, 2)
    check(lambda a, b: linalg.solve(a, b), a, b)
    check(lambda a, b: linalg.solve(a, b, transposed=True), a, b)
    check(lambda a, b: linalg.solve(a, b), matrix(2, 3, 3), numbers(3))
    check(lambda a: linalg.inv(a), a)
    check(lambda a: linalg.det(a), a)


def test_toeplitz_systems():
    c, r = np.array([4.0, 1.0, 0.5]), np.array([0.0, -1.0, 0.3])
    check(lambda c, b: linalg.solve_toeplitz(c, b), c, numbers(3), batch=False)
    check(lambda c, r, b: linalg.solve_toeplitz((c, r), b), c, r, numbers(3), batch=False)


def test_least_squares_and_norms():
    check(lambda a: linalg.pinv(a), matrix(4, 3))
    check(lambda a, b: linalg.lstsq(a, b)[:2], matrix(4, 3), numbers(4), batch=False)
    check_close(lambda a, b: linalg.lstsq(a, b), matrix(4, 3), numbers(4, 2))
    check_close(lambda a, b: linalg.lstsq(a, b)[0], np.ones((3, 3)), numbers(3))
    check_close(lambda a: linalg.pinv(a), np.vander(np.linspace(0, 1, 12)))  # NumPy's keeps more singular values
    check(lambda a: linalg.norm(a, axis=1), matrix(4, 3))
    check(lambda a: linalg.norm(a, 1), matrix(4, 3))


def test_complex_matrices_have_adjoints():
    a = matrix(3, 3) + 0.1j * numbers(3, 3)
    s, b = a @ a.conj().T, numbers(3) + 1j
    check_close(lambda s, b: linalg.cho_solve(linalg.cho_factor(s), b), s, b)
    check_close(lambda s, b: linalg.solve(s, b, assume_a="pos"), s, b)
    check_close(lambda s, b: linalg.solve(s, b, assume_a="sym"), a + a.T, b)
    check_close(lambda a, b: linalg.solve_triangular(a, b, "C"), a, b)
    for trans in (1, 2):
        check_close(lambda a, b, trans=trans: linalg.lu_solve(linalg.lu_factor(a), b, trans), a, b)


# ---- functions of matrices


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")  # SciPy's own, of float32
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3)])
@pytest.mark.parametrize("f", [linalg.expm, linalg.logm, linalg.sqrtm], ids=lambda f: f.__name__)
def test_functions_of_matrices(f, shape):
    def named(a):
        return getattr(linalg, f.__name__)(a)

    check(named, matrix(*shape) / 2)


def test_the_derivative_of_the_exponential_of_a_matrix():
    check(lambda a, e: linalg.expm_frechet(a, e), matrix(3, 3), numbers(3, 3))
    check(lambda a, e: linalg.expm_frechet(a, e, compute_expm=False), matrix(2, 2), numbers(2, 2), order=3)
    check(lambda a: linalg.expm(a), np.zeros((2, 2)), order=3)


def test_functions_of_matrices_that_do_not_commute_with_their_derivative():
    """Eigenvalues may coincide; the eigenvectors of a nilpotent matrix do not span the space."""
    check_derivatives(lambda a: linalg.expm(a), np.array([[0.0, 1.0], [0.0, 0.0]]), order=2)
    check_derivatives(lambda a: linalg.logm(a), np.array([[1.0, 1.0], [0.0, 1.0]]), order=1, **TIGHT)
    check_derivatives(lambda a: linalg.sqrtm(a), np.array([[1.0, 1.0], [0.0, 1.0]]), order=2, **TIGHT)


def test_sylvester():
    check(lambda a, b, q: linalg.solve_sylvester(a, b, q), matrix(3, 3), matrix(2, 2), numbers(3, 2))


@pytest.mark.parametrize("name", ["logm", "sqrtm"])
def test_no_complex_result_comes_up_when_the_program_runs(name):
    f = sg.compile(lambda a: getattr(linalg, name)(a))
    with pytest.raises(np.linalg.LinAlgError, match=f"^{name}: the matrix has a negative eigenvalue"):
        f(np.diag([1.0, -1.0]))


# ---- spectra


@pytest.mark.parametrize("lower", [False, True])
def test_eigh(lower):
    a = symmetric(3, 3)
    check(lambda a: linalg.eigh(a, lower=lower)[0], a)
    check(lambda a: linalg.eigh(a, lower=lower)[1] ** 2, a, batch=False)  # whose signs may be either
    check(lambda a: linalg.eigvalsh(a, lower=lower, subset_by_index=(1, 2)), a, order=1)


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_eigh_of_pencils(kind):
    a, b = symmetric(3, 3), symmetric(3, 3) + np.eye(3)
    check(lambda a, b: linalg.eigh(a, b, lower=kind == 2, type=kind)[0], a, b, order=1, batch=False)
    check(lambda a, b: linalg.eigh(a, b, type=kind)[1] ** 2, a, b, order=1, batch=False)


def test_singular_values_and_qr():
    check(lambda a: linalg.svd(a, full_matrices=False)[1], matrix(4, 3))
    check(lambda a: linalg.svd(a, compute_uv=False), matrix(4, 3))
    check(lambda a: linalg.svdvals(a), matrix(4, 3))
    check(lambda a: linalg.qr(a, mode="economic"), matrix(4, 3))
    check(lambda a: linalg.qr(a, mode="r")[0], matrix(3, 3))


# ---- matrices that repeat what they are given


def test_special_matrices():
    c, r = numbers(4), numbers(3)
    check(lambda c: linalg.toeplitz(c), c, batch=False)
    check(lambda c, r: linalg.toeplitz(c, r), c, r, batch=False)
    check(lambda c: linalg.circulant(c), c, batch=False)
    check(lambda c: linalg.hankel(c), c, batch=False)
    check(lambda c, r: linalg.hankel(c, r), c, r, batch=False)
    check(lambda a, b, c: linalg.block_diag(a, b, c), matrix(2, 3), numbers(2), numbers(1, 1), batch=False)
    check_close(lambda x: linalg.block_diag(np.eye(2), x), numbers(1, 2))
    check_close(lambda x: linalg.block_diag(x, np.eye(2)), np.float64(3.0))


def test_sizes_may_be_symbols():
    source = sg.grad(lambda c: np.sum(linalg.toeplitz(c) ** 2)).compile("float64[n]")
    np.testing.assert_allclose(source(numbers(4)), 2 * numbers(4) * np.array([4, 6, 4, 2]))


# ---- sources


def loss(s, b):
    return b @ linalg.cho_solve(linalg.cho_factor(s, lower=True), b)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_saved_modules_need_scipy_alone(level, tmp_path):
    s, b = symmetric(4, 4), numbers(4)
    compiled = sg.value_and_grad(loss, argnums=(0, 1)).compile("float64[n, n]", "float64[n]", optimize=level)
    assert "Needs NumPy and SciPy." in compiled.source
    spec = importlib.util.spec_from_file_location("saved", compiled.save(tmp_path / "saved.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value, (gs, gb) = module.loss_value_and_grad(s, b)
    np.testing.assert_allclose(value, loss(s, b))
    y = np.linalg.solve(s, b)
    below = -2 * np.tril(np.outer(y, y), -1) - np.diag(y * y)  # of the one triangle that is read
    np.testing.assert_allclose(gs, below, rtol=1e-9)
    np.testing.assert_allclose(gb, 2 * y)


# ---- what is refused


@pytest.mark.parametrize(
    ("f", "error", "fact"),
    [
        (lambda a: linalg.solve_triangular(a, a, 3), UnsupportedError, "solve_triangular: trans=3 is not one of 0"),
        (lambda a: linalg.solve_triangular(a, a[0, :2]), ShapeError, "and the right-hand side float64[2] do not fit"),
        (lambda a: linalg.expm(a[:2]), ShapeError, "expm: float64[2, 3] does not hold square matrices"),
        (lambda a: linalg.solve(a, a, assume_a="x"), UnsupportedError, "solve: assume_a='x' is not supported"),
        (lambda a: linalg.qr(a, pivoting=True), UnsupportedError, "qr: the argument pivoting= is not supported"),
        (lambda a: linalg.qr(a[:, :2]), UnsupportedError, "qr: the vectors that mode='full' adds"),
        (lambda a: linalg.eigh(a, subset_by_value=(0, 1)), UnsupportedError, "eigh: the argument subset_by_value="),
        (lambda a: linalg.pinv(a, rtol=1e-3), UnsupportedError, "pinv: the argument rtol= is not supported"),
        (lambda a: linalg.toeplitz(a), UnsupportedError, "toeplitz of an array of 2 dimensions is not supported"),
        (lambda a: linalg.lu(a[:2]), UnsupportedError, "lu of matrices that are not square, here of shape (2, 3)"),
    ],
)
def test_refusals_name_scipy(f, error, fact):
    with pytest.raises(error) as caught:
        sg.compile(f)(matrix(3, 3))
    assert caught.value.fact.startswith("scipy.linalg.") and fact in caught.value.fact


# ---- bands, matrix equations and functions written with others


def banded(*shape, at):
    """Diagonals whose matrix is well-conditioned: that in row `at` is the main one."""
    ab = np.random.default_rng(sum(shape)).uniform(-0.4, 0.4, shape)
    ab[at] += 2.5
    return ab


@pytest.mark.parametrize("bands", [(0, 0), (1, 1), (1, 2), (2, 0), (0, 1)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_solve_banded(bands, columns):
    def f(ab, b):
        return linalg.solve_banded(bands, ab, b)

    check(f, banded(sum(bands) + 1, 5, at=bands[1]), numbers(5, *columns), batch=False)


@pytest.mark.parametrize("lower", [False, True])
def test_solveh_banded(lower):
    def f(ab, b):
        return linalg.solveh_banded(ab, b, lower=lower)

    check(f, banded(3, 5, at=0 if lower else 2), numbers(5), batch=False)


def test_a_banded_system_of_any_size():
    f = sg.grad(lambda ab, b: np.sum(linalg.solve_banded((1, 1), ab, b) ** 2)).compile("float64[3, n]", "float64[n]")
    for n in (4, 7):
        ab, b = banded(3, n, at=1), numbers(n)
        whole = np.diag(ab[1]) + np.diag(ab[0, 1:], 1) + np.diag(ab[2, :-1], -1)
        x = np.linalg.solve(whole, b)
        slope = np.outer(np.linalg.solve(whole.T, 2 * x), -x)
        np.testing.assert_allclose(f(ab, b)[1], np.diag(slope))
        np.testing.assert_allclose(f(ab, b)[2, :-1], np.diag(slope, -1))


@pytest.mark.parametrize("name", ["cosm", "sinm", "tanm"])
def test_trigonometric_functions_of_matrices(name):
    check(lambda a: getattr(linalg, name)(a), matrix(3, 3) / 3, batch=False, order=1)


EQUATIONS = {
    "lyapunov": (lambda a, q: linalg.solve_continuous_lyapunov(a, q), matrix(3, 3), numbers(3, 3)),
    "companion": (lambda a: linalg.companion(a), numbers(4) + 3),
    "circulant": (lambda c, b: linalg.solve_circulant(c, b), numbers(4) + 3 * np.eye(4)[0], numbers(4)),
    "toeplitz": (lambda c, x: linalg.matmul_toeplitz(c, x), numbers(4), numbers(4, seed=2)),
    "tridiagonal": (lambda d, e: linalg.eigvalsh_tridiagonal(d, e), np.arange(4.0), numbers(3)),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations_and_special_matrices(name):
    f, *args = EQUATIONS[name]
    check_close(f, *args)
    check_derivatives(f, *args, order=1 if name == "tridiagonal" else 2, **TIGHT)


@pytest.mark.parametrize("name", ["schur", "orth", "ldl", "eig_banded", "bandwidth", "hilbert"])
def test_what_has_no_derivative_is_refused_by_name(name):
    with pytest.raises(UnsupportedError, match=rf"^scipy\.linalg\.{name} .*\n.*\n  \S"):
        sg.trace(lambda a: getattr(linalg, name)(a), "float64[3, 3]")
