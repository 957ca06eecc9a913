"""Generated source as text that knows its parts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, overload

from symgrad.core.text import first_line
from symgrad.errors import ArgumentError


class SourceText(str):
    """The text of a generated module: a string, whole, that knows which part of it is the program.

    Calling it gives it again, so that ``source`` and ``source()`` are the same of a `Compiled`; ``source(target="c")``
    is the program as plain C. A notebook and IPython show it with the runtime folded.

    Attributes
    ----------
    function : str
        The name of the function.
    program : str
        The function alone, without imports, constants and the functions that it calls.
    runtime : str
        The functions behind the program, which it calls; "" where it calls none.
    native : str
        The C that the program calls, where it was compiled with ``target="c"``; else "".
    folded : str
        The text with one line in the place of the runtime.

    Examples
    --------
    >>> import numpy as np, symgrad as sg
    >>> source = sg.grad(lambda x: np.sum(np.abs(x) ** 1.5)).source("float64[n]")
    >>> source.program.splitlines()[0]
    'def function_grad(x):'
    """

    function: str
    native: str
    _in_c: Callable[[], str] | None

    def __new__(cls, text: str, function: str, native: str = "", in_c: Callable[[], str] | None = None) -> SourceText:
        self = super().__new__(cls, text)
        self.function, self.native, self._in_c = function, native, in_c
        return self

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        return str(self), self.function, self.native

    def __getstate__(self) -> None:
        """Leave the program behind."""

    @overload
    def __call__(self) -> SourceText: ...
    @overload
    def __call__(self, target: Literal["c"]) -> str: ...
    def __call__(self, target: str | None = None) -> str:
        """Return the text itself, or the program as plain C.

        Parameters
        ----------
        target : str, optional
            ``"c"`` for the text that `Compiled.save` writes to a path that ends in ``.c``; it takes no compiler.

        Raises
        ------
        ArgumentError
            For any other target, or of a source that belongs to no program of this process.
        UnsupportedError
            If C does not compute the whole program.
        """
        if target is None:
            return self
        if target != "c":
            raise ArgumentError(f"source(target={target!r})", 'It is "c", or nothing for the source that runs.')
        if self._in_c is None:
            raise ArgumentError("this source is a text without its program", "Ask the compiled program for its source.")
        return self._in_c()

    @cached_property
    def program(self) -> str:
        return "\n\n\n".join("\n".join(self._lines[start:end]) for start, end in self._spans)

    @cached_property
    def runtime(self) -> str:
        return "\n".join(self._lines[self._end :]).strip("\n")

    @property
    def folded(self) -> str:
        note = self.runtime_note
        return f"{self.before_runtime}\n\n\n# {note}" if note else self.before_runtime

    @property
    def before_runtime(self) -> str:
        """The text up to the end of the program."""
        return "\n".join(self._lines[: self._end])

    @property
    def runtime_note(self) -> str:
        """Return the length of the runtime in words; "" where there is none."""
        count = len(self.runtime.splitlines())
        return f"+ {count} line{'s' * (count != 1)} of runtime" if count else ""

    def _repr_html_(self) -> str:
        from symgrad.show.notebook import source_view

        return source_view(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print in IPython without quotes."""
        printer.text(self.folded)

    @cached_property
    def _lines(self) -> list[str]:
        return self.split("\n")

    @property
    def _end(self) -> int:
        return self._spans[-1][1]

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The lines of the function; and those of its body, where that is a function with other parameters.

        A saved module whose function somebody has made of another one is all program.
        """
        functions = [x for x in ast.parse(self).body if isinstance(x, ast.FunctionDef)]
        own = [x for x in functions if x.name == self.function or x.name.startswith(f"{self.function}_body")]
        spans = [(first_line(x) - 1, x.end_lineno or 0) for x in own]
        return spans or [(0, len(self._lines))]
