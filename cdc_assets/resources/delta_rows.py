"""Rows of a Delta table, counted in its data by delta-rs's own SQL.

It reads deletion vectors and column mapping, which a PyArrow dataset refuses. Neither reads a table with widened types
(`schema_changes: {widen: evolve}`).
"""

from __future__ import annotations

from typing import Any

_UNREAD = frozenset({"typeWidening", "typeWidening-preview"})


def count_where(table: Any, condition: str) -> int | None:
    """Rows for which a condition of SQL holds, of an opened table at its version; None where its types were widened."""
    from deltalake import QueryBuilder

    if _UNREAD & set(table.protocol().reader_features or ()):
        return None
    found = QueryBuilder().register("t", table).execute(f"SELECT count(*) AS n FROM t WHERE {condition}").read_all()
    (count,) = found["n"].to_pylist()
    return int(count)


def has_deletion_vectors(table: Any) -> bool:
    """Whether its files may hold rows that are gone; delta-rs no longer tells how many, file by file."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def has_column(table: Any, column: str) -> bool:
    """Whether the table has it, in its schema of now."""
    return any(field.name == column for field in table.schema().fields)
