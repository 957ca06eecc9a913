"""Programs as JSON, to keep, to look at, and to compile again; docs/formats.md describes the format."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from symgrad.compiler.compiled import Compiled
from symgrad.compiler.function import Function
from symgrad.core.graph import Graph, results
from symgrad.errors import ArgumentError
from symgrad.frontend.trace import Program
from symgrad.frontend.variable import Variable
from symgrad.transforms.graph_door import between


def to_json(program: Any) -> str:
    """A program as JSON text, which `from_json` reads.

    Parameters
    ----------
    program : Program, Compiled or Graph
        Of a Compiled the program as it was traced, before it was simplified. Of a Graph that was built by hand the
        function from its inputs to its outputs, or else to all that nothing uses.

    Returns
    -------
    str
        The same text for the same program, in every process. It holds the user's lines, but no folders.

    Raises
    ------
    ArgumentError
        If an argument or a result is an instance of a class, a parameter cannot be written to a file, or an operator of
        your own has the name of another.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> program = sg.grad(lambda x: np.sum(np.sin(x))).trace("float64[n]")
    >>> text = sg.to_json(program)
    >>> sg.Compiled(sg.from_json(text)).signature
    'x: float64[n] -> float64[n]'
    """
    from symgrad.interchange.writer import document, text_of  # as the reader, imported by those who need it

    return text_of(document(_program(program)))


def from_json(text: str) -> Program:
    """The program that a JSON text describes.

    Nothing in the text is executed: operators are found by name, shapes and dtypes are inferred again and compared.

    Parameters
    ----------
    text : str
        As `to_json` writes it, of version 1 of the format.

    Returns
    -------
    Program
        ``sg.Compiled(program)`` compiles it, with the options in force.

    Raises
    ------
    ArgumentError
        If the text is not such a program; it names the place: ``nodes[12].inputs[0]: 14 is not before it``.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> program = sg.from_json(sg.to_json(sg.compile(np.exp).trace("float64[n]")))
    >>> sg.Compiled(program)(np.zeros(2))
    array([1., 1.])
    """
    from symgrad.interchange.cursor import Cursor
    from symgrad.interchange.reader import program_at

    if not isinstance(text, str):
        raise ArgumentError(f"{type(text).__name__} is not text", "Give the text of a file: path.read_text().")
    try:
        return program_at(Cursor(json.loads(text, parse_constant=_no_number)))
    except RecursionError:
        raise ArgumentError("the file nests too deeply", "Write it with sg.to_json.") from None
    except ValueError as error:
        raise ArgumentError(f"the file is not JSON: {error}", "Write it with sg.to_json.") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _program(x: Any) -> Program:
    if isinstance(x, Program):
        return x
    if isinstance(x, Compiled):
        return x.program
    if isinstance(x, Graph):
        return between([Variable(x, node) for node in x.inputs], [Variable(x, node) for node in results(x)])
    instead = "Give f.trace(*args), with arrays or specs." if isinstance(x, Function) else "Give a Program or a Graph."
    raise ArgumentError(f"{x!r} is not a program", instead)
