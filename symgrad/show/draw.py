"""Graphs as pictures: files of several formats, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from symgrad.compiler.compiled import Compiled
from symgrad.compiler.function import Function
from symgrad.core.saving import write_text
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program
from symgrad.report.profile import Profile
from symgrad.show.diagram import dot, mermaid
from symgrad.show.page import page
from symgrad.show.picture import Picture, picture
from symgrad.show.subject import shown
from symgrad.show.svg import svg


def _picture(x: Any, profile: Profile | None = None) -> Picture:
    graph, outputs = shown(x if profile is None else x.graph, ())  # what took time is kernels, in C
    about = Picture(x.name, x.summary) if isinstance(x, Program) else Picture()
    if isinstance(x, Compiled):
        about = Picture(x.program.name, x.program.summary, x.signature, code=x.lines)
    about.shares = {} if profile is None else profile.shares
    drawn = picture(graph, outputs, about)
    if profile is not None and drawn.shares and not any(box.node in drawn.shares for box in drawn.boxes):
        raise ArgumentError(
            f"draw: the profile is of {profile.function}, compiled apart from what is drawn",
            "Draw the program that was profiled: sg.draw(program, profile=program.profile(*args)).",
        )
    return drawn


FORMATS: dict[str, Callable[[Picture], str]] = {
    ".svg": svg,
    ".dot": dot,
    ".gv": dot,
    ".mmd": mermaid,
    ".md": lambda drawn: f"```mermaid\n{mermaid(drawn)}```\n",
    ".html": page,
    ".htm": page,
}


class Drawing:
    """A graph as a picture; a notebook shows it. Made by `draw`."""

    def __init__(self, drawn: Picture) -> None:
        self.picture = drawn

    def __repr__(self) -> str:
        return f"<Drawing of {len(self.picture.boxes)} boxes>"

    def _repr_svg_(self) -> str:
        return svg(self.picture)

    def text(self, ending: str = ".svg") -> str:
        """The picture in the format of files with this ending."""
        if ending not in FORMATS:
            raise ArgumentError(f"no picture has the ending {ending!r}", f"Choose from {', '.join(FORMATS)}.")
        return FORMATS[ending](self.picture)


def draw(x: Any, path: str | Path | None = None, overwrite: bool = False, *, profile: Profile | None = None) -> Drawing:
    """Draw a graph: what is given in yellow, what the function computes in blue, what its derivatives do in red.

    What a derivative computes again (see `checkpoint`) is violet, and results have a thick border. Numbers stand in the
    boxes that use them. Bodies of loops and branches are framed.

    Parameters
    ----------
    x : Variable, Graph, Program or Compiled
    path : str or Path, optional
        A file to write. Its ending decides: ``.svg``, ``.dot`` or ``.gv`` for Graphviz, ``.mmd`` or ``.md`` for
        Mermaid, which GitHub shows in Markdown, ``.html`` for a page to zoom, search and click in, which is one file
        and needs no network.
    overwrite : bool
        Whether a file may go that symgrad did not write.
    profile : Profile, optional
        Of the program that is drawn, ``program.profile(*args)``: it colours each box by the share of the time of the
        line of the source that it stands in. Boxes of a program in C are its kernels then.

    Returns
    -------
    Drawing
        As the last line of a cell, a notebook shows it.

    Raises
    ------
    ArgumentError
        If `x` has no graph, the path has another ending, a file is there that symgrad did not write, or the profile is
        that of another program.

    Examples
    --------
    >>> import numpy as np, symgrad as sg, tempfile, os
    >>> slope = sg.grad(lambda x: np.sum(np.exp(x) * x)).compile("float64[n]", optimize=1)
    >>> sg.draw(slope, os.path.join(tempfile.mkdtemp(), "slope.svg"))
    <Drawing of 4 boxes>
    """
    if isinstance(x, Function):
        raise ArgumentError(
            f"{x!r} has one graph for each type of its arguments",
            "Draw f.compile(*args), with arrays or specs, or f.trace(*args), which is not simplified.",
        )
    drawing = Drawing(_picture(x, profile))
    if path is not None:
        path = Path(path)
        write_text(path, drawing.text(path.suffix), overwrite)
    return drawing
