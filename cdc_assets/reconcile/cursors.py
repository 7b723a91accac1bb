"""Up to which key each table of a source was compared last, kept over restarts: the next range begins there.

    $CDC_HOME/reconciliation/<source>.json  {"<table>": {"columns": [...], "after": [...]}}

A table that is compared by two ranges (spark.reconcile.own_order) has two places: `<table>:source` and `<table>:silver`.

Each range begins where an earlier one ended, so every key value is compared in each round, whatever is written meanwhile. Two
runs at the same time compare a range twice; none is left out. A lost file only starts the round again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cdc_assets import settings
from cdc_assets.durable_file import replace_json

Bound = tuple[int | str, ...]


def of_source(table: str) -> str:
    """The place in the source's own order."""
    return f"{table}:source"


def of_silver(table: str) -> str:
    """The place in the order of silver's texts."""
    return f"{table}:silver"


def after(source: str, table: str, columns: tuple[str, ...]) -> Bound | None:
    """The last key that was compared; None at the begin of a round, and where the key has become another."""
    found = _read(source).get(table)
    return tuple(found["after"]) if found and tuple(found["columns"]) == columns else None


def advance(source: str, ends: Mapping[str, tuple[tuple[str, ...], Bound | None]]) -> None:
    """Keep the ends (columns, last key) of the ranges that were compared, by table; None: the round is over."""
    if not ends:
        return
    kept = _read(source)
    for table, (columns, end) in ends.items():
        kept.pop(table, None)
        if end is not None:
            kept[table] = {"columns": list(columns), "after": list(end)}
    replace_json(settings.home() / "reconciliation" / f"{source}.json", kept)


def _read(source: str) -> dict[str, Any]:
    # Not written by a version that is known, or not there: a new round compares all of it again.
    with suppress(OSError, ValueError):
        found = json.loads((settings.home() / "reconciliation" / f"{source}.json").read_text(encoding="utf-8"))
        return dict(found)
    return {}
