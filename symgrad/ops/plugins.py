"""Operators that other packages bring, by the entry points ``symgrad.operators`` of their metadata."""

from symgrad.errors import ArgumentError

GROUP = "symgrad.operators"

_loaded = set()  # by name and value: also those that failed are not tried again in this process


def load():
    """Import what installed packages name, each once: modules that call `symgrad.operator`.

    Called when a function is met that has no entry in the table: a program without such functions need not look through
    the metadata of all packages.

    Raises
    ------
    ArgumentError
        If a module cannot be imported.
    """
    from importlib.metadata import entry_points  # slow to import

    for point in entry_points(group=GROUP):
        if (point.name, point.value) in _loaded:
            continue
        _loaded.add((point.name, point.value))
        try:
            point.load()
        except Exception as error:
            raise ArgumentError(
                f"{point.value}, which brings operators, cannot be imported: {type(error).__name__}: {error}",
                f"Fix or uninstall its package: its entry point is {point.name!r} in the group {GROUP!r}.",
            ) from error
