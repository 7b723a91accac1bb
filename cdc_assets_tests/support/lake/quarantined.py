"""A table with records that do not fit its columns, and what is in quarantine."""

from __future__ import annotations

from typing import Any

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import rows, values
from spark.specs import Column, SilverSpec


def by_id(path: str) -> list[dict[str, Any]]:
    return sorted(values(path), key=lambda row: row["id"])


def held(spec: SilverSpec) -> set[tuple[int, str]]:
    return {(row["offset"], row["error_class"]) for row in rows(spec.quarantine)}


NARROW = (Column("id", "integer", False), Column("n", "smallint"))

WIDE = (Column("id", "integer", False), Column("n", "integer"))

HISTORY = [
    Record(0, None, "poison at the head"),
    event(1, {"id": 1, "n": 1}),
    event(2, {"id": 1, "n": 70000}, op="u"),  # Too large for smallint: mended by a wider column.
    event(3, {"id": 2, "n": 70000}),
    event(4, {"id": 2, "n": 2}, op="u"),  # Newer than the record that is mended later.
    event(5, {"id": 3, "n": 70000}),
]
