"""``symgrad sync``: the derivatives that a project keeps as files, written or checked."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from symgrad.cli.common import Command
from symgrad.cli.failures import failure_of
from symgrad.cli.kinds import KINDS
from symgrad.cli.output import paint, progress, tell, write
from symgrad.cli.project import Kept, find_project, kept_by
from symgrad.compiler.compiled import Compiled
from symgrad.core.saving import has_constants, is_generated, text_at
from symgrad.errors import ArgumentError
from symgrad.export.manifest import essence, is_as_written, manifest_in
from symgrad.loops.machine import any_machine
from symgrad.verification.verify import verify

BY_OTHERS = ("edited", "wrong", "foreign")


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
        compiled.save(kept.path, overwrite=force)
        return State(kept.target, "written")
    kept_as_it_is = "; ".join(filter(None, (state.detail, "kept, --force would write it anew")))
    return state._replace(detail=kept_as_it_is) if state.word in BY_OTHERS else state


def checked(kept: Kept, compiled: Compiled) -> State:
    """Return the state of a file; a current one is verified, too."""
    state = state_of(kept, compiled)
    return _verified(kept, compiled, state) if state.word == "current" else state


def state_of(kept: Kept, compiled: Compiled) -> State:
    """Return the state of a file relative to symgrad's text."""
    text = text_at(kept.path)
    if text is None:
        return State(kept.target, "missing", "`symgrad sync` writes it")
    source = compiled.standalone(kept.path.parent)
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
        return State(kept.target, "stale", "not what the model gives as it is now; `symgrad sync` writes it anew")
    edited = State(kept.target, "edited")
    if manifest != manifest_in(kept.path, source.text):
        edited = edited._replace(detail="the model has changed since")
    return _verified(kept, compiled, edited)


def _verified(kept: Kept, compiled: Compiled, state: State) -> State:
    """The state of a file that agrees with its model; another one if it does not."""
    verdict = verify(kept.path, compiled)
    if verdict:
        return state._replace(verified=True)
    detail = f"{verdict.fact}; it was edited by hand, and {state.detail}" if state.detail else verdict.fact
    return state._replace(word="wrong", line=verdict.line, detail=detail)


COMMAND = Command(
    "sync",
    "write the derivatives that a project keeps as files, or check them",
    ("symgrad sync --project examples/vendored --check", "symgrad sync --project examples/vendored"),
    _add,
    _run,
    "Write the derivatives that a project keeps as files, listed in its pyproject.toml:\n\n"
    "  [[tool.symgrad.gradients]]\n"
    '  function = "model.py:loss"         # or package.module:loss\n'
    '  target = "loss_grad.py"\n'
    f'  kind = "value_and_grad"            # {", ".join(KINDS)}; default grad\n'
    '  wrt = "w"                          # or a list, or argnums =; default the first argument\n'
    '  spec = { w = "float64[d]", X = "float64[n, d]", y = "float64[n]" }\n'
    "  optimize = 1                       # and numerics =, threads =, order =\n\n"
    "A file that somebody has edited is never written over, but with --force.",
)
