"""Compiled modules on disk: many processes, damaged files, and folders in which nothing can be kept or executed."""

import errno
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.cli import main
from symgrad.targets.c import cache, toolchain

COMPILER = toolchain.compiler()
needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
needs_a_shell = pytest.mark.skipif(COMPILER is None or COMPILER.is_zig or os.name == "nt", reason="no such compiler")

X = np.array([0.5, -1.0, 2.0])


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SYMGRAD_CACHE", str(tmp_path / "modules"))
    return tmp_path / "modules"


def slope():
    return sg.grad(lambda x: np.sum(np.cos(x) * 4.5), target="c")(X)


EXPECTED = -np.sin(X) * 4.5


def modules(folder):
    return [path.name for path in folder.iterdir()] if folder.exists() else []


SCRIPT = "import numpy as np, symgrad as sg; print(sg.grad(lambda x: np.sum(np.cos(x) * x), target='c')(np.ones(2))[0])"


@pytest.mark.slow
@needs_a_compiler
def test_four_processes_compile_one_module_at_a_time(folder):
    running = [
        subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    said = [process.communicate() for process in running]
    assert {error for _, error in said} == {b""} and len({out for out, _ in said}) == 1
    assert len(modules(folder)) == 1


@needs_a_compiler
@pytest.mark.parametrize("part", [0.0, 0.003, 0.3, 0.97])
def test_a_module_that_was_cut_off_is_compiled_again(folder, part):
    slope()
    (made,) = folder.iterdir()
    size = made.stat().st_size
    kept = made.read_bytes()[: int(part * size)]
    made.unlink()  # this process goes on with the file that it has loaded
    made.write_bytes(kept)
    np.testing.assert_allclose(slope(), EXPECTED, rtol=1e-14)
    assert made.stat().st_size == size


@needs_a_compiler
def test_a_folder_whose_files_cannot_be_executed_is_passed_over(monkeypatch, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(cache, "folders", lambda: [first, second])
    statvfs, flag = os.statvfs, os.ST_NOEXEC

    class Mounted:
        def __init__(self, path):
            self.f_flag = statvfs(path).f_flag | flag * (path == first)

    monkeypatch.setattr(cache.os, "statvfs", Mounted)
    np.testing.assert_allclose(slope(), EXPECTED, rtol=1e-14)
    assert modules(first) == [] and len(modules(second)) == 1


@needs_a_compiler
def test_a_folder_from_which_nothing_can_be_loaded_is_passed_over(monkeypatch, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(cache, "folders", lambda: [first, second])
    load = toolchain._loaded

    def loaded(path, name):
        if path.parent == first:
            raise ImportError("failed to map segment from shared object")
        return load(path, name)

    monkeypatch.setattr(toolchain, "_loaded", loaded)
    np.testing.assert_allclose(slope(), EXPECTED, rtol=1e-14)
    assert len(modules(second)) == 1
    monkeypatch.setattr(cache, "folders", lambda: [first])
    with pytest.raises(sg.errors.CompilerError, match=r"failed to map segment(.|\n)*SYMGRAD_CACHE"):
        slope()


@needs_a_compiler
def test_a_home_that_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.delenv("SYMGRAD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    np.testing.assert_allclose(slope(), EXPECTED, rtol=1e-14)
    (made,) = tmp_path.glob("symgrad-*")
    assert len(modules(made)) == 1 and made.stat().st_mode & 0o077 == 0


@needs_a_compiler
def test_a_folder_in_which_others_write_is_not_used(folder):
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(sg.errors.CompilerError, match=f"is writable: not {re.escape(str(folder))}"):
        slope()


@pytest.fixture
def full(monkeypatch, tmp_path):
    """A compiler that finds no space in the first of two folders."""
    first, second = tmp_path / "first", tmp_path / "second"
    path = tmp_path / "compiler"
    command = " ".join(COMPILER.command)
    path.write_text(
        f'#!/bin/sh\ncase "$PWD" in {first}*) echo "fatal error: No space left on device" >&2; exit 1;; esac\n'
        f'exec {command} "$@"\n'
    )
    path.chmod(0o700)
    monkeypatch.setattr(cache, "folders", lambda: [first, second])
    monkeypatch.setenv("SYMGRAD_CC", str(path))
    return first, second


@needs_a_shell
def test_a_full_disk_is_passed_over(full):
    first, second = full
    np.testing.assert_allclose(slope(), EXPECTED, rtol=1e-14)
    assert modules(first) == [] and len(modules(second)) == 1


@needs_a_compiler
def test_a_disk_that_is_full_before_the_compiler_runs(monkeypatch, folder):
    def write_text(self, *args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(toolchain.Path, "write_text", write_text)
    with pytest.raises(sg.errors.CompilerError, match="No space left on device"):
        slope()
    assert modules(folder) == []


@needs_a_compiler
def test_the_oldest_modules_go_and_files_of_others_stay(monkeypatch, folder):
    folder.mkdir(mode=0o700)
    old, making, mine = folder / f"sg_old-{'0' * 32}.so", folder / "making-abcd", folder / "letter.txt"
    making.mkdir()
    for path in (old, mine):
        path.write_bytes(bytes(200_000))
    for path in (old, making, mine):
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(cache, "MOST", 200_000)
    slope()
    assert not old.exists() and not making.exists() and mine.exists()
    assert len(modules(folder)) == 2


@needs_a_compiler
def test_the_command_shows_and_empties_it(folder, capsys):
    slope()
    (made,) = folder.iterdir()
    (folder / "letter.txt").write_text("dear reader")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.split() == ["folder", "modules", "bytes", str(folder), "1", str(made.stat().st_size)]
    assert main(["cache", "--clear"]) == 0
    capsys.readouterr()
    assert modules(folder) == ["letter.txt"]
    assert main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folders"] == [{"folder": str(folder), "modules": 0, "bytes": 0}]
    np.testing.assert_allclose(slope(), EXPECTED, rtol=1e-14)


def test_a_cache_that_is_not_there_is_empty(folder, capsys):
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.split()[-3:] == [str(folder), "0", "0"]
    assert not folder.exists()
