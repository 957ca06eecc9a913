"""Documents of version 1, where calls of checkpointed functions were marks on values, as version 2 has them."""

from __future__ import annotations

from typing import Any

MARKS = ("enter", "leave")


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """Return the program of a version 1 document: marks become identities, rematerialised nodes stand behind barriers.

    A derivative that is taken of it from here on keeps what is inside of the calls.
    """
    nodes = document.get("nodes")
    rows = [_upgraded(row, i) for i, row in enumerate(nodes)] if type(nodes) is list else nodes
    return {key: rows if key == "nodes" else x for key, x in document.items() if key != "segments"}


def _upgraded(row: Any, i: int) -> Any:
    op = row.get("op") if type(row) is dict else None
    if op == "again":
        return {**row, "op": "barrier", "params": {"opened": True, "own": i}}
    return {**row, "op": "alias", "params": {"tag": i}} if op in MARKS else row
