"""`{supported}` lists the functions of NumPy and SciPy that symgrad knows, as the operator table has them."""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import symgrad  # noqa: F401  fills the table
from symgrad.ops.define import PLACES, TABLE, Refused
from symgrad.ops.scipy import load

MODULES = """
    numpy numpy.linalg numpy.fft numpy.lib.stride_tricks
    math scipy.special scipy.linalg scipy.fft scipy.stats scipy.signal scipy.interpolate scipy.sparse
    scipy.spatial.distance scipy.ndimage scipy.integrate scipy.spatial.transform
""".split()

UNKNOWN = Refused("", "")


def is_supported(function):
    """Whether the table has it; some entries only say what to write instead."""
    try:
        return not isinstance(TABLE.get(function, UNKNOWN), Refused)
    except TypeError:  # cannot be hashed
        return False


def functions(module):
    """The functions of a module that are known, and classes whose objects may be called, in alphabetical order."""
    public = [(name, x) for name, x in inspect.getmembers(module) if not name.startswith("_")]
    return [name for name, x in public if is_supported(x) or known_methods(x) == ["__call__"]]


def known_methods(x):
    return sorted(name for holder, name in PLACES if holder is x and is_supported(getattr(x, name)))


def methods(module):
    """For objects and classes of a module, such as distributions: their methods that are known."""
    found = {name: known_methods(x) for name, x in inspect.getmembers(module) if not inspect.ismodule(x)}
    return {name: known for name, known in found.items() if known not in ([], ["__call__"])}


def ufunc_methods():
    """The methods of ufuncs that are known, and of which ufuncs."""
    ufuncs = [(name, x) for name, x in inspect.getmembers(numpy) if isinstance(x, numpy.ufunc) and name == x.__name__]
    for method in ("reduce", "accumulate", "reduceat", "outer"):
        yield method, [name for name, x in ufuncs if is_supported(getattr(x, method))]


class Supported(SphinxDirective):
    has_content = False

    def run(self):
        modules = [import_module(name) for name in MODULES]
        load()
        result = []
        for module in modules:
            rows = [("functions", functions(module)), *methods(module).items()]
            if module is numpy:
                rows += [(f"ufunc.{method}", names) for method, names in ufunc_methods()]
            result += self.section(module.__name__, [row for row in rows if row[1]])
        return result

    def section(self, title, rows):
        if not rows:
            return []
        section = nodes.section("", nodes.title(title, title), ids=[nodes.make_id(title)], names=[title])
        for name, known in rows:
            lead = [] if name == "functions" else [nodes.strong(name, name), nodes.Text(": ")]
            section += nodes.paragraph("", "", *lead, *listed(known))
        return [section]


def listed(names):
    """The names as code, with commas between."""
    for i, name in enumerate(names):
        yield nodes.Text(", " if i else "")
        yield nodes.literal(name, name)


def setup(app):
    app.add_directive("supported", Supported)
    return {"parallel_read_safe": True}
