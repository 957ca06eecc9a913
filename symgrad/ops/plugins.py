"""Operators that other packages bring, by the entry points ``symgrad.operators`` of their metadata."""

from importlib.metadata import EntryPoint, entry_points

from symgrad.errors import ArgumentError

GROUP = "symgrad.operators"

_loaded: set[EntryPoint] = set()


def load() -> None:
    """Import what installed packages name, each once: a module whose import calls `symgrad.operator`.

    Raises
    ------
    ArgumentError
        If a module cannot be imported, naming the package.
    """
    for point in entry_points(group=GROUP):
        if point in _loaded:
            continue
        _loaded.add(point)
        try:
            point.load()
        except Exception as error:
            package = point.dist.name if point.dist else point.name
            raise ArgumentError(
                f"the operators of {package} cannot be imported: {point.value} raises {type(error).__name__}: {error}",
                f"Mend or uninstall {package}; its entry point {point.name!r} is in the group {GROUP!r}.",
            ) from error
