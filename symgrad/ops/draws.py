"""Random numbers with traced parameters: NumPy's generators refuse them; what to write instead of each method."""

from __future__ import annotations

from typing import Any

_SCALED = "Draw standard numbers, which need no traced value, and scale them: {}."
_BY_SCALE = {
    "normal": "loc + scale * rng.standard_normal(n)",
    "uniform": "low + (high - low) * rng.random(n)",
    "exponential": "scale * rng.standard_exponential(n)",
    "laplace": "loc + scale * rng.laplace(size=n)",
    "logistic": "loc + scale * rng.logistic(size=n)",
    "gumbel": "loc + scale * rng.gumbel(size=n)",
    "lognormal": "np.exp(mean + sigma * rng.standard_normal(n))",
    "rayleigh": "scale * rng.rayleigh(size=n)",
    "weibull": "rng.standard_exponential(n) ** (1 / a)",
    "pareto": "np.expm1(rng.standard_exponential(n) / a)",
    "power": "np.exp(-rng.standard_exponential(n) / a)",
    "gamma": "scale * rng.standard_gamma(shape, n), where shape is not traced",
    "multivariate_normal": "mean + np.linalg.cholesky(cov) @ rng.standard_normal(d)",
}
_DISCRETE = "It draws integers, which have no derivative: give it numbers that are not traced."
_SIZES = "Give it sizes and numbers that are not traced."
_OTHERS = "Its numbers are no simple function of the parameters: give it numbers that are not traced."

DRAWS: dict[str, str] = {
    **{name: _SCALED.format(text) for name, text in _BY_SCALE.items()},
    **dict.fromkeys(
        "binomial geometric hypergeometric integers logseries multinomial multivariate_hypergeometric "
        "negative_binomial poisson randint random_integers zipf".split(),
        _DISCRETE,
    ),
    **dict.fromkeys(
        "bytes rand randn random random_sample ranf sample standard_cauchy standard_exponential "
        "standard_normal".split(),
        _SIZES,
    ),
    **dict.fromkeys(
        "beta chisquare dirichlet f noncentral_chisquare noncentral_f standard_gamma standard_t triangular vonmises "
        "wald".split(),
        _OTHERS,
    ),
}
"""Methods of generators, and the functions of `numpy.random` that are those of its own one."""


def is_generator(x: Any) -> bool:
    """Whether an object is one of NumPy's generators of random numbers; `numpy.random` need not be imported for it."""
    return type(x).__module__.startswith("numpy.random")


def instead_of_draw(function: Any) -> str:
    """Return what to write instead of a draw with traced parameters; "" for any other function."""
    drawn = is_generator(getattr(function, "__self__", None))
    return DRAWS.get(getattr(function, "__name__", ""), "") if drawn else ""
