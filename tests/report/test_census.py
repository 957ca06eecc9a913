"""The census of NumPy and SciPy: nothing is left out, and what it says is what a user sees. `symgrad coverage`."""

import json

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import SymgradError
from symgrad.ops.define import TABLE, Refused, display_name
from symgrad.ops.draws import DRAWS
from symgrad.report import census as counted
from symgrad.report.census import DIFFERENTIABLE, KINDS, MODULES, REFUSED, SHAPES, ZERO, Unclassified, census, entry
from symgrad.report.samples import KNOWN, MATRIX, NUMBER, OUTSIDE, OWN, USUAL, VECTOR
from tests.commands import run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_unclassified(module):
    """A function that a new version of NumPy or SciPy brings needs an entry, a refusal or a sample call."""
    if module.startswith("scipy"):
        pytest.importorskip(module)
    entries = census(module)
    assert {e.kind for e in entries} <= set(KINDS)
    assert [e.path for e in entries if e.kind == REFUSED and len(e.reason.splitlines()) < 2] == []


@pytest.mark.slow
def test_a_function_without_an_entry_is_found(monkeypatch):
    monkeypatch.delitem(TABLE, np.polydiv)
    anew = entry.__wrapped__  # the entries of others are known
    monkeypatch.setattr(counted, "entry", lambda path: (anew if path == "numpy.polydiv" else entry)(path))
    with pytest.raises(Unclassified, match=r"numpy\.polydiv"):
        census("numpy")


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        (DIFFERENTIABLE, "numpy.sin numpy.linalg.svd numpy.where numpy.put numpy.ndarray.sum numpy.i0 numpy.polyfit"),
        (ZERO, "numpy.sign numpy.argmax numpy.isclose numpy.searchsorted numpy.round numpy.ndarray.any"),
        (SHAPES, "numpy.zeros numpy.shape numpy.broadcast_shapes numpy.result_type numpy.ndarray.dtype"),
        (REFUSED, "numpy.unique numpy.save numpy.random.normal numpy.ndarray.tobytes"),
    ],
)
def test_kinds(kind, paths):
    assert {path: entry(path).kind for path in paths.split()} == dict.fromkeys(paths.split(), kind)


def test_an_argument_without_a_derivative_is_named():
    pytest.importorskip("scipy.special")
    found = entry("scipy.special.jv")
    assert found.kind == DIFFERENTIABLE
    assert found.reason.startswith("scipy.special.jv has no derivative by its order")


# ---- reasons are errors of users


def refused_by_name():
    return [f for f, written in TABLE.items() if isinstance(written, Refused) and isinstance(f, type(np.unique))]


@pytest.mark.parametrize("function", refused_by_name(), ids=lambda f: f.__name__)
def test_a_reason_is_the_error_that_a_user_sees(function):
    path = f"numpy.{display_name(function)}"
    assert any(message_of(path, arguments) == entry(path).reason for arguments in USUAL)


def message_of(path, arguments):
    try:
        counted.traced_call(path, arguments)
    except SymgradError as error:
        return f"{error.fact}\n  {error.instead}"
    except TypeError:  # it takes other arguments
        return ""


ONE = frozenset(
    "chisquare dirichlet geometric logseries pareto poisson power rayleigh standard_exponential standard_gamma "
    "standard_normal standard_cauchy standard_t weibull zipf bytes random exponential".split()
)
"""Draws with one parameter."""


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("scipy.special.struve", (1.0, VECTOR)),
        ("scipy.special.roots_jacobi", (3, NUMBER, NUMBER)),
        ("scipy.special.lambertw", (VECTOR,)),
        ("scipy.special.legendre_p", (2, VECTOR)),
        ("scipy.linalg.schur", (MATRIX,)),
        ("scipy.linalg.funm", (MATRIX, np.sin)),
        ("scipy.stats.multinomial.logpmf", (KNOWN, 4, VECTOR)),
    ],
)
def test_so_is_that_of_scipy(path, arguments):
    pytest.importorskip("scipy.stats")
    try:
        counted.found_at(path)
    except AttributeError:
        pytest.skip("not in this version of SciPy")
    with pytest.raises(SymgradError) as caught:
        counted.traced_call(path, arguments)
    assert entry(path).reason == f"{caught.value.fact}\n  {caught.value.instead}"


@pytest.mark.parametrize("name", [name for name in DRAWS if hasattr(np.random.Generator, name)])
def test_a_draw_with_traced_parameters_says_what_to_write(name):
    generator = np.random.default_rng(0)
    others = {"hypergeometric": 2, "multivariate_hypergeometric": 1, "triangular": 2, "noncentral_f": 2}.get(name, 1)

    def draw(x):
        method = getattr(generator, name)
        return method(x) if name in ONE else method(x, *[2] * others)

    with pytest.raises(SymgradError) as caught:
        sg.trace(draw, VECTOR)
    assert "value of a traced" in str(caught.value)


def normal_of(generator):
    def draw(x):
        return generator.normal(x, 1.0)

    return draw


@pytest.mark.parametrize("spec", [VECTOR, NUMBER])
def test_the_advice_of_a_draw(spec):
    with pytest.raises(SymgradError, match=r"loc \+ scale \* rng\.standard_normal\(n\)"):
        sg.trace(normal_of(np.random.default_rng(0)), spec)
    with pytest.raises(SymgradError, match=r"loc \+ scale \* rng\.standard_normal\(n\)"):
        sg.trace(normal_of(np.random), spec)


# ---- what is listed by hand


def test_lists_name_what_exists_in_some_version():
    """A name stays while a version that is supported has it; the newest one has nearly all of them."""
    names = [f"{module}.{name}" for module, text in OUTSIDE.items() for name in text.split()]
    missing = []
    for path in [*names, *OWN]:
        try:
            counted.found_at(path)
        except (AttributeError, ImportError):
            missing.append(path)
    assert len(missing) < 12, missing


# ---- symgrad coverage

MODEL = """
import numpy as np
import scipy.special as sp
from numpy.linalg import eig, norm as length

def f(x):
    y = np.{} (x) + np.pi
    return map(np.sin, y), length(y), np.float32(2), x.sum()
"""


@pytest.fixture
def model(tmp_path):
    def write(name):
        path = tmp_path / "model.py"
        path.write_text(MODEL.format(name))
        return str(path)

    return write


def test_a_file_that_is_covered(model):
    code, out, err = run("coverage", model("tanh"))
    assert (code, err) == (0, "")
    lines = [line.split(maxsplit=1)[1].split() for line in out.splitlines()[:-1]]
    assert lines == [[name, "differentiable"] for name in ("np.tanh", "length", "np.sin")]
    assert out.splitlines()[-1] == "3 differentiable"


def test_a_file_with_a_refused_function(model):
    code, out, _ = run("coverage", model("unique"))
    assert code == 1
    assert ":7  np.unique  refused\n    np.unique: the size of the result depends on values" in out
    assert out.splitlines()[-1] == "2 differentiable, 1 refused"


def test_coverage_as_json(model):
    code, out, _ = run("coverage", "--json", model("unique"))
    found = json.loads(out)
    assert code == 1
    assert {(x["line"], x["path"], x["kind"]) for x in found} == {
        (7, "numpy.unique", REFUSED), (8, "numpy.sin", DIFFERENTIABLE), (8, "numpy.linalg.norm", DIFFERENTIABLE),
    }  # fmt: skip


def test_a_name_that_is_not_there(model):
    code, out, _ = run("coverage", model("nosuch"))
    assert code == 0
    assert "there is no numpy.nosuch in the version that is installed" in out


@pytest.mark.parametrize(("text", "message"), [("def (", "line 1: "), (None, "cannot be read")])
def test_no_python(tmp_path, text, message):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    code, _, err = run("coverage", str(path))
    assert code == 2
    assert message in err
