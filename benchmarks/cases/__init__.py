"""The cases, each a model at certain sizes, in the order of the table."""

from cases import (
    classify,
    clusters,
    convolution,
    convolutions,
    descents,
    embeddings,
    fit,
    growth,
    linear,
    loops,
    minors,
    mixture,
    options,
    pairwise,
    pointwise,
    recurrent,
    small_states,
    spectra,
    transformer,
)
from cases.model import Case as Case, Model as Model

_MODULES = (
    *(mixture, pointwise, options, growth, linear, fit, classify, embeddings, clusters, pairwise, loops),
    *(small_states, descents, recurrent, minors, transformer, convolution, convolutions, spectra),
)
CASES = [case for module in _MODULES for case in module.CASES]
