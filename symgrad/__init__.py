"""A compiler for derivatives: plain NumPy in, the gradient as NumPy source out."""

from importlib import import_module as _import_module
from sys import modules as _modules
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from symgrad import errors as errors
from symgrad.compiler.compiled import Compiled as Compiled
from symgrad.compiler.function import Function as Function
from symgrad.core.options import options as options
from symgrad.core.version import VERSION as _VERSION
from symgrad.derivatives import mapped as _mapped  # noqa: F401  its operators belong to the table, too
from symgrad.derivatives.checkpoint import checkpoint as checkpoint
from symgrad.derivatives.closure import closure_convert as closure_convert
from symgrad.derivatives.custom import custom_jvp as custom_jvp, custom_vjp as custom_vjp
from symgrad.derivatives.hooks import on_gradient as on_gradient
from symgrad.export.load import Saved as Saved, load as load
from symgrad.frontend.arguments import spec as spec
from symgrad.frontend.checks import debug_print as debug_print
from symgrad.frontend.control import (
    associative_scan as associative_scan,
    cond as cond,
    fori_loop as fori_loop,
    map as map,
    scan as scan,
    switch as switch,
    while_loop as while_loop,
)
from symgrad.frontend.trace import Program as Program
from symgrad.frontend.variable import Variable as Variable
from symgrad.ops.define import operator as operator
from symgrad.transforms.batches import vmap as vmap
from symgrad.transforms.gradients import (
    compile as compile,
    elementwise_grad as elementwise_grad,
    grad as grad,
    name as name,
    stop_gradient as stop_gradient,
    trace as trace,
    value_and_grad as value_and_grad,
)
from symgrad.transforms.graph_door import Graph as Graph, function as function, gradients as gradients
from symgrad.transforms.jacobians import (
    hessian as hessian,
    hvp as hvp,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
)
from symgrad.transforms.products_with_vectors import jvp as jvp, vjp as vjp

if _TYPE_CHECKING:
    from symgrad.compiler.scratch import release_scratch as release_scratch
    from symgrad.implicit.integrals import quad as quad
    from symgrad.implicit.linear import cg as cg, gmres as gmres
    from symgrad.implicit.minima import minimize as minimize
    from symgrad.implicit.odes import odeint as odeint
    from symgrad.implicit.roots import fixed_point as fixed_point, root as root
    from symgrad.interchange.graphs import from_json as from_json, to_json as to_json
    from symgrad.report.diff import diff as diff
    from symgrad.scale.plan import Plan as Plan
    from symgrad.scale.split import split as split
    from symgrad.show.algebra import from_sympy as from_sympy, to_sympy as to_sympy
    from symgrad.show.draw import draw as draw
    from symgrad.show.formula import pp as pp
    from symgrad.show.outline import dprint as dprint
    from symgrad.transforms.optimisers import FlatFunction as FlatFunction, to_scipy as to_scipy
    from symgrad.verification.check_grads import check_grads as check_grads, compare_grads as compare_grads
    from symgrad.verification.verdict import Verdict as Verdict
    from symgrad.verification.verify import verify as verify

__version__ = _VERSION

_LATER = {  # by module: what takes a while to import, and few programs need
    "compiler.scratch": ("release_scratch",),
    "implicit.integrals": ("quad",),
    "implicit.linear": ("cg", "gmres"),
    "implicit.minima": ("minimize",),
    "implicit.odes": ("odeint",),
    "implicit.roots": ("fixed_point", "root"),
    "interchange.graphs": ("from_json", "to_json"),
    "report.diff": ("diff",),
    "scale.plan": ("Plan",),
    "scale.split": ("split",),
    "show.algebra": ("from_sympy", "to_sympy"),
    "show.draw": ("draw",),
    "show.formula": ("pp",),
    "show.outline": ("dprint",),
    "transforms.optimisers": ("FlatFunction", "to_scipy"),
    "verification.check_grads": ("check_grads", "compare_grads"),
    "verification.verdict": ("Verdict",),
    "verification.verify": ("verify",),
}
_ELSEWHERE = {
    "jit": "sg.compile(f) compiles a function, and derivatives are compiled at their first call",
    "tree_map": "results are trees like the arguments; sg.to_scipy(f, x0) has ravel and unravel",
}
"""Advice for names of other libraries."""
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> _Any:
    if name not in _MODULES:
        instead = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        message = f"module 'symgrad' has no attribute {name!r}{instead}"
        raise AttributeError(message, name=name, obj=_modules[__name__])  # Python adds names that are close
    value = globals()[name] = getattr(_import_module(f"symgrad.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """The public names; the rooms of the house are not among them."""
    own = [name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
    return [*dict.fromkeys([*own, *_MODULES]), "errors", "__version__"]
