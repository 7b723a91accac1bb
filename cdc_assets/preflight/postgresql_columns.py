"""The rules of a PostgreSQL table's columns, and of the rows that its role is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.base_table import Table
from spark.delta.identifiers import double_quote


def column_findings(declared: Table, found: Mapping[str, Any], user: str) -> Iterator[Finding]:
    """Keys that hold no rows apart, and rows that a snapshot would not read."""
    name = str(declared.id)
    yield from _keys(declared, found)
    if found["hidden"]:
        message = f"row level security hides rows from role {user}: a snapshot would not read them, changes of them would come"
        yield Finding("row_security", "fail", name, message, f"ALTER ROLE {double_quote(user)} BYPASSRLS")


def _keys(declared: Table, found: Mapping[str, Any]) -> Iterator[Finding]:
    if not declared.keys:
        return
    name, listed = str(declared.id), ", ".join(declared.keys)
    if absent := [key for key in declared.keys if key not in found["columns"]]:
        message = f"keys name {', '.join(absent)}, and it has no such column; it has: {', '.join(found['columns'])}"
        yield Finding("keys", "fail", name, message)
    elif not any(set(index) <= set(declared.keys) for index in found["unique"]):
        message = f"no unique index holds its keys ({listed}) apart, NULLs too: rows that share them would be one row in silver"
        table, keys = double_quote(*declared.id), [double_quote(key) for key in declared.keys]
        # PostgreSQL 14 has no NULLS NOT DISTINCT.
        filled = ", ".join(f"ALTER COLUMN {key} SET NOT NULL" for key in keys)
        mend = f"ALTER TABLE {table} {filled}; CREATE UNIQUE INDEX ON {table} ({', '.join(keys)})"
        yield Finding("keys", "warn", name, message, mend)
