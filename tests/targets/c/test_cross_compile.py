"""Generated C for macOS and Windows, compiled and linked by zig on any system; nothing of it is run."""

import re
import subprocess
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.targets.c import toolchain
from symgrad.targets.c.names import c_word
from tests.targets.c.test_names_in_c import macros

ZIG = toolchain.zig()
TARGETS = {"aarch64-macos": "darwin", "x86_64-macos": "darwin", "x86_64-windows-gnu": "win32"}
MACH_O, PE = b"\xcf\xfa\xed\xfe", b"MZ"
LEAST = 4096  # bytes of a program that has been linked

pytestmark = [
    pytest.mark.skipif(ZIG is None, reason="there is no ziglang"),
    pytest.mark.parametrize("target", TARGETS),
]


def many(x, rows, scale, single):
    """Compute with all that generated C has: tapes that grow, indices, integers, functions, loops, both precisions."""
    grown, count = [], 1
    while scale > 0.1:
        scale = scale * 0.7
        count = count * 3
        grown.append(np.sin(scale))
    angles = np.tan(x) + np.exp(x) * np.log1p(x * x) - np.expm1(x) + np.tanh(x) * np.hypot(x, 2.0) + np.abs(x) ** scale
    others = np.arctan2(x, 2.0) + np.arcsin(x / 9) + np.cbrt(x) + np.log2(x * x) + np.sinh(x) + np.floor(x) % 3
    singles = np.sum(np.exp(single) * np.cos(single) + np.tanh(single))
    return np.sum(np.cumsum(angles) * others) + np.sum(x[rows] ** 2) + np.sum(np.array(grown) ** 2) + count + singles


SPECS = ("float64[n]", "int64[m]", "float64[]", "float32[n]")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "many.h"

int main(void)
{
    static const double x[] = {0.5, 1.5};
    static const int64_t rows[] = {1};
    static const float single[] = {0.5f, 1.5f};
    double value, d_x[2];
    char *workspace = malloc((size_t)many_value_and_grad_workspace(1, 2) + 1);
    int code = many_value_and_grad(1, 2, x, rows, 2.0, single, &value, d_x, workspace);
    printf("%d %g %g\\n", code, value, d_x[0]);
    return 0;
}
"""


def is_linked(path, target):
    """Whether a file is a program or a library of a system."""
    found = path.read_bytes()
    return found.startswith(PE if "windows" in target else MACH_O) and len(found) > LEAST


def test_a_plain_function_links_with_a_program(target, tmp_path):
    path = sg.value_and_grad(many).compile(*SPECS).save(tmp_path / "many.c")
    flags = re.search(r"Compile it with (.*), and link it with -lm", " ".join(path.read_text().split()))[1].split()
    (tmp_path / "main.c").write_text(MAIN)
    made = tmp_path / "program.exe"
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-pass-failed"]
    sources = [str(path), str(tmp_path / "main.c")]
    command = [*ZIG.command, "cc", "-target", target, *flags, *warnings, *sources, "-o", str(made), "-lm"]
    subprocess.run(command, check=True)
    assert is_linked(made, target)


def test_a_module_links_with_python(target, tmp_path, monkeypatch):
    compiled = sg.value_and_grad(many, target="c").compile(*SPECS)
    source, made = tmp_path / "module.c", tmp_path / "module.so"
    source.write_text(compiled.source.native)
    monkeypatch.setenv("SYMGRAD_CFLAGS", "-Werror=implicit-function-declaration -Werror=incompatible-pointer-types")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", TARGETS[target])
        commands = toolchain._commands(ZIG, source, made)
    for command in commands:
        native = [x for x in command if x not in ("-march=native", "-mprefer-vector-width=512")]
        library = [f"-L{library_of_python(tmp_path, source.read_text())}"] if "windows" in target else []
        subprocess.run([*native, *library, "-target", target], check=True, cwd=tmp_path)
    assert is_linked(made, target)


def library_of_python(folder, module):
    """Make the library by which programs of Windows are linked with Python: it has no code, only names."""
    declared = re.findall(r"^(extern|SG_DATA) ([^;]*);", module, re.MULTILINE)
    functions = {name for kind, text in declared if kind == "extern" for name in re.findall(r"\b(_?Py\w+)\(", text)}
    data = {name for kind, text in declared if kind == "SG_DATA" for name in re.findall(r"\b(_?Py\w+)(?=,|$)", text)}
    lines = ["LIBRARY python3.dll", "EXPORTS", *sorted(functions), *(f"{name} DATA" for name in sorted(data))]
    (folder / "python3.def").write_text("\n".join(lines) + "\n")
    command = [*ZIG.command, "dlltool", "-m", "i386:x86-64", "-d", "python3.def", "-l", "libpython3.a"]
    subprocess.run(command, check=True, cwd=folder)
    return folder


def test_no_name_is_a_macro(target, tmp_path):
    found = macros([*ZIG.command, "cc", "-target", target], tmp_path)
    assert "NULL" in found
    assert not [name for name in found if c_word(name) == name]
