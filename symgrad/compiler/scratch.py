"""Memory that compiled programs keep from call to call."""

from __future__ import annotations

import sys

from symgrad.targets.numpy import runtime


def release_scratch() -> None:
    """Give back the scratch memory that compiled programs keep from call to call.

    Programs that run over blocks of rows compute in a few buffers about as large as a core's cache. These are kept for
    the next call, for all programs together at most 256 MB that nobody uses: what has been kept longest goes first.
    Calls that run meanwhile go on undisturbed.

    Under ``target="c"`` a program keeps memory for each thread that calls it until that thread ends: up to 64 MB, and
    more as long as all programs together keep at most 256 MB of such large memory. That of the calling thread is given
    back.

    Examples
    --------
    >>> import symgrad as sg
    >>> sg.release_scratch()
    """
    runtime._kept.clear()
    kernels = sys.modules.get("symgrad.targets.c.kernels")
    if kernels is not None:
        kernels.release()
