"""Saved modules as functions, with their manifests."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from symgrad.errors import ArgumentError
from symgrad.export.source_text import SourceText
from symgrad.frontend.plain_arguments import as_path

if TYPE_CHECKING:
    from pathlib import Path


class SelfTest(NamedTuple):
    """The result of a saved module's self-test; true if it passed.

    Attributes
    ----------
    errors : tuple of (str, float)
        For each test vector its sizes, and the largest error of a number, relative to the largest of its result.
    tolerance : float
        What is allowed.
    reason : str
        Why there are no test vectors, where there are none.
    """

    errors: tuple[tuple[str, float], ...]
    tolerance: float
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.errors) and all(error <= self.tolerance for _, error in self.errors)

    def __str__(self) -> str:
        lines = [f"{sizes}: relative error {error:.1e}" for sizes, error in self.errors]
        failed = f"FAILED: {self.tolerance} is allowed" if self.errors else f"no test vectors: {self.reason}"
        return "\n".join([*lines, "passed" if self else failed])


class Saved:
    """A saved module: call it as its function. Made by `load`.

    Attributes
    ----------
    path : Path
    source : SourceText
        The text of the file.
    manifest : dict
        What the file says of itself: ``manifest["model"]``, ``manifest["arguments"]`` and so on.
    signature : str
        Names, dtypes and sizes of arguments and results, as it was saved.
    function : callable
        The function of the module.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "slope.py")
    >>> saved = sg.load(sg.grad(np.sin).compile(0.0).save(path))
    >>> saved.signature, bool(saved.selftest())
    ('x: float -> float64[]', True)
    """

    def __init__(self, path: Path, source: str, manifest: dict[str, Any], module: ModuleType) -> None:
        self.path, self.manifest, self._module = path, manifest, module
        name = manifest["function"]
        function = getattr(module, name, None)
        if not callable(function):
            fact = f"{path.name!r} has no function {name!r}, which its manifest names"
            raise ArgumentError(fact, "Give the function this name, or save the module again.")
        self.source = SourceText(source, name)
        self.function: Callable[..., Any] = function
        self.signature: str = manifest["signature"]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Saved {self.manifest['function']} of {self.path.name}: {self.signature}>"

    def selftest(self) -> SelfTest:
        """Compare the function with the test vectors in the file, as ``python file.py --selftest`` does.

        Returns
        -------
        SelfTest

        Raises
        ------
        ArgumentError
            If the functions that do so are no longer in the file.
        """
        tests, summaries, worst = (vars(self._module).get(f"_{name}") for name in ("selftest", "summaries", "worst"))
        if not (callable(tests) and callable(summaries) and callable(worst)):
            raise ArgumentError(f"{self.path.name!r} has lost its self-test", "Save the module again.")
        with np.errstate(all="ignore"):
            errors = [(sizes, worst(summaries(results), expected)) for sizes, results, expected in tests()]
        return SelfTest(tuple(errors), self.manifest["tolerance"], self.manifest["reasons"].get("vectors", ""))


def load(path: str | Path) -> Saved:
    """Load a module that `Compiled.save` wrote, perhaps edited since.

    This runs the file, as importing it would: load what you trust. To look at its manifest alone nothing is run:
    `symgrad.export.manifest.read_manifest`.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Saved
        Call it as the function; it has ``manifest``, ``signature``, ``source`` and ``selftest()``.

    Raises
    ------
    ArgumentError
        If there is no such file, it is no Python, symgrad did not save it, a newer symgrad did, or it fails while it is
        run.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "cubes.py")
    >>> saved = sg.load(sg.grad(lambda x: np.sum(x ** 3)).compile("float64[n]", optimize=1).save(path))
    >>> saved(np.array([1.0, 2.0]))
    array([ 3., 12.])
    >>> print(saved.selftest())
    n = 3: relative error 1.8e-12
    n = 5: relative error 1.3e-12
    passed
    """
    from symgrad.export.manifest import manifest_in, source_at

    path = as_path("sg.load", path)
    source = source_at(path)
    manifest = manifest_in(path, source)
    return Saved(path, source, manifest, _run(path, source))


def _run(path: Path, source: str) -> ModuleType:
    """Run the text of the module, not cached bytecode, which may be older than an edit of the same second."""
    module = ModuleType(f"symgrad_saved_{path.stem}")
    module.__file__ = str(path.absolute())
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:
        fact = f"{path.name!r} fails while it is loaded: {type(error).__name__}: {error}"
        raise ArgumentError(fact, "Fix it, or save the module again, with the .npz file beside it.") from error
    return module
