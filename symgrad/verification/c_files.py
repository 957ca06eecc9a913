"""The check of an edited C file: it is compiled, called from Python, and compared with its model."""

from __future__ import annotations

import faulthandler
import os
import pickle
import re
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from symgrad.core.saving import text_at
from symgrad.errors import ArgumentError, CompilerError
from symgrad.export.c_files import c_files, python_around
from symgrad.export.points import Point, call
from symgrad.ops.checks import told
from symgrad.targets.c.standalone import extension_name
from symgrad.targets.c.toolchain import load, required
from symgrad.targets.numpy.module import Source
from symgrad.verification.checking import agreeing, check_told, fault_of, said, shown
from symgrad.verification.model import Known, Model, refuse
from symgrad.verification.trial import PATIENCE
from symgrad.verification.verdict import Verdict, with_line

T = TypeVar("T")
UNTOLD = "it ends the process before its results can be compared"
TURN = 0.01  # seconds between two looks at whether a process has ended


def verdict_on_c(path: Path, model: Model, points: int = 8, seed: int = 0, rtol: float | None = None) -> Verdict:
    """Return the verdict on a C file, of which symgrad has written a version for this model.

    Raises
    ------
    ArgumentError
        If there is no such file, or no arguments are found at which its model is finite.
    CompilerError
        If there is no C compiler.
    """
    text = text_at(path)
    if text is None:
        raise ArgumentError(f"there is no file {path.name!r}", "Give the path of a C file that symgrad has written.")
    required()
    check = _Check(path, text, model, rtol)
    with np.errstate(all="ignore"), told(refuse):
        return check.verdict(points, seed)


@dataclass
class _Check:
    """An edited C file, and the model that it is checked against."""

    path: Path
    text: str
    model: Model
    rtol: float | None

    def verdict(self, points: int, seed: int) -> Verdict:
        verdict = Verdict(self.path.name, self.model.program.summary.removesuffix("."), notes=self.model.notes)
        try:
            function = self._compiled()
        except CompilerError as error:
            line = re.search(rf"{re.escape(self.path.name)}:(\d+)", error.fact)
            return with_line(replace(verdict, fact=error.fact), self.text, int(line[1]) if line else None)
        known = self.model.known(points, seed, ())
        check_told(self.model, known)
        _, fate = _in_another_process(lambda: _attempt(function, self.model, known), PATIENCE)
        if fate:
            return self._failed(verdict, fate, None)
        found, fate = _in_another_process(lambda: self._compared(verdict, function, known))
        return self._failed(verdict, fate, None) if found is None else found

    def _compared(self, verdict: Verdict, function: Callable[..., Any], known: Sequence[Known]) -> Verdict:
        """Return the verdict on a function that ends at these points."""
        worst = 0.0
        for each in known:
            fact, size = self._at(function, each)
            if fact:
                return self._failed(verdict, fact, each.point)
            worst = max(worst, size)
        return agreeing(verdict, self.model, known, worst)

    def _at(self, function: Callable[..., Any], known: Known) -> tuple[str, float]:
        """Return the fault at a point; and the largest difference that is none."""
        args, kwargs = call(self.model.program, known.point)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            refused = not known.usual and self.model.refuses(known.point)
            return "" if refused else f"it gives back {said(error)}", 0.0
        return fault_of(result, (args, kwargs), known, self.model, self.rtol)

    def _compiled(self) -> Callable[..., Any]:
        """Compile the file within the module that Python calls it by, and return its function.

        The header is that of today: a function that takes other arguments is no function of this model.
        """
        compiled, stem = self.model.compiled, f"checked_{self.path.stem}"  # a name that no module is imported by
        files = c_files(compiled, stem)
        included = f'#include "{self.path.stem}.h"'
        edited = "\n".join("" if line.strip() == included else line for line in self.text.split("\n"))
        whole = f'{files.header}\n#line 1 "{self.path.name}"\n{edited}'
        module = load(files.glue.replace(f'#include "{stem}.h"', whole, 1), extension_name(stem))
        return _loaded(python_around(compiled, getattr(module, files.public)))

    def _failed(self, verdict: Verdict, fact: str, point: Point | None) -> Verdict:
        """Return the verdict on a fault: it lies between the first and the last line that were changed."""
        verdict = replace(verdict, fact=fact, point=None if point is None else shown(self.model, point))
        written = c_files(self.model.compiled, self.path.stem).code.split("\n")
        codes = SequenceMatcher(None, written, self.text.split("\n"), autojunk=False).get_opcodes()
        changed = [(j, max(j + 1, j_end)) for kind, _, _, j, j_end in codes if kind != "equal"]
        if not changed:
            return verdict
        first, last = changed[0][0] + 1, changed[-1][1]
        return with_line(replace(verdict, until=last if last > first else None), self.text, first)


def _attempt(function: Callable[..., Any], model: Model, known: Sequence[Known]) -> None:
    """Call a function that may fail, at each point."""
    for each in known:
        args, kwargs = call(model.program, each.point)
        with suppress(Exception):
            function(*args, **kwargs)


def _loaded(source: Source) -> Callable[..., Any]:
    namespace: dict[str, Any] = source.namespace
    exec(compile(source.own, f"<around {source.function}>", "exec", dont_inherit=True), namespace)
    function: Callable[..., Any] = namespace[source.function]
    return function


def _in_another_process(work: Callable[[], T], patience: float = np.inf) -> tuple[T | None, str]:
    """Do work in another process; return its result, and how it ends the process or that it does not end.

    C that writes out of bounds may end a process at any later time. Where processes cannot be forked this one does it.
    """
    if not hasattr(os, "fork"):
        return work(), ""
    with tempfile.TemporaryFile() as told:
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                faulthandler.disable()  # how it ends is told by the parent
                pickle.dump(work(), told)
                told.flush()
            os._exit(0)
        fate = _fate(process, time.monotonic() + patience)
        told.seek(0)
        text = told.read()
    return (None, fate or UNTOLD) if fate or not text else (pickle.loads(text), "")


def _fate(process: int, end: float) -> str:
    """Return how a process is ended, or that it does not end in time; "" if it ends by itself."""
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return f"it ends the process: {signal.Signals(-code).name}" if code < 0 else ""
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return f"it does not end within {PATIENCE:.0f} seconds"
        time.sleep(TURN)
