"""Long work says how far it has come: to a person at a terminal, to a program by the logger, and else nothing."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import symgrad as sg
from symgrad.core import progress
from symgrad.core.progress import Work, work
from symgrad.targets.c import toolchain
from tests.commands import run
from tests.folders import ROOT

needs_a_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def said(caplog):
    return [record.getMessage().rpartition(",")[0] for record in caplog.records if record.levelno == logging.INFO]


def test_short_work_is_silent(caplog):
    caplog.set_level(logging.INFO, "symgrad")
    with work("short") as going_on:
        going_on.step("one")
    assert caplog.records == []


def test_long_work_says_its_steps_and_its_end(caplog, monkeypatch):
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    caplog.set_level(logging.INFO, "symgrad")
    with work("long", 2, patience=0.0) as going_on:
        going_on.step("one")
        going_on.step("two\n")
    assert said(caplog) == ["long, 0 of 2", "long: one, 1 of 2", "long: two\\n, 2 of 2", ""]
    assert caplog.records[-1].getMessage().startswith("long: done in ")


def test_work_that_is_silent_too_long_is_heard_without_a_step(caplog):
    caplog.set_level(logging.INFO, "symgrad")
    heard = threading.Event()
    caplog.handler.addFilter(lambda record: heard.set() or True)
    with work("stuck", patience=0.001):
        assert heard.wait(60)


def test_a_step_that_takes_long_is_said_again(caplog, monkeypatch):
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    monkeypatch.setattr(progress, "BEAT", 0.001)
    caplog.set_level(logging.INFO, "symgrad")
    heard = []
    enough = threading.Event()
    caplog.handler.addFilter(lambda record: heard.append(record.getMessage()) or len(heard) < 4 or enough.set() or True)
    with work("long", 2, patience=0.001) as going_on:
        going_on.step("one")
        assert enough.wait(60)
    again = [text for text in heard if text.startswith("long: one, 1 of 2, ")]
    assert len(again) >= 3


@pytest.fixture
def threads(monkeypatch):
    """The threads that watch, from here on."""
    found = []
    monkeypatch.setattr(progress, "_watcher", progress._Watcher())
    monkeypatch.setattr(progress, "Thread", lambda **kw: found.append(threading.Thread(**kw)) or found[-1])
    return found


def test_short_works_share_a_thread(threads):
    with work("first", patience=60.0):
        while progress._watcher._wakes == float("inf"):  # a thread that begins when no work is left ends at once
            time.sleep(0.001)
    for _ in range(50):
        with work("outer", patience=60.0), work("inner", patience=60.0):
            pass
    assert len(threads) == 1 and progress._watcher._due == {}


def test_the_thread_ends_when_no_work_is_left_and_another_one_begins(threads):
    with work("short", patience=0.01):
        pass
    threads[0].join(60)
    assert not threads[0].is_alive()
    with work("later", patience=60.0):
        assert len(threads) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_work_in_a_forked_process_is_heard():
    program = """
import logging, os, sys, time
from symgrad.core.progress import work

with work("parent", patience=60.0):
    child = os.fork()
    if child == 0:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout)
        with work("child", patience=0.001):
            time.sleep(0.5)
        os._exit(0)
    os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)
    assert "child, " in done.stdout + done.stderr, done


@pytest.mark.parametrize("target", ["numpy", pytest.param("c", marks=needs_a_compiler)])
@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_a_compilation_has_as_many_steps_as_it_says(optimize, target, monkeypatch):
    found = []
    monkeypatch.setattr(Work, "end", lambda self, end=Work.end: (found.append(self), end(self)))
    sg.grad(lambda x: np.sum(np.tanh(x))).compile("float64[n]", optimize=optimize, target=target)
    tracing, compiling = found
    assert (tracing.what, compiling.what) == ("tracing function_grad", "compiling function_grad")
    assert compiling.done == compiling.steps > 2


def test_all_compilations_are_told_to_who_wants_to_see_them(caplog):
    caplog.set_level(logging.DEBUG, "symgrad")
    sg.grad(np.sin).compile(0.0)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "tracing sin_grad",
        "compiling sin_grad",
    ]


def test_a_program_that_did_not_ask_hears_nothing():
    silent = "from symgrad.core import progress; progress.PATIENCE = 0.0"
    code = f"{silent}; import numpy as np, symgrad as sg; sg.grad(np.sin)(0.0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == done.stderr == ""


def test_a_terminal_has_a_line_while_work_goes_on(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with work("outer", 2, patience=0.0) as outer:
        outer.step("[first]")
        with work("inner", patience=0.0):
            pass
    shown = sys.stderr.getvalue()
    assert "outer: [first], 1 of 2" in shown and "inner" in shown
    assert progress._terminal._progress is None


def test_what_is_printed_stands_above_the_lines_of_work(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with work("writing", patience=0.0):
        with progress.aside():
            sys.stderr.write("first: written\n")
        before, _, after = sys.stderr.getvalue().partition("first: written\n")
        assert before.endswith("\x1b[1A\x1b[2K")  # the line of work is gone
        assert "writing" in after  # and there again
    assert progress._terminal._progress is None
    with progress.aside():  # nothing goes on
        sys.stderr.write("last\n")
    assert sys.stderr.getvalue().endswith("\rlast\n")


def test_showing_lines_draws_no_random_numbers_of_the_program():
    pytest.importorskip("rich")
    code = "import random; from symgrad.core import progress; before, own = random.getstate(), random.getrandbits"
    then = "progress._live(); print(random.getstate() == before, random.getrandbits == own)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {then}"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "True True\n"


def test_a_command_says_in_a_pipe_what_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    (tmp_path / "slow.py").write_text("import numpy as np\ndef cube(x: 'float64[2]'):\n    return np.sum(x**3)\n")
    monkeypatch.chdir(tmp_path)
    code, out, err = run("check", "slow.py:cube", "--order", "1", patience=0.0)
    lines = err.splitlines()
    assert code == 0 and lines[1].startswith("symgrad: checking slow.py:cube: reading the model, ")
    assert lines[-1].startswith("symgrad: checking slow.py:cube: done in ")
    assert "checking" not in out
    assert {type(handler) for handler in logging.getLogger("symgrad").handlers} == {logging.NullHandler}
