"""NumPy's names for CasADi, which calls some functions differently; its arrays are matrices, vectors are columns."""

from types import SimpleNamespace
from typing import Any


def names() -> SimpleNamespace:
    """Return what stands for NumPy in a loss."""
    import casadi as ca

    def total(x: Any, axis: int | None = None) -> Any:
        if axis is None:
            return ca.sum1(ca.sum2(x))
        return ca.sum1(x).T if axis == 0 else ca.sum2(x)

    def mean(x: Any) -> Any:
        return total(x) / x.numel()

    def logaddexp(a: Any, b: Any) -> Any:
        return ca.fmax(a, b) + ca.log1p(ca.exp(-ca.fabs(a - b)))

    same = {name: getattr(ca, name) for name in "exp expm1 log log1p sqrt sin cos tanh".split()}
    return SimpleNamespace(sum=total, mean=mean, logaddexp=logaddexp, maximum=ca.fmax, abs=ca.fabs, **same)
