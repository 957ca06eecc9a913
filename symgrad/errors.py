"""Every exception of symgrad: the fact, the user's line, and what to write instead."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from symgrad.core.provenance import UNKNOWN, Where, in_library, notebook, trail, users_traceback

if TYPE_CHECKING:
    from symgrad.compiler.doctor import Diagnosis

refused: ContextVar[list[Refusal] | None] = ContextVar("refused", default=None)
"""The refusals of the running trace so far; None outside of a trace."""


class SymgradError(Exception):
    """Base of all errors of symgrad.

    Parameters
    ----------
    fact : str
        What happened, with the shapes, dtypes or names that matter.
    instead : str
        What to write instead; "" where nothing would help.
    where : Where, optional
        The place in the user's program; by default the line that is running.

    Attributes
    ----------
    calls : tuple of Call
        What that line calls, by the way to where it failed: lines of other functions of the user's, and of a library.
    code : str
        What the page of this kind of error is called in the documentation; a code never gets another meaning.
    """

    code: ClassVar[str]

    def __init__(self, fact: str, instead: str = "", where: Where | None = None) -> None:
        self.fact, self.instead = fact, instead
        self.where, self.calls = trail() if where is None else (where, ())
        super().__init__(self._message())
        self.add_note(f"  [{self.code}] errors/{self.code} in symgrad's documentation")

    def _render_traceback_(self) -> list[str]:
        """Give IPython a traceback that ends at the user's line."""
        shown = notebook().InteractiveTB
        lines: list[str] = shown.structured_traceback(
            type(self), self, users_traceback(self.__traceback__), tb_offset=shown.tb_offset
        )
        return lines

    def forget(self) -> None:
        """Take back the refusal, so that it does not end the trace: symgrad itself goes on without it."""
        noted = refused.get()
        if noted is not None and self in noted:
            noted.remove(self)

    def _message(self) -> str:
        lines = [self.fact]
        if self.where is not UNKNOWN and self.where.line:
            lines.append(f"  at {_quoted(self.where)}")
        lines += [f"  in {call.function}: {_quoted(call.where)}" for call in self.calls]
        if self.instead:
            lines.append(f"  {self.instead}")
        return "\n".join(lines)


def _quoted(where: Where) -> str:
    return f"{where}: {where.text}" if where.text else str(where)


class Refusal(SymgradError):
    """An operation that NumPy has and symgrad does not. It ends the trace even where the traced function catches it.

    Its ``except`` was written for errors of NumPy: the branch behind it would silently become the program.
    """

    def __init__(self, fact: str, instead: str = "", where: Where | None = None) -> None:
        super().__init__(fact, instead, where)
        noted = refused.get()
        if noted is not None:
            noted.append(self)


class ShapeError(SymgradError, ValueError):
    """Shapes that do not fit together."""

    code = "SG101"


class ScalarError(ShapeError, TypeError):
    """A number where Python wants an array: ``len(x)``, ``x[i] = y``; of a number of NumPy's it is a TypeError."""

    code = "SG102"


class BoundsError(ShapeError, IndexError):
    """An index behind the end of an axis, or more indices than there are axes."""

    code = "SG105"


class DTypeError(SymgradError, TypeError):
    """A dtype that the operation cannot take, such as an integer where a gradient is asked for."""

    code = "SG103"


class UnknownAttributeError(SymgradError, AttributeError):
    """An attribute that neither an array nor a Variable has."""

    code = "SG104"


class ConcreteValueError(Refusal, TypeError):
    """Python asked for the value of something that has none before the program runs: ``if x``, ``float(x)``."""

    code = "SG201"


class SymbolicSizeError(Refusal, ValueError):  # NumPy swallows a TypeError of __index__
    """Python asked for the number behind a size that is a symbol."""

    code = "SG202"


class UnsupportedError(Refusal, TypeError):
    """A NumPy function, or an argument of one, that symgrad does not support."""

    code = "SG203"

    def __init__(self, fact: str, instead: str = "", where: Where | None = None) -> None:
        library = in_library() if where is None else ""
        if library and not library.startswith("numpy."):  # its lines are not the user's to change
            instead = f"Write {library} with NumPy's functions, or give it to symgrad.operator."
        super().__init__(fact, instead, where)


class NotDifferentiableError(Refusal, TypeError):
    """A derivative that does not exist or has no rule."""

    code = "SG301"


class WriteError(Refusal, ValueError):
    """An assignment that cannot be carried out, such as one into the caller's argument."""

    code = "SG204"


class GraphError(SymgradError, ValueError):
    """A graph that is broken, or Variables that do not belong to the graph at hand."""

    code = "SG402"


class ArgumentError(SymgradError, TypeError):
    """A wrong call of a public function of symgrad or of a compiled function."""

    code = "SG401"


class FrozenRandomWarning(UserWarning):
    """Random numbers that are drawn, or a clock that is read, while a function is traced: every call has the same."""

    code = "SG501"


class RecompilationWarning(UserWarning):
    """A function that is compiled again and again, since something changes from call to call."""

    code = "SG502"


class NonFiniteError(SymgradError, ArithmeticError):
    """With ``check_nan=True``: a result is NaN, or infinite though all arguments are finite.

    Attributes
    ----------
    diagnosis : Diagnosis
        What `Compiled.debug` found.
    """

    code = "SG303"

    diagnosis: Diagnosis


class GradientCheckError(SymgradError, AssertionError):
    """A derivative that does not agree with finite differences."""

    code = "SG302"


class DisagreementError(SymgradError, AssertionError):
    """A program whose first call gives another result than Python does for the function."""

    code = "SG403"


class CompilerError(SymgradError, RuntimeError):
    """A missing C compiler for ``target="c"``, or one that fails, or a compiled module that cannot be loaded."""

    code = "SG404"


class StateError(SymgradError, RuntimeError):
    """A function that depends on state set by its last call: a program changes nothing outside of it."""

    code = "SG405"
