"""The cases, each a model at certain sizes, in the order of the table."""

from cases import classify, clusters, convolution, linear, mixture, options, pointwise, recurrent, transformer
from cases.model import Case as Case, Model as Model

_MODULES = mixture, pointwise, options, linear, classify, clusters, recurrent, transformer, convolution
CASES = [case for module in _MODULES for case in module.CASES]
