"""Operators that packages bring, which symgrad finds by their metadata."""

import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.ops import plugins
from symgrad.ops.define import TABLE

BRINGS = """
import numpy as np
import symgrad as sg
from symgrad.spelling import call

from {library} import ufunc

spell = lambda node, x: call("3 * np.positive", [x.text])
sg.operator(ufunc, infer=lambda x: x, vjp=lambda g, y, x: (3 * g,), spell=spell)
"""
LIBRARY = """
import numpy as np

ufunc = np.frompyfunc(lambda x: 3 * x, 1, 1)
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make a package with an entry point, as installed; give its module."""
    monkeypatch.syspath_prepend(tmp_path)
    ufuncs = []

    def install(name, library, brings):
        (tmp_path / f"{name}.py").write_text(library)
        (tmp_path / f"{name}_symgrad.py").write_text(brings.format(library=name))
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{name} = {name}_symgrad\n")
        library = __import__(name)
        ufuncs.append(library.ufunc)
        return library

    yield install
    for ufunc in ufuncs:
        TABLE.pop(ufunc, None)
    for module in [m for m in sys.modules if m.startswith("tripling")]:
        del sys.modules[module]


def test_a_function_of_a_package_with_operators(installed):
    library = installed("tripling", LIBRARY, BRINGS)
    assert "tripling_symgrad" not in sys.modules
    slope = sg.grad(lambda x: np.sum(library.ufunc(x) * x))
    np.testing.assert_allclose(slope(np.array([1.0, 2.0])), [6.0, 12.0])
    assert "tripling_symgrad" in sys.modules


def test_a_plug_in_that_fails_is_named(installed):
    library = installed("tripling_badly", LIBRARY, "raise RuntimeError('no such thing')")
    with pytest.raises(sg.errors.ArgumentError) as error:
        sg.grad(lambda x: np.sum(library.ufunc(x)))(np.ones(2))
    assert "tripling_badly_symgrad, which brings operators, cannot be imported: RuntimeError: no such thing" in str(
        error.value
    )
    with pytest.raises(sg.errors.UnsupportedError):  # it is tried once
        sg.grad(lambda x: np.sum(library.ufunc(x)))(np.ones(2))
