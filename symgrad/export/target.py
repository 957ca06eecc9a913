"""A function by the place where it stands: ``FILE.py:function`` or ``package.module:function``."""

from __future__ import annotations

import ast
import contextlib
import importlib
import linecache
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from symgrad.core.saving import files_kept
from symgrad.core.text import did_you_mean, with_article
from symgrad.errors import ArgumentError


def load_function(target: str, root: Path | None = None) -> Callable[..., Any]:
    """The function that a target names: ``curve/model.py:loss``, ``curve.model:loss``, ``model.py:Model.loss``.

    Its module is run, and what that prints goes to standard error. A relative file, and a module, are looked up in
    `root`, by default the folder at hand.
    """
    place, name = split_target(target)
    return find(load_module(place, root), place, name)


def find(module: ModuleType, place: str, name: str) -> Callable[..., Any]:
    """The function of a module that has this name, ``loss`` or ``Model.loss``."""
    found: Any = module
    for step in name.split("."):
        if not hasattr(found, step):
            raise _no_function(place, name, found, step)
        found = getattr(found, step)
    if not callable(found) or isinstance(found, type):
        what = "a class" if isinstance(found, type) else with_article(type(found).__name__)
        instead = _functions_of(found, f"{name}.") if isinstance(found, type) else _functions_of(module)
        raise ArgumentError(f"{place}:{name} is {what}, not a function", instead)
    return found


def split_target(target: str) -> tuple[str, str]:
    """The file or module of a target, and the function."""
    place, colon, name = target.rpartition(":")
    if colon and place and all(step.isidentifier() for step in name.split(".")):
        return place, name
    file = target.removesuffix(":")
    known = _defined_in(Path(file))
    instead = f"Write {file}:{known[0]}; it defines {', '.join(known)}." if known else "Write model.py:loss."
    raise ArgumentError(f"{target!r} names no function", instead)


def _defined_in(path: Path) -> list[str]:
    """The public functions of a file, which is not run."""
    if path.suffix != ".py" or not path.is_file():
        return []
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError):
        return []
    return [x.name for x in body if isinstance(x, ast.FunctionDef) and not x.name.startswith("_")]


def load_module(place: str, root: Path | None = None) -> ModuleType:
    """A module by its file or its dotted name, run anew if it is a file on its own."""
    root = root or Path()
    if not place.endswith(".py"):
        _check_module_name(place, root)
        return _imported(place, root)
    path = (root / place).resolve()
    if not path.is_file():
        raise ArgumentError(f"there is no file {place}", _files_near(path))
    home = path.parent
    if not (home / "__init__.py").exists():
        return _being_run(path) or _run(path)
    steps = [] if path.stem == "__init__" else [path.stem]
    while (home / "__init__.py").exists():
        steps.insert(0, home.name)
        home = home.parent
    module = _imported(".".join(steps), home)
    if Path(module.__file__ or "").resolve() != path:
        raise ArgumentError(
            f"the module {module.__name__} was imported from elsewhere, not from {place}",
            "Two packages have that name: rename one, or leave the other out of the path.",
        )
    return module


def _check_module_name(place: str, root: Path) -> None:
    """Refuse what is neither a Python file nor the dotted name of a module."""
    if place.endswith(".ipynb"):
        raise ArgumentError(
            f"{place} is a notebook, which is not read",
            "Put the function into a file, by %%writefile model.py in its cell, and name that: model.py:loss.",
        )
    if not all(step.isidentifier() for step in place.split(".")) or ("." in place and (root / place).is_file()):
        raise ArgumentError(f"{place} is neither a file that ends in .py nor a module", "Write model.py:loss.")


def _imported(name: str, folder: Path) -> ModuleType:
    """A module of a package, imported as Python does from this folder.

    Where its package cannot be imported, the module is imported without it: what keeps derivatives as files may import
    them, and they are not there before they are written.
    """
    with _findable(folder):
        _leave_bare_packages(name)
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                raise ArgumentError(
                    f"there is no module {name}", "Write FILE.py:function for a file, or look at the spelling."
                ) from None
            failed: Exception = error
        except Exception as error:
            failed = error
        try:
            _enter_bare_packages(name, folder)
            return importlib.import_module(name)
        except Exception:
            _leave_bare_packages(name)
            raise failed from None


def _enter_bare_packages(name: str, folder: Path) -> None:
    """Packages around a module in which there is nothing but a way to their modules."""
    steps = name.split(".")[:-1]
    _forget(steps[:1])
    for depth in range(1, len(steps) + 1):
        package = ModuleType(".".join(steps[:depth]))
        package.__path__ = [str(folder.resolve().joinpath(*steps[:depth]))]
        sys.modules[package.__name__] = package


def _leave_bare_packages(name: str) -> None:
    """Let a package be imported again that stands bare, for a module before: it may be whole by now."""
    package, _, _ = name.partition(".")
    if getattr(sys.modules.get(package), "__spec__", package) is None:
        _forget([package])


def _forget(packages: Collection[str]) -> None:
    for known in list(sys.modules):
        if known.partition(".")[0] in packages:
            del sys.modules[known]


def _being_run(path: Path) -> ModuleType | None:
    """Return the module of a file that is being run: a script that checks what it has just saved would never end."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code, module = frame.f_code, sys.modules.get(frame.f_globals.get("__name__", ""))
        runs_file = code.co_name == "<module>" and Path(code.co_filename).resolve() == path
        if runs_file and module is not None and vars(module) is frame.f_globals:
            return module
        frame = frame.f_back
    return None


def copy_of(module: ModuleType) -> ModuleType:
    """The module run once more: its functions have a namespace of their own."""
    return _run(Path(module.__file__ or ""), module.__name__, module.__package__)


def _run(path: Path, name: str = "", package: str | None = None) -> ModuleType:
    """A file, run as a module of that name without a trace in a cache of bytecode."""
    module = ModuleType(name or path.stem)
    module.__file__, module.__package__ = str(path), package
    linecache.checkcache(str(path))
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        error.filename = error.filename or str(path)  # Python does not say where null bytes are
        raise
    except ValueError as error:  # null bytes, before Python 3.11.4
        raise SyntaxError(str(error), (str(path), None, None, None)) from None
    before = sys.modules.get(module.__name__)
    with _findable(path.parent):
        sys.modules[module.__name__] = module  # dataclasses look their module up
        try:
            exec(code, module.__dict__)
        except BaseException:
            sys.modules.pop(module.__name__, None)  # nobody is to import half of it
            raise
        finally:
            if before is not None:  # a library of that name stays what others import
                sys.modules[module.__name__] = before
    return module


@contextlib.contextmanager
def _findable(folder: Path) -> Iterator[None]:
    """Make the modules of a folder importable from now on; their output is not the command's.

    What they save takes the place of no file.
    """
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    with contextlib.redirect_stdout(sys.stderr), files_kept():
        yield


def _no_function(place: str, name: str, home: Any, step: str) -> ArgumentError:
    return ArgumentError(f"{place} has no {name}", did_you_mean(step, vars(home), _functions_of(home)))


def _functions_of(home: Any, before: str = "") -> str:
    module = home.__module__ if isinstance(home, type) else getattr(home, "__name__", "")
    own = [
        before + name
        for name, x in ((name, getattr(home, name)) for name in vars(home) if not name.startswith("_"))
        if callable(x) and not isinstance(x, type) and getattr(x, "__module__", None) == module
    ]
    return f"Its functions are {', '.join(own)}." if own else "It has no function."


def _files_near(path: Path) -> str:
    beside = [p.name for p in sorted(path.parent.glob("*.py")) if p.is_file()] if path.parent.is_dir() else []
    return did_you_mean(path.name, beside, "A target is FILE.py:function, from the folder at hand.")
