"""A trial of a file in a process of its own, for what no count of iterations ends: a loop inside of a C function."""

from __future__ import annotations

import ast
import faulthandler
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

PATIENCE = 30.0  # seconds
KNOWN = frozenset(
    "numpy scipy math os sys json collections concurrent contextlib contextvars functools pathlib threadpoolctl".split()
)
UNBOUNDED = frozenset("iter input open eval exec __import__ breakpoint".split())


def is_foreign(nodes: Iterable[ast.AST]) -> bool:
    """Whether a module imports or calls what no generated module does, and what may never return."""
    for node in nodes:
        if isinstance(node, ast.Import) and any(x.name.split(".")[0] not in KNOWN for x in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in KNOWN:
            return True
        if isinstance(node, ast.Name) and node.id in UNBOUNDED:
            return True
    return False


def hangs(file: str, calls: Callable[[], Any]) -> int | None:
    """Make calls in another process; the line of a file that is running when patience is out, None if they end.

    Where processes cannot be forked there is no trial. The watchdog of `faulthandler` needs no turn of the interpreter,
    which a loop inside of a C function never gives.
    """
    if not hasattr(os, "fork"):
        return None
    with tempfile.TemporaryFile() as told:
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                faulthandler.dump_traceback_later(PATIENCE, exit=True, file=told.fileno())
                calls()
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            return None
        told.seek(0)
        lines = re.findall(rf'File "{re.escape(file)}", line (\d+)', told.read().decode(errors="replace"))
    return int(lines[0]) if lines else 0
