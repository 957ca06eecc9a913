"""The cases, each a model at certain sizes, in the order of the table."""

from cases import linear, mixture, pointwise
from cases.model import Case as Case, Model as Model

CASES = [case for module in (mixture, pointwise, linear) for case in module.CASES]
