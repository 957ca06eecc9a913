"""Runs the command ``symgrad`` in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from symgrad.cli import main, output
from symgrad.core import progress


def run(*argv, patience=3600.0):
    """A command; its exit code, output and errors. It says how far it is after `patience` seconds."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(output, "PATIENCE", patience),
        mock.patch.object(progress, "PATIENCE", patience),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main([str(x) for x in argv])
    return code, out.getvalue(), err.getvalue()


def good(result):
    """The output of a command that went well."""
    code, out, err = result
    assert code == 0, out + err
    return out


def as_a_new_process(monkeypatch, folder):
    """Modules are looked for in a folder, and packages of other projects are forgotten."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in list(sys.modules):
        if name.split(".")[0] in ("curve", "bend", "model"):
            monkeypatch.delitem(sys.modules, name)
