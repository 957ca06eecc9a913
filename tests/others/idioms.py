"""Ways of Python that programs are full of: records, decorators, generators, keyword arguments, callable objects."""

import functools
import itertools
import operator
from collections import OrderedDict, namedtuple
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

SCALE = 0.5
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
LOOKUP = {"soft": np.tanh, "hard": lambda x: np.clip(x, -1, 1)}

Layer = namedtuple("Layer", ["W", "b"])


@dataclass
class Spring:
    stiffness: float
    rest: np.ndarray

    def energy(self, x):
        return 0.5 * self.stiffness * np.sum((x - self.rest) ** 2)


@dataclass(frozen=True)
class Chain:
    springs: list[Spring]
    gravity: float = 9.81
    masses: np.ndarray = field(default_factory=lambda: np.ones(4))


class State(NamedTuple):
    mean: np.ndarray
    spread: float = 1.0


def dataclasses_of_dataclasses(chain, x):
    heavier = replace(chain, gravity=chain.gravity * 2)
    return sum(spring.energy(x) for spring in heavier.springs) + heavier.gravity * heavier.masses @ x


def named_tuples(layers, state):
    mean, spread = state
    for layer in layers:
        mean = np.tanh(layer.W @ mean + layer.b)
    state = state._replace(mean=mean)
    return np.sum(state.mean) * spread + state._asdict()["spread"]


def by_name(params, x):
    total = 0
    for name, w in params.items():
        if name.startswith("W"):
            total += np.sum((x @ w) ** 2)
        elif name == "bias":
            total = total + w
    return total + sum(np.sum(p**2) for p in params.values()) * SCALE + len(params)


def ordered(params):
    first, *others = params.values()
    return functools.reduce(operator.mul, others, first).sum() + next(iter(params.items()))[1][0]


def power(x, exponent, scale=1.0):
    return scale * np.sum(x**exponent)


def logged(function):
    calls = []

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        calls.append(function.__name__)
        result = function(*args, **kwargs)
        assert np.shape(result) == (), f"{function.__name__} gave {result!r}"
        return result

    return wrapper


def scaled(by):
    def decorate(function):
        return functools.wraps(function)(lambda *args, **kwargs: by * function(*args, **kwargs))

    return decorate


@logged
@scaled(by=3.0)
def decorated(x, weights=WEIGHTS):
    return np.average(x**2, weights=weights)


def generators(x):
    squares = (xi**2 for xi in x)
    pairs = itertools.combinations(x, 2)
    return sum(squares) + sum(a * b for a, b in pairs) + max(1.0, *[0.5, 0.25]) * sum([np.sin(xi) for xi in x], 0.1)


def zipped(x, y):
    total = np.float64(0.0)
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        total += (i + 1) * a * b if i % 2 else a / (1 + b**2)
    for row, w in zip(np.outer(x, y), reversed(WEIGHTS), strict=True):
        total -= w * row.sum()
    return total


def keywords(x, *others, scale=1.0, **options):
    total = scale * np.sum(x)
    for k, other in enumerate(others, start=2):
        total += np.sum(other**k)
    return total * options.get("factor", 2.0) + np.sum(LOOKUP[options.pop("kind", "soft")](x))


def with_keywords(x, y):
    return keywords(x, y, y, scale=y[0], factor=3.0, kind="hard")


class Model:
    """A callable object with a cache, properties, and class attributes."""

    penalty = 0.01

    def __init__(self, activation="soft", degree=3):
        self.activation = LOOKUP[activation]
        self.degree = degree
        self.history = {}

    @property
    def exponents(self):
        return np.arange(self.degree)

    @staticmethod
    def residual(prediction, target):
        return prediction - target

    @classmethod
    def regulariser(cls, coefficients):
        return cls.penalty * (coefficients**2).sum()

    def __call__(self, coefficients, t, target):
        basis = np.vander(t, self.degree, increasing=True)
        assert basis.shape[1] == self.exponents.size
        r = self.residual(self.activation(basis @ coefficients), target)
        self.history["last"] = r.shape
        return (r**2).mean() + self.regulariser(coefficients)


def flattened(flat):
    """Parameters in one vector, unpacked by shapes."""
    shapes = OrderedDict(W=(2, 3), b=(3,), c=())
    params, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        params[name] = flat[start : start + size].reshape(shape)
        start += size
    assert start == flat.size
    return np.sum(np.tanh(np.ones(2) @ params["W"] + params["b"])) * params["c"]


def recursive(tree):
    if isinstance(tree, dict):
        return sum(recursive(v) for v in tree.values())
    if isinstance(tree, Iterable) and not isinstance(tree, np.ndarray):
        return sum(recursive(v) for v in tree)
    return np.sum(np.square(tree))


def guarded(x, eps=None, axis=None, out=None):
    """Checks of arguments such as libraries begin with."""
    x = np.asarray(x, dtype=float)
    if x.ndim != 1:
        raise ValueError("x must be a vector")
    if not isinstance(eps, (float, type(None))):
        raise TypeError("eps must be a number")
    if eps is None:
        eps = np.finfo(x.dtype).eps
    if not np.issubdtype(x.dtype, np.floating):
        x = x.astype(float)
    if out is None:
        out = np.empty(x.shape, dtype=x.dtype)
    np.multiply(x, 2.0, out=out)
    out[out < 0] *= 0.1
    return np.sum(out / (np.abs(x) + eps + 1), axis=axis)


def polynomial(coefficients, x):
    """Horner's scheme, and the same by power sums."""
    value = 0.0 * x
    for c in coefficients[::-1]:
        value = value * x + c
    return np.sum(value - np.polyval(np.flip(coefficients), x) + sum(c * x**k for k, c in enumerate(coefficients)))


def bookkeeping(x):
    """Lists that grow, slices of them, sorting by a known key, conditional expressions."""
    history = []
    state = {"position": x, "time": 0}
    while state["time"] < 3:
        step = -0.1 if state["time"] % 2 else 0.2
        state = {**state, "position": state["position"] + step * np.cos(state["position"]), "time": state["time"] + 1}
        history.append((state["time"], state["position"].copy()))
    history.sort(key=lambda pair: -pair[0])
    times, positions = map(list, zip(*history, strict=True))
    return np.dot(times, np.array(positions)[:, 0]) + np.stack(positions[1:]).mean()


X = np.array([0.4, -0.8, 1.2, 0.3])
CHAIN = Chain([Spring(2.0, np.zeros(4)), Spring(0.5, np.ones(4))])
LAYERS = [Layer(np.eye(4) * 0.5 + 0.1, np.ones(4)), Layer(W=np.ones((4, 4)) * 0.2, b=np.zeros(4))]

PROGRAMS = {
    "dataclasses": (dataclasses_of_dataclasses, (CHAIN, X)),
    "named tuples": (named_tuples, (LAYERS, State(X))),
    "dict": (by_name, ({"W1": np.ones((4, 2)), "W2": np.eye(4), "bias": 0.3}, X)),
    "ordered dict": (ordered, (OrderedDict(b=X, a=X + 1),)),
    "partial": (functools.partial(power, exponent=3, scale=2.0), (X,)),
    "partial of positions": (functools.partial(zipped, X), (X + 1,)),
    "decorators": (decorated, (X,)),
    "generators": (generators, (X,)),
    "zip and enumerate": (zipped, (X, X[::-1].copy())),
    "arguments": (keywords, (X, X + 1, X - 1)),
    "keyword arguments": (with_keywords, (X, X + 1)),
    "callable": (Model(), (X[:3], X, X**2)),
    "bound method": (CHAIN.springs[0].energy, (X,)),
    "flattened": (flattened, (np.arange(10.0) / 5,)),
    "recursive": (recursive, ({"a": X, "b": [X * 2, {"c": (X, 1.5)}]},)),
    "guarded": (guarded, (X,)),
    "polynomial": (polynomial, (X, np.array([0.5, 1.5]))),
    "bookkeeping": (bookkeeping, (X,)),
}
