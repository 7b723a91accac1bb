"""How much a table holds, by which is decided who writes it and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TableSize:
    """Of all files that a table's newest commit names."""

    bytes: int
    rows: int


def size_of(delta: Any) -> TableSize:
    """Of a table that delta-rs has opened; files that do not say their rows count none."""
    files = delta.get_add_actions(flatten=True)
    return TableSize(sum(files["size_bytes"].to_pylist()), sum(filter(None, files["num_records"].to_pylist())))
