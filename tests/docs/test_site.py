"""The site of the documentation builds without a warning, its links lead somewhere, and it has every public name."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.folders import ROOT
from tests.test_house import PUBLIC

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")


@pytest.fixture(scope="module")
def extension():
    """The Sphinx extensions of the documentation, as modules."""
    folder = str(ROOT / "docs" / "extensions")
    sys.path.insert(0, folder)
    yield pytest.importorskip
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run([*command, str(ROOT / "docs"), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_public_name_is_in_the_reference(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    there = set(re.findall(r'id="symgrad\.([\w.]+)"', text))
    assert set(PUBLIC) - there == set()
    assert {"Compiled.save", "Graph.input", "errors.NonFiniteError"} <= there


def test_what_is_refused_is_not_listed_as_known(site):
    text = (site / "reference" / "supported.html").read_text(encoding="utf-8")
    known = set(re.findall(r'<span class="pre">(\w+)</span>', text))
    assert {"tanh", "einsum", "rfft", "dctn", "gammaln", "solve", "logpdf"} <= known
    assert {"unique", "schur", "histogram"} & known == set()


def test_the_census_is_on_the_site(site):
    text = (site / "coverage.html").read_text(encoding="utf-8")
    assert {"numpy", "numpy.linalg", "scipy.special"} <= set(re.findall(r"<h2>([\w.]+)<a", text))
    refused = text[text.index("Refused") :]
    assert "the size of the result depends on values" in refused
    assert '<span class="pre">unique</span>' in refused
    assert "polydiv" in (site / "searchindex.js").read_text(encoding="utf-8")


def test_a_link_that_leads_nowhere_is_found(extension, tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top-of-a"></h1><a href="b.html#there">b</a><a href="#top-of-a">a</a>')
    (tmp_path / "b.html").write_text('<p id="other"></p><a href="a.html"></a><img src="c.svg"><a href="https://d.e/f">')
    assert list(extension("links").broken(tmp_path)) == [("a.html", "b.html#there"), ("b.html", "c.svg")]


def test_what_a_page_loads_from_the_network_is_found(extension, tmp_path):
    (tmp_path / "a.html").write_text('<a href="https://d.e/f"></a><script src="//g.h/i.js"></script><img src="data:,">')
    assert list(extension("links").broken(tmp_path)) == [("a.html", "//g.h/i.js")]


def test_names_in_docstrings_are_links_where_they_are_public(extension):
    names = extension("docstrings")
    assert names.target("grad") == "symgrad.grad"
    assert names.target("Compiled.save") == "symgrad.Compiled.save"
    assert names.target("ShapeError") == "symgrad.errors.ShapeError"
    assert names.target("f") is names.target("np.sum") is names.target("Compiled.gone") is None
    assert names.linked("`x`, ``y`` and `grad`") == "``x``, ``y`` and :py:obj:`grad <symgrad.grad>`"
    assert names.linked("`name`", names.parameters_of(lambda name: 0)) == "``name``"
