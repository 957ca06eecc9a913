"""``symgrad sync``: the derivatives that a project keeps as files, written or checked."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from symgrad.cli.builds import missing_lines
from symgrad.cli.common import Command
from symgrad.cli.failures import failure_of
from symgrad.cli.kinds import KINDS
from symgrad.cli.output import paint, progress, tell, write
from symgrad.cli.project import Kept, find_project, kept_by
from symgrad.compiler.compiled import Compiled
from symgrad.core.saving import MARK, TOP, has_constants, is_generated, text_at
from symgrad.errors import ArgumentError
from symgrad.export.c_files import is_edited, texts_of
from symgrad.export.manifest import essence, is_as_written, manifest_in
from symgrad.loops.machine import any_machine
from symgrad.targets.c.toolchain import compiler
from symgrad.verification.verify import verify

BY_OTHERS = ("edited", "wrong", "foreign")
STALE = "not what the model gives as it is now; `symgrad sync` writes it anew"


class State(NamedTuple):
    """The state of a file that a project keeps.

    In a word it is current, written, missing; stale: the model, its entry or symgrad changed; edited by hand and right,
    wrong; foreign: symgrad did not write it; or an error of the model.
    """

    target: str
    word: str
    detail: str = ""
    verified: bool = False  # compared with the model, with which it agrees
    line: int | None = None  # of one that is wrong, the first whose value differs

    @property
    def code(self) -> int:
        return {"current": 0, "written": 0, "edited": 0, "error": 2}.get(self.word, 1)

    def __str__(self) -> str:
        colour = ("green", "red", "red")[self.code] if self.word != "edited" else "yellow"
        shown = paint({"edited": "edited by hand"}.get(self.word, self.word), colour)
        place = f", line {self.line}" if self.line else ""
        return f"{self.target}: {shown}{place}{', verified' * self.verified}{f': {self.detail}' * bool(self.detail)}"


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say which files are current and verified against the model"
    )
    parser.add_argument(
        "--project", default=".", metavar="FOLDER", help="where pyproject.toml is; default: here or above"
    )
    parser.add_argument("--force", action="store_true", help="write also over files that were edited by hand")


def _run(options: Namespace) -> int:
    path = find_project(Path(options.project))
    found = kept_by(path)
    states = []
    with progress("checking" if options.check else "writing", len(found)) as say:
        for kept in found:
            say(f"{kept.target}: {kept.function}")
            states.append(_guarded(kept, checked if options.check else partial(synced, force=options.force)))
            tell(options, str(states[-1]))
    lines = "" if options.check else missing_lines(path, found)
    if lines:
        tell(options, lines)
    if options.json or not states:
        document = {"files": [{**state._asdict(), "code": state.code} for state in states]}
        write(options, f"{os.path.relpath(path)} lists no gradients", document)
    return max((state.code for state in states), default=0)


def _guarded(kept: Kept, act: Callable[[Kept, Compiled], State]) -> State:
    """An error of one model leaves the files of the others as they are to be.

    All is made for any machine: those who share a file are to have the same.
    """
    try:
        with any_machine():
            return act(kept, kept.compiled())
    except (Exception, SystemExit) as error:
        return State(kept.target, "error", failure_of(error).message)


def synced(kept: Kept, compiled: Compiled, force: bool) -> State:
    """Write a file that is not there or is not current, but over no work of a person."""
    state = state_of(kept, compiled)
    if state.word in ("missing", "stale") or (force and state.word in BY_OTHERS):
        compiled.save(kept.path, overwrite=force, target="c" if kept.with_c else "numpy")
        return State(kept.target, "written")
    kept_as_it_is = "; ".join(filter(None, (state.detail, "kept, --force would write it anew")))
    return state._replace(detail=kept_as_it_is) if state.word in BY_OTHERS else state


def checked(kept: Kept, compiled: Compiled) -> State:
    """Return the state of a file; a current one is verified, too, and so is C where there is a compiler."""
    state = state_of(kept, compiled)
    if state.word != "current":
        return state
    paths = [kept.path] if kept.path.suffix == ".py" else []
    if kept.in_c is not None and compiler() is not None:
        paths.append(kept.in_c)
    for path in paths:
        state = _verified(path, compiled, state)
    return state


def state_of(kept: Kept, compiled: Compiled) -> State:
    """Return the state of a file relative to symgrad's text, or of the first beside it that is not current."""
    state = _state_of_module(kept, compiled) if kept.path.suffix == ".py" else State(kept.target, "current")
    return _state_of_c(kept, kept.in_c, compiled) if state.word == "current" and kept.in_c is not None else state


def _state_of_module(kept: Kept, compiled: Compiled) -> State:
    text = text_at(kept.path)
    if text is None:
        return State(kept.target, "missing", "`symgrad sync` writes it")
    source = compiled.standalone(kept.path.parent, kept.path.stem if kept.with_c else "")
    if essence(text) == essence(source.text):
        if has_constants(kept.path, source.constants):
            return State(kept.target, "current")
        return State(kept.target, "stale", "its constants are not beside it; `symgrad sync` writes them")
    if not is_generated(text):
        return State(kept.target, "foreign", "symgrad did not write it")
    try:
        manifest = manifest_in(kept.path, text)
    except ArgumentError as error:
        return State(kept.target, "wrong", error.fact)
    if is_as_written(text):
        return State(kept.target, "stale", STALE)
    edited = State(kept.target, "edited")
    if manifest != manifest_in(kept.path, source.text):
        edited = edited._replace(detail="the model has changed since")
    return _verified(kept.path, compiled, edited)


def _state_of_c(kept: Kept, path: Path, compiled: Compiled) -> State:
    """Return the state of C files: of several that are not current that of the one with most of a person's work."""
    states = [_state_of_text(*each) for each in texts_of(compiled, path, kept.with_c).items()]
    order = [*BY_OTHERS, "stale", "missing", "current"]
    state = min(states, key=lambda state: (order.index(state.word), state.target != path.name))
    if state.word == "edited" and state.target != path.name:
        state = state._replace(word="wrong", detail=f"it was edited by hand, and nothing but {path.name} is compared")
    if state.word == "current" or state.target == Path(kept.target).name:
        state = state._replace(target=kept.target)
    else:
        state = state._replace(target=kept.target, detail=f"{state.target}: {state.detail or state.word}")
    return _verified(path, compiled, state) if state.word == "edited" else state


def _state_of_text(path: Path, written: str) -> State:
    text = text_at(path)
    if text is None:
        return State(path.name, "missing", "`symgrad sync` writes it")
    if text == written:
        return State(path.name, "current")
    if MARK not in text[:TOP]:
        return State(path.name, "foreign", "symgrad did not write it")
    return State(path.name, "edited") if is_edited(text) else State(path.name, "stale", STALE)


def _verified(path: Path, compiled: Compiled, state: State) -> State:
    """The state of a file that agrees with its model; another one if it does not."""
    verdict = verify(path, compiled)
    if verdict:
        return state._replace(verified=True)
    detail = f"{verdict.fact}; it was edited by hand, and {state.detail}" if state.detail else verdict.fact
    if path.name != Path(state.target).name:
        detail = f"{path.name}: {detail}"
    return state._replace(word="wrong", line=verdict.line, detail=detail, verified=False)


COMMAND = Command(
    "sync",
    "write the derivatives that a project keeps as files, or check them",
    ("symgrad sync --project examples/vendored --check", "symgrad sync --project examples/vendored"),
    _add,
    _run,
    "Write the derivatives that a project keeps as files, listed in its pyproject.toml:\n\n"
    "  [[tool.symgrad.gradients]]\n"
    '  function = "model.py:loss"         # or package.module:loss\n'
    '  target = "loss_grad.py"            # or "loss_grad.c"\n'
    "  c = true                           # C beside a module, which calls it where it is compiled\n"
    f'  kind = "value_and_grad"            # {", ".join(KINDS)}; default grad\n'
    '  wrt = "w"                          # or a list, or argnums =; default the first argument\n'
    '  spec = { w = "float64[d]", X = "float64[n, d]", y = "float64[n]" }\n'
    "  optimize = 1                       # and numerics =, threads =, order =\n\n"
    "A file that somebody has edited is never written over, but with --force.",
)
