"""``symgrad info``: facts for a bug report."""

from __future__ import annotations

import os
import platform
from argparse import ArgumentParser, Namespace
from importlib import metadata
from typing import Any

from symgrad.cli.common import Command
from symgrad.cli.output import write
from symgrad.core.version import VERSION

_PACKAGES = ("numpy", "scipy", "sympy", "networkx", "optree", "threadpoolctl")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def _add(parser: ArgumentParser) -> None:
    pass


def _run(options: Namespace) -> int:
    found = gathered()
    width = max(map(len, found)) + 2
    write(options, "\n".join(f"{name:{width}}{value}" for name, value in found.items()), found)
    return 0


def gathered() -> dict[str, Any]:
    """Versions, libraries of BLAS and cores; no path and no name of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "symgrad": VERSION,
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": cores,
        **{name: _version(name) for name in _PACKAGES},
        "BLAS": _blas(),
        **{name: os.environ[name] for name in _THREADS if name in os.environ},
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _blas() -> str:
    """The libraries that NumPy and SciPy have loaded, with their threads."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.linalg.norm(np.eye(2) @ np.eye(2))
    libraries = [
        f"{x['internal_api']} {x['version']} ({x.get('architecture', 'unknown core')}, {x['num_threads']} threads)"
        for x in threadpool_info()
        if x["user_api"] == "blas"
    ]
    return ", ".join(dict.fromkeys(libraries)) or "unknown to threadpoolctl"


COMMAND = Command(
    "info",
    "show versions, BLAS and cores: what belongs into a bug report",
    ("symgrad info", "symgrad info --json"),
    _add,
    _run,
)
