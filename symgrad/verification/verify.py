"""Whether a saved module, or C, still computes what its model says, after somebody has edited it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from symgrad.frontend.plain_arguments import as_path, check_numbers, integer
from symgrad.verification.verdict import Verdict, with_line

if TYPE_CHECKING:
    from symgrad.compiler.compiled import Compiled
    from symgrad.compiler.function import Function
    from symgrad.frontend.trace import Program


def verify(
    path: str | Path,
    function: Function[..., Any] | Compiled | Program | None = None,
    *,
    points: int = 8,
    seed: int = 0,
    rtol: float | None = None,
) -> Verdict:
    """Check a saved module that somebody has edited against its model.

    Both are evaluated at the same arguments: usual ones of several sizes, large, tiny, negative and equal ones and
    zeros, and others close to each boundary where another branch is taken, on both sides. The model's numbers are those
    of its graph, operation by operation as it was traced, and differences count that are larger than rounding can
    explain. Where there is one, the lines are compared to find where it begins.

    Parameters
    ----------
    path : str or Path
        The file that `Compiled.save` wrote. It is run, as by an import, and not changed. A file that ends in ``.c`` is
        compiled, and what its function gives is compared.
    function : Function, Compiled or Program, optional
        The model with its transforms: ``sg.grad(loss)``. By default the one that the manifest of the file names; the
        file of that model is run, as by an import. A C file has no manifest, and needs the compiled program.
    points : int
        How many usual points there are; fewer where one takes long. Those close to boundaries are searched for as long.
    seed : int
        Another seed gives other points.
    rtol : float, optional
        By how much a number may differ, relative to itself, beside rounding: by default 2e-12 in float64.

    Returns
    -------
    Verdict
        True if the file agrees with its model. It says which branches no arguments were found for.

    Raises
    ------
    ArgumentError
        If there is no such file, its model cannot be found, or no arguments are found at which it is finite.
    CompilerError
        For a C file, if there is no C compiler.

    Notes
    -----
    Where the model is NaN or overflows the file may do better. It may not do worse.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, pathlib
    >>> slope = sg.grad(lambda x: np.sum(np.sin(x))).compile("float64[n]", optimize=1)
    >>> path = slope.save(pathlib.Path(tempfile.mkdtemp()) / "slope.py")
    >>> bool(sg.verify(path, slope))
    True
    >>> _ = path.write_text(path.read_text().replace("np.cos(x)", "-np.cos(x)"))
    >>> verdict = sg.verify(path, slope)
    >>> bool(verdict), verdict.text.strip()
    (False, 'd_x = -np.cos(x)  # float64[n]')
    """
    import ast  # as the rest, imported by those who need it

    from symgrad.export.manifest import UNREADABLE, no_python, source_at
    from symgrad.verification.checking import verdict_on
    from symgrad.verification.remake import model_of

    path = as_path("sg.verify", path)
    check_numbers("sg.verify", points=integer("sg.verify: points", points), seed=integer("sg.verify: seed", seed))
    check_numbers("sg.verify", optional=True, rtol=rtol)
    if path.suffix == ".c":
        from symgrad.verification.c_files import verdict_on_c
        from symgrad.verification.remake import model_of_c

        return verdict_on_c(path, model_of_c(path, function), points, seed, rtol)
    text = source_at(path)
    try:
        ast.parse(text)
    except UNREADABLE as error:
        verdict = Verdict(path.name, "", fact=f"it is not Python: {no_python(error)}")
        return with_line(verdict, text, getattr(error, "lineno", None))
    return verdict_on(text, str(path), model_of(path, text, function), points, seed, rtol)
