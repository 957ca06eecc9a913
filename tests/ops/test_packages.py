"""Operators that need a package: what the generated modules import, and that nothing imports SciPy on its own."""

import importlib.util
import re
import subprocess
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.core.graph import Aval
from symgrad.errors import UnsupportedError
from symgrad.ops.define import PLACES, TABLE, implements_at

special = pytest.importorskip("scipy.special")
X = np.array([0.5, 1.5, 2.5])


def loss(x, y):
    return np.sum(special.gammaln(x) * y)


def in_a_process(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def load_module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_import_of_scipy_until_the_program_has_done_so():
    in_a_process(
        "import sys, numpy as np, symgrad as sg\n"
        "sg.grad(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3))\n"
        "assert not any(name.split('.')[0] == 'scipy' for name in sys.modules)\n"
        "def f(x):\n"
        "    from scipy.special import gammaln\n"
        "    return gammaln(x)\n"
        "assert abs(sg.grad(f)(1.0) + np.euler_gamma) < 1e-15\n"
    )


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_module_imports_what_it_calls(level):
    source = sg.grad(loss).source(X, X, optimize=level)
    assert "\nimport numpy as np\nimport scipy.special\n" in source
    assert "Needs NumPy and SciPy.\n" in source
    assert "= scipy.special.digamma(" in source or " * scipy.special.digamma(x)" in source


def test_programs_without_it_need_numpy_alone():
    source = sg.compile(lambda x: np.sin(x)).source(X)
    assert "scipy" not in source and "Needs NumPy.\n" in source


def test_saved_modules_run_without_symgrad(tmp_path):
    path = sg.grad(loss).compile(X, X).save(tmp_path / "slope.py")
    in_a_process(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import slope, numpy as np, scipy.special\n"
        "x = np.array([0.5, 1.5, 2.5])\n"
        "assert (slope.loss_grad(x, x) == scipy.special.digamma(x) * x).all()\n"
        "assert 'symgrad' not in sys.modules\n"
    )
    assert not re.search(r"(import|from) symgrad", path.read_text())


def test_in_loops_over_blocks(tiny_blocks):
    x = np.linspace(0.5, 3, 1000)
    f = sg.value_and_grad(lambda x: np.sum(np.log(special.gammaln(x + 2) ** 2 + 1)))
    source = f.source(x)
    assert "scipy.special.gammaln(" in source and "out=" in source and "Needs NumPy and SciPy" in source
    value, slope = f(x)
    exact = special.gammaln(x + 2)
    np.testing.assert_allclose(value, np.sum(np.log(exact**2 + 1)))
    np.testing.assert_allclose(slope, 2 * exact * special.digamma(x + 2) / (exact**2 + 1))


def test_programs_of_scalars():
    f = sg.value_and_grad(lambda x: special.erf(x) ** 2)
    source = f.source(0.5)
    assert "import math\n\nimport numpy as np\nimport scipy.special\n" in source
    assert "float(scipy.special.erf(x))" in source
    value, slope = f(0.5)
    assert type(value) is type(slope) is np.float64
    np.testing.assert_allclose(
        (value, slope), (special.erf(0.5) ** 2, 4 / np.sqrt(np.pi) * special.erf(0.5) * np.exp(-0.25))
    )


def test_orders_stay_integers_in_programs_of_scalars():
    source = sg.grad(lambda x: special.kn(2, x) * special.yn(3, x)).source(0.5)
    assert "scipy.special.kn(2, x)" in source and re.search(r"scipy\.special\.yn\(2, \w+\)", source)
    assert not re.search(r"\d\.0, \w", source)


def test_options_of_ufuncs():
    def f(x):
        y = np.zeros_like(x)
        special.erf(x, out=y)
        return special.erf(2 * x, out=y, where=x > 1) + special.erf(x, dtype=np.float32)

    expected = np.where(X > 1, special.erf(2 * X), special.erf(X)) + special.erf(X.astype(np.float32))
    np.testing.assert_array_equal(sg.compile(f)(X), expected)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (
            lambda x: special.gammaln(x > 0, casting="no", order="K"),
            UnsupportedError,
            "scipy.special.gammaln: the argument order= is not supported",
        ),
        (
            lambda x: special.erf(x, where=x > 0),
            UnsupportedError,
            "scipy.special.erf: where= without out= leaves numbers undefined",
        ),
        (lambda x: special.beta.outer(x, x), UnsupportedError, "scipy.special.beta.outer is not supported"),
    ],
)
def test_messages_name_scipy(f, error, message):
    with pytest.raises(error) as caught:
        sg.compile(f)(X)
    assert caught.value.fact == message


# ---- functions whose text is part of the module

SCALE = 2.0


def _doubled(x):
    """Twice as much."""
    return SCALE * x


def _shifted_twice(x):
    return _doubled(x) + _doubled(1.0)


SHIFTED = sg.operator(
    _shifted_twice,
    infer=lambda x: Aval(x.shape, x.dtype),
    vjp=lambda g, y, x: (SCALE * g,),
    written=True,
)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_text_of_a_written_operator_is_part_of_the_module(level, tmp_path):
    f = sg.value_and_grad(lambda x: np.sum(SHIFTED(x) ** 2))
    source = f.source(X, optimize=level)
    assert (
        source.count("def _shifted_twice(x):") == source.count("def _doubled(x):") == source.count("SCALE = 2.0") == 1
    )
    assert source.index("SCALE = 2.0") < source.index("def _doubled") < source.index("def _shifted_twice")
    expected = np.sum((2 * X + 2) ** 2), 4 * (2 * X + 2)
    for run in (f, load_module(f.compile(X, optimize=level).save(tmp_path / "saved.py")).function_value_and_grad):
        for found, want in zip(run(X), expected, strict=True):
            np.testing.assert_allclose(found, want)


unrelated = [1.0]  # which _halved has a name of its own like


def _halved(x):
    unrelated = x / SCALE
    return unrelated


def test_a_name_of_its_own_brings_nothing_along():
    """The module of the user's may have the same name, for something that has nothing to do with the function."""
    halved = sg.operator(_halved, infer=lambda x: x, vjp=lambda g, y, x: (g / SCALE,), written=True)
    source = sg.compile(lambda x: np.sum(halved(x))).source(X)
    assert "SCALE = 2.0" in source
    assert "unrelated = [1.0]" not in source


def test_an_argument_may_have_the_name_of_a_written_operator(tmp_path):
    f = sg.compile(lambda _shifted_twice: SHIFTED(_shifted_twice))
    assert "_shifted_twice_2 = _shifted_twice\n" in f.source(X)
    np.testing.assert_array_equal(f(X), 2 * X + 2)
    saved = load_module(f.compile(X).save(tmp_path / "saved.py"))
    np.testing.assert_array_equal(saved.function(X), 2 * X + 2)


@pytest.mark.parametrize("name", ["_shifted_twice", "_doubled", "SCALE", "scipy", "np"])
def test_a_function_may_have_the_name_of_what_its_module_defines(name, tmp_path):
    def f(x):
        return special.gammaln(SHIFTED(x))

    f.__name__ = name
    program = sg.compile(f).compile(X)
    saved = load_module(program.save(tmp_path / "saved.py"))
    np.testing.assert_array_equal(getattr(saved, f"{name}_")(X), special.gammaln(2 * X + 2))
    np.testing.assert_array_equal(program(X), special.gammaln(2 * X + 2))


def test_functions_that_do_not_dispatch_have_places():
    class Holder:
        def double(self, x):
            return 2 * x

    holder = Holder()
    written = implements_at(holder, "double")(lambda x: x + x)
    try:
        assert TABLE[holder.double] is written
        assert PLACES[-1] == (holder, "double")
    finally:
        del TABLE[holder.double]
        PLACES.pop()
