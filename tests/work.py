"""Work as a count: the same on every machine, however busy."""

from __future__ import annotations

import sys


def calls(function):
    """Return how many functions, of Python and of C, are called while this one runs."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
