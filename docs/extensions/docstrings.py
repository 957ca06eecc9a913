"""In docstrings `grad` is a link where symgrad has such a public name, and code where it has none."""

import inspect
import re

import symgrad
from symgrad import errors
from symgrad.analysis import cost
from symgrad.compiler import doctor
from symgrad.export import load
from symgrad.report import diff, explain, profile
from symgrad.verification import compare_grads

MODULES = (errors, compare_grads, cost, doctor, load, diff, explain, profile)  # the reference has classes of theirs

NAME = re.compile(r"(?<![`:\w])`([^`\n]+)`(?![`_])")


def target(text):
    """What the text names, for Sphinx; None for a parameter, an expression, a name of another library."""
    owner, _, member = text.removeprefix("symgrad.").partition(".")
    home = next((module.__name__ for module in MODULES if is_class_of(module, owner)), None)
    if home:
        return f"{home}.{owner}"
    thing = None if owner.startswith("_") else getattr(symgrad, owner, None)
    if not callable(thing) or (member and not hasattr(thing, member)):
        return None
    return f"symgrad.{owner}" + (f".{member}" if member else "")


def is_class_of(module, name):
    found = getattr(module, name, None)
    return isinstance(found, type) and found.__module__ == module.__name__


def linked(line, parameters=()):
    """A line with links; `name` may be the public function or a parameter of what the docstring is of."""

    def link(match):
        name = None if match[1] in parameters else target(match[1])
        return f":py:obj:`{match[1]} <{name}>`" if name else f"``{match[1]}``"

    return NAME.sub(link, line)


def parameters_of(thing):
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return set()


def process(app, what, name, obj, options, lines):
    parameters = parameters_of(obj)
    lines[:] = [linked(line, parameters) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", process, priority=900)  # after napoleon
    return {"parallel_read_safe": True}
