"""A compiler for derivatives: plain NumPy in, the gradient as NumPy source out."""

from symgrad import mapped as mapped  # fills the operator table with np.apply_along_axis and np.vectorize
from symgrad.check import check_grads as check_grads, compare_grads as compare_grads
from symgrad.checkpoint import checkpoint as checkpoint
from symgrad.compile import Compiled as Compiled
from symgrad.export.load import Saved as Saved, load as load
from symgrad.functions import Function as Function
from symgrad.hooks import on_gradient as on_gradient
from symgrad.interchange.graphs import from_json as from_json, to_json as to_json
from symgrad.linear import jvp as jvp, vjp as vjp
from symgrad.ops.define import operator as operator
from symgrad.optimisers import FlatFunction as FlatFunction, to_scipy as to_scipy
from symgrad.options import options as options
from symgrad.report.diff import diff as diff
from symgrad.runtime import release_scratch as release_scratch
from symgrad.show import notebook as _notebook  # noqa: F401  gives the classes what notebooks show of them
from symgrad.show.algebra import from_sympy as from_sympy, to_sympy as to_sympy
from symgrad.show.draw import draw as draw
from symgrad.show.formula import pp as pp
from symgrad.show.outline import dprint as dprint
from symgrad.symbolic import Graph as Graph, function as function, gradients as gradients
from symgrad.trace import Program as Program, spec as spec
from symgrad.transforms import (
    compile as compile,
    elementwise_grad as elementwise_grad,
    grad as grad,
    hessian as hessian,
    hvp as hvp,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    name as name,
    stop_gradient as stop_gradient,
    trace as trace,
    value_and_grad as value_and_grad,
)
from symgrad.variable import Variable as Variable
from symgrad.verification.verdict import Verdict as Verdict
from symgrad.verification.verify import verify as verify
from symgrad.version import VERSION as __version__  # noqa: F401
