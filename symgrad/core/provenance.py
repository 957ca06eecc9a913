"""Provenance of nodes and of errors: the user's lines they come from."""

from __future__ import annotations

import dis
import inspect
import linecache
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from symgrad.core.text import visible

if TYPE_CHECKING:
    from symgrad.core.graph import Node

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NUMPY = os.path.dirname(os.path.abspath(np.__file__))
_INTERNAL = tuple(folder + os.sep for folder in (_OWN, _NUMPY))
_LIKE_OTHERS = (os.path.join(_OWN, "implicit") + os.sep, os.path.join(_NUMPY, "polynomial") + os.sep)
"""Functions that could be another package's: they are traced as these are."""
_CONVERSION = os.path.join(_OWN, "frontend", "conversion") + os.sep
_F = TypeVar("_F", bound=Callable[..., Any])
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep  # Python's own, contextlib and the like
_INSTALLED = (_LIBRARY + "site-packages" + os.sep, _LIBRARY + "dist-packages" + os.sep)
_boundaries: dict[str, set[CodeType]] = {}  # filled by `boundary` alone, by name: to hash a code takes long


class Where(NamedTuple):
    """A place in the user's program; for a derivative node also the node that it derives, or computes again."""

    file: str
    line: int
    of: Node | None = None
    again: bool = False

    def __str__(self) -> str:
        cell = _cell(self.file)
        return f"cell {cell}, line {self.line}" if cell else f"{os.path.basename(self.file)}:{self.line}"

    def moved(self, image: Mapping[Node, Node]) -> Where:
        """Return the provenance of a node's image: it derives the image of what the node derives."""
        return self if self.of is None else Where(self.file, self.line, image.get(self.of, self.of), self.again)

    def repeated(self, of: Node) -> Where:
        """Return the provenance of a value that a derivative rematerialises."""
        return Where(self.file, self.line, of, True)

    @property
    def text(self) -> str:
        """The user's line itself, or "" where Python cannot find it."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def in_words(self) -> str:
        """Return the place in words, ``derivative of logistic.py:7``; "" for code that is not the user's."""
        kind = "" if self.of is None else "computed again: " if self.again else "derivative of "
        return visible(f"{kind}{self}") if self.line else ""


UNKNOWN = Where("<unknown>", 0)


def _cell(file: str) -> str:
    """The number of the cell of a notebook that a file stands for; "" where it is none."""
    shell = notebook()
    found = shell.compile.format_code_name(file) if hasattr(shell, "compile") else None  # ("Cell", "In[3]")
    return found[1].strip("In[]") if found else ""


def notebook() -> Any:
    """Return the shell of IPython that runs, or None."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get_ipython is None else get_ipython()


def users_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of symgrad, NumPy and Python's library; as it is, if none is left."""
    kept = [x for x in _links(traceback) if not _is_internal(file := _file(x)) and not file.startswith(_INTERNAL)]
    found = None
    for x in reversed(kept):
        found = TracebackType(found, x.tb_frame, x.tb_lasti, x.tb_lineno)
    return found or traceback


def _links(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _file(traceback: TracebackType) -> str:
    return traceback.tb_frame.f_code.co_filename


def internal(code: CodeType) -> bool:
    """Whether this code belongs to symgrad, NumPy or Python's library rather than to the user."""
    return _is_internal(code.co_filename)


@cache
def _is_internal(file: str) -> bool:
    return _is_pythons(file) or (file.startswith(_INTERNAL) and not file.startswith(_LIKE_OTHERS))


@cache
def _is_pythons(file: str) -> bool:
    library = file.startswith(_LIBRARY) and not file.startswith((*_INSTALLED, *_INTERNAL))
    return library or file == "<string>" or file.startswith("<frozen")


def asked_by_user(frame: FrameType) -> bool:
    """Whether an expression of the user's is at work in a frame, as conversion has written it, or Python's library."""
    while _is_pythons(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return not internal(frame.f_code) or frame.f_code.co_filename.startswith(_CONVERSION)


def installed(code: CodeType) -> bool:
    """Whether this code belongs to a library that is installed, rather than to the user or to symgrad."""
    return package_of(code) != ""


def boundary(function: _F) -> _F:
    """Mark a function that starts a trace: frames outside of it do not name the values inside."""
    _boundaries.setdefault(function.__code__.co_name, set()).add(function.__code__)
    return function


def _is_boundary(code: CodeType) -> bool:
    return code in _boundaries.get(code.co_name, ())


def user_frame() -> FrameType | None:
    """The innermost frame that is neither symgrad's nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def callers() -> list[FrameType]:
    """The user's frames that wait for the one that is running, up to the traced function."""
    return _traced_frames(user_frame())[1:]


def path_of_calls() -> tuple[tuple[CodeType, int], ...]:
    """The place in the user's code that is running, with the calls that lead to it from the traced function."""
    return tuple([(frame.f_code, frame.f_lasti) for frame in _traced_frames(user_frame())])


def running_frame() -> FrameType | None:
    """The user's frame that is running; None where a trace was started since, of a function without a file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code.co_filename):
        if frame.f_code.co_name in _boundaries and _is_boundary(frame.f_code):
            return None
        frame = frame.f_back
    return frame


def here() -> Where:
    """The user's line that is running now; of one in a library that the function calls, the line that calls it."""
    frame = user_frame()
    if frame is not None and package_of(frame.f_code):
        frame = next(iter(_own(_traced_frames(frame))), frame)
    return _at(frame)


def raised_at(error: BaseException) -> Where:
    """Return the user's innermost line that an exception has left; the running one if it has left none."""
    left = [x for x in _links(error.__traceback__) if not _is_internal(_file(x))]
    own = [x for x in left if not _package_in(_file(x))] or left
    return Where(_file(own[-1]), own[-1].tb_lineno) if own else here()


# ---- the way from the traced function to the line that is running


class Call(NamedTuple):
    """A line below the user's outermost one, and the function that it is in."""

    function: str
    where: Where


def trail() -> tuple[Where, tuple[Call, ...]]:
    """The outermost line of the user's function; and below it the user's innermost one and, in a library, the last."""
    frames = _traced_frames(user_frame())
    own = _own(frames)
    if not own:
        return _at(frames[0] if frames else None), ()
    calls = [] if _at(own[0]) == _at(own[-1]) else [Call(own[0].f_code.co_name.rpartition(".")[2], _at(own[0]))]
    if inside := _inside(frames, own):
        calls.append(Call(_called(inside), _at(inside[0])))
    return _at(own[-1]), tuple(calls)


def in_library() -> str:
    """The function of a library that the user's line calls, ``scipy.optimize.bracket``, if one is running, or ""."""
    frames = _traced_frames(user_frame())
    inside = _inside(frames, _own(frames))
    return _called(inside) if inside else ""


def _inside(frames: list[FrameType], own: list[FrameType]) -> list[FrameType]:
    """Return the frames of libraries inside of the user's innermost one; symgrad's own solvers are none."""
    return [x for x in frames[: frames.index(own[0])] if package_of(x.f_code) != "symgrad"] if own else []


def package_of(code: CodeType) -> str:
    """The installed package that a code belongs to, "" of the user's own files."""
    return _package_in(code.co_filename)


def library_of(traceback: TracebackType | None) -> str:
    """Return the innermost installed package in a traceback, other than NumPy; "" where there is none."""
    found = [package_of(x.tb_frame.f_code) for x in _links(traceback)]
    return next((package for package in reversed(found) if package not in ("", "numpy", "symgrad")), "")


@cache
def _package_in(file: str) -> str:
    found = _PACKAGE.search(file)
    return found[1] if found else "symgrad" if file.startswith(_LIKE_OTHERS) else ""


_PACKAGE = re.compile(r".*[/\\](?:site|dist)-packages[/\\]([^/\\]+)")


def _traced_frames(frame: FrameType | None) -> list[FrameType]:
    """The frames from this one out to the traced function; outside of a trace this one alone."""
    first, frames = frame, []
    while frame is not None and not _is_boundary(frame.f_code):
        if not internal(frame.f_code):
            frames.append(frame)
        frame = frame.f_back
    return frames if frame is not None else [first] if first else []


def _own(frames: list[FrameType]) -> list[FrameType]:
    """Return the frames of the user's files; for a function that is traced in a package, those of that package."""
    home = package_of(frames[-1].f_code) if frames else ""
    return [frame for frame in frames if package_of(frame.f_code) in ("", home)]


def _called(frames: list[FrameType]) -> str:
    """The public function of a library among these frames that is called first, under its public name."""
    for frame in reversed(frames):
        name = _public_name(frame)
        if name:
            return name
    return f"{frames[-1].f_globals.get('__name__', '')}.{frames[-1].f_code.co_qualname}"


def _public_name(frame: FrameType) -> str:
    """The public name of the function that is running, or of one that it wraps; "" if it has none."""
    wrapped = [frame.f_locals.get(name) for name in frame.f_code.co_freevars]
    codes = [frame.f_code, *(f.__code__ for f in wrapped if isinstance(f, FunctionType))]
    homes = [frame.f_globals, *(f.__globals__ for f in wrapped if isinstance(f, FunctionType))]
    names = (_name_at(str(home.get("__name__", "")), code) for home, code in zip(homes, codes, strict=True))
    return next(filter(None, names), "")


def _name_at(module: str, code: CodeType) -> str:
    """``scipy.special.logsumexp`` for what `scipy.special._logsumexp` defines; "" where it is not public."""
    steps = module.split(".")
    for depth in range(1, len(steps) + 1):
        home = ".".join(steps[:depth])
        found: Any = sys.modules.get(home)
        for attribute in code.co_qualname.split("."):
            found = getattr(found, attribute, None)
        own = getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
        if own is code and "._" not in f".{home}.{code.co_qualname}":
            return f"{home}.{code.co_qualname}"
    return ""


def _at(frame: FrameType | None) -> Where:
    """Return the line that a frame is at: one object for all values of a line."""
    if frame is None:
        return UNKNOWN
    code = _looked_into(frame.f_code)
    line = code.line(frame)
    where = code.places.get(line)
    if where is None:
        where = code.places[line] = Where(frame.f_code.co_filename, line)
    return where


# ---- the user's functions, looked into once: to hash a code, or to ask it for a line, takes as long as the code is


class _Code:
    """A code of the user's: its instructions and lines, and the variables that receive what is computed."""

    def __init__(self, code: CodeType) -> None:
        self.code, self.raw, self.varnames = code, code.co_code, code.co_varnames  # Python makes them at each look
        self.targets: dict[int, object] = {}  # by the instruction that computes a value, see `_target`
        self.places: dict[int, Where] = {}  # by line

    @cached_property
    def _lines(self) -> tuple[list[int], list[int | None]]:
        """The instructions at which lines begin, and these lines."""
        spans = list(self.code.co_lines())
        return [start for start, _, _ in spans], [line for _, _, line in spans]

    def line(self, frame: FrameType) -> int:
        """Return the line that is running in a frame of this code."""
        starts, lines = self._lines
        i = bisect_right(starts, frame.f_lasti) - 1
        return (lines[i] if i >= 0 else None) or frame.f_lineno

    @cached_property
    def items(self) -> dict[int, str]:
        """For ``x, y = a, b``: by the instruction that ends an item, the variable that receives it."""
        return dict(_find_items(self.code)) if any(pair in self.raw[::2] for pair in _PAIRS) else {}


_codes: dict[int, _Code] = {}  # by the id of the code, which lives as long as it is in here


def _looked_into(code: CodeType) -> _Code:
    found = _codes.get(id(code))
    if found is None:
        found = _codes[id(code)] = _Code(code)
    return found


def forget_code() -> None:
    """Let go of the user's functions that have been looked into."""
    _codes.clear()


# ---- the name that the user gives to a value

_RETURN = object()


_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


def assigned_name() -> str | None:
    """The variable that receives the value now being computed, read off the user's bytecode.

    In ``h = np.tanh(x)`` the instruction behind the call stores into ``h``; where it returns instead, the caller's
    next instruction counts. Looking at one instruction costs a tenth of what parsing the source would.
    """
    frame = running_frame()
    while frame is not None:
        name = _target(frame.f_code, frame.f_lasti)
        if name is not _RETURN:
            return name or None  # type: ignore[return-value]
        frame = frame.f_back
        if frame is not None and internal(
            frame.f_code
        ):  # the result of a traced function, not of the call that traces it
            return None
    return None


def unpacked_names(returned: bool = False) -> list[str]:
    """The variables that receive the items of what is being unpacked, as in ``x, y = s``, up to any other target.

    With `returned` of what a function is about to return, as in ``x, y = f(s)``.
    """
    frame = user_frame()
    if frame is None:
        return []
    code, raw = frame.f_code, _raw(frame.f_code)
    at = _behind(raw, frame.f_lasti) if returned else frame.f_lasti
    if not _unpacks(code, at):
        return []
    count = raw[at + 1]  # with a starred target, those before it
    return _stored_run(code, raw, _behind(raw, at))[:count]


def _stored_run(code: CodeType, raw: bytes, i: int) -> list[str]:
    """The names that instructions from the one at `i` on store into, one after the other."""
    names: list[str] = []
    while i < len(raw) and (stored := _stored_names(code, raw, i)):
        names += stored
        if dis.opname[raw[i]] == "STORE_FAST_LOAD_FAST":  # what is stored behind it is loaded first
            break
        i += 2
    return names


def looks_up(frame: FrameType) -> bool:
    """Whether a frame of the user's is looking up an attribute, rather than calling compiled code that does so."""
    code = frame.f_code
    opname = dis.opname[_raw(code)[frame.f_lasti]]
    return opname in _LOADS or (opname == "IMPORT_FROM" and code.co_name != "<module>")


_LOADS = ("LOAD_ATTR", "LOAD_METHOD")


def _raw(code: CodeType) -> bytes:
    return _looked_into(code).raw


def _target(code: CodeType, last: int) -> object:
    """Return the target of the instruction at `last`: a stored name, a return, or "" for anything else."""
    targets = _looked_into(code).targets
    if last not in targets:
        targets[last] = _find_target(code, last)
    return targets[last]


def _find_target(code: CodeType, last: int) -> object:
    raw = _raw(code)
    i = _behind(raw, last)
    if i >= len(raw) or raw[i - 2] == dis.EXTENDED_ARG or _unpacks(code, last):
        return ""
    if dis.opname[raw[i]] == "RETURN_VALUE":
        return _RETURN
    stored = next(iter(_stored_names(code, raw, i)), "")
    if stored.startswith("."):  # of converted functions, where a `return` is an assignment
        return _RETURN if stored == ".result" else ""
    return stored or _looked_into(code).items.get(last, "")


_PAIRS = [bytes((dis.opmap[a], dis.opmap[b])) for a in _STORES for b in _STORES]
_PAIRS += [bytes([number]) for name, number in dis.opmap.items() if name == "STORE_FAST_STORE_FAST"]


class _Step(NamedTuple):
    """An instruction."""

    offset: int
    opcode: int
    arg: int | None

    @property
    def opname(self) -> str:
        return dis.opname[self.opcode]


def _steps(raw: bytes) -> Iterator[_Step]:
    """The instructions, without inline caches; `dis` spells their arguments as well, which takes four times as long."""
    extended = 0
    for i in range(0, len(raw), 2):
        opcode, arg = raw[i], raw[i + 1] | extended
        extended = arg << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode:
            yield _Step(i, opcode, arg if opcode >= dis.HAVE_ARGUMENT else None)


def _find_items(code: CodeType) -> Iterator[tuple[int, str]]:
    steps = list(_steps(_raw(code)))
    for k in range(1, len(steps)):
        if not steps[k].opname.startswith("STORE"):
            continue
        names, before = _stored_run(code, _raw(code), steps[k].offset), steps[k - 1]
        if len(names) < 2 or before.opname == "COPY" or before.opname.startswith("STORE"):
            continue
        end = k - 1
        if before.opname == "SWAP":
            names, end = names[: before.arg], k - 2
        elif before.opname.startswith("UNPACK"):  # more than three items are a tuple first
            names, end = (names[: before.arg], k - 3) if steps[k - 2].opname == "BUILD_TUPLE" else ([], k)
        else:  # the compiler has the last one stored first
            names = names[::-1]
        while names and end >= 0:
            yield steps[end].offset, names.pop()
            end = _before(steps, end)


def _before(steps: Sequence[_Step], end: int) -> int:
    """The instruction before the expression that one ends; -1 where it has branches."""
    missing = 1
    while missing > 0 and end >= 0:
        step = steps[end]
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return -1
        missing -= dis.stack_effect(step.opcode, step.arg)
        end -= 1
    return end


def _behind(raw: bytes, last: int) -> int:
    """Return the place of the next instruction, after the inline caches of the one at `last`."""
    i = last + 2
    while i < len(raw) and raw[i] == 0:
        i += 2
    return i


def _unpacks(code: CodeType, last: int) -> bool:
    return dis.opname[_raw(code)[last]] in ("UNPACK_SEQUENCE", "UNPACK_EX")


def _stored_names(code: CodeType, raw: bytes, i: int) -> list[str]:
    """The names that the instruction at `i` stores into, none if it is another one."""
    opname, argument, varnames = dis.opname[raw[i]], raw[i + 1], _looked_into(code).varnames
    if opname.startswith("STORE_FAST_"):  # since 3.13 two instructions in one, four bits each
        second = [varnames[argument & 15]] if opname == "STORE_FAST_STORE_FAST" else []
        return [varnames[argument >> 4], *second]
    if opname not in _STORES:
        return []
    if opname == "STORE_FAST":
        return [varnames[argument]]
    if opname == "STORE_DEREF":
        cells = (*varnames, *(c for c in code.co_cellvars if c not in varnames), *code.co_freevars)
        return [cells[argument]]
    return [code.co_names[argument]]
