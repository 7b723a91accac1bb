"""Records of a table with a history, and its versions."""

from __future__ import annotations

from typing import Any

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import rows
from spark.specs import Column

COLUMNS = (Column("id", "integer", False), Column("v", "text"), Column("note", "text"))


def sent(offset: int, place: int, key: int, v: str | None, note: str | None, op: str) -> Record:
    row = None if op in ("d", "t") else {"id": key, "v": v, "note": note}
    return Record(offset, None if op == "t" else f'{{"id": {key}}}', event(place, row, op=op).value)


def place(position: str | None) -> int | None:
    return None if position is None else int(position.split(".")[3], 16) - 100


def whole(path: str) -> list[Any]:
    return sorted(([*map(str, row.items())] for row in rows(path)), key=str)
