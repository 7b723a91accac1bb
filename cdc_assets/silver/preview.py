"""The first rows of a silver table for people, as a table in Markdown; values of sensitive columns are left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.resources import delta_rows
from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import open_table
from cdc_assets.shown_text import in_markdown

if TYPE_CHECKING:
    import pyarrow as pa

MASK = "(sensitive)"
_LONGEST = 60


def preview(path: str, sensitive: Collection[str], rows: int) -> str:
    """At most so many rows, without our own columns; empty where there is no table, or only Spark reads it."""
    table = open_table(path) if rows else None
    if table is None or delta_rows.unread_features(table):
        return ""
    found = _first_rows(table, path, rows)
    names = [name for name in found.column_names if not name.startswith("_cdc_")]
    lines = [[in_markdown(MASK) if name in sensitive else _text(row[name]) for name in names] for row in found.to_pylist()]
    return "\n".join(map(_line, [[_text(name) for name in names], ["---"] * len(names), *lines]))


def _first_rows(table: Any, path: str, rows: int) -> pa.Table:
    if delta_rows.is_plain(table):
        return open_dataset(table, path).head(rows)
    return delta_rows.read_first(table, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: object) -> str:
    """One cell: NULL as nothing, bytes in hex, what is long cut."""
    if value is None:
        return ""
    text = f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)
    return in_markdown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
