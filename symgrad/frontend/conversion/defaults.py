"""Default dicts of which only running tells whether a key is there: what is read under it is known all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, NoReturn

import optree

from symgrad.core import tree
from symgrad.errors import UnsupportedError

_NUMBERS = (bool, int, float, complex)


class Whole:
    """A leaf that stands for all of a dict, where it is not known which keys are there."""

    def __init__(self, of: Defaults) -> None:
        self.of = of

    def __repr__(self) -> str:
        return f"a defaultdict in which {', '.join(map(repr, self.of.doubtful))} may be missing"


class Defaults(defaultdict[Any, Any]):
    """``defaultdict(factory)`` of a function that is being traced.

    Under each of the `doubtful` keys it holds what Python would read: the default where the key is not there. Who asks
    whether such a key is there, or for all keys, is refused. Once it has been in doubt a key remains so.
    """

    def __init__(self, factory: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(factory, *args, **kwargs)
        self.doubtful: dict[Any, None] = {}
        self.whole = Whole(self)

    @property
    def default(self) -> Any:
        """The number that any missing key gives; None where that is not known."""
        f = self.default_factory
        if type(f) is FunctionType:
            code = f.__code__
            alone = not (code.co_names or code.co_freevars or code.co_argcount or code.co_kwonlyargcount)
            return f() if alone and type(f()) in _NUMBERS else None
        return f() if f in _NUMBERS else None

    def doubt(self, keys: Iterable[Any]) -> None:
        """Hold from now on whether these keys are there for unknown."""
        self.doubtful.update(dict.fromkeys(keys))

    def own_keys(self) -> tuple[Any, ...]:
        """The keys that it holds, whether or not they are there."""
        return tuple(dict.keys(self))

    # ---- what Python asks

    def _refuse(self) -> NoReturn:
        names = ", ".join(map(repr, self.doubtful))
        raise UnsupportedError(
            f"the program reads the keys of a defaultdict, and whether it has {names} depends on traced values",
            "Set all keys when you create the dict.",
        )

    def _known(self, *keys: Any) -> None:
        if self.doubtful if not keys else any(key in self.doubtful for key in keys):
            self._refuse()

    def __contains__(self, key: Any) -> bool:
        self._known(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None, /) -> Any:
        self._known(key)
        return super().get(key, default)

    def pop(self, key: Any, /, *default: Any) -> Any:
        self._known(key)
        return super().pop(key, *default)

    def setdefault(self, key: Any, default: Any = None, /) -> Any:
        self._known(key)
        return super().setdefault(key, default)

    def __delitem__(self, key: Any) -> None:
        self._known(key)
        super().__delitem__(key)

    def __iter__(self) -> Iterator[Any]:
        self._known()
        return super().__iter__()

    def __len__(self) -> int:
        self._known()
        return super().__len__()

    def __repr__(self) -> str:
        self._known()
        return repr(defaultdict(self.default_factory, self))

    __hash__ = None  # type: ignore[assignment]


def _of_all(name: str) -> Any:
    def method(self: Defaults, *args: Any) -> Any:
        self._known()
        return getattr(defaultdict, name)(self, *args)

    method.__name__ = name
    return method


_ALL = "keys values items popitem copy clear __reversed__ __eq__ __ne__ __or__ __ror__ __copy__ __reduce__"
for _name in _ALL.split():
    setattr(Defaults, _name, _of_all(_name))
Defaults.__name__ = "defaultdict"  # in messages


def _taken_apart(x: Any) -> tuple[tuple[Any], None]:
    return (x.whole if x.doubtful else defaultdict(x.default_factory, x),), None


def _put_together(_: Any, children: Iterable[Any]) -> Any:
    (content,) = children
    return content.of if type(content) is Whole else content


optree.register_pytree_node(Defaults, _taken_apart, _put_together, namespace=tree.NAMESPACE)
