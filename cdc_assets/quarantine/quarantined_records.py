"""What is in quarantine, read from the Delta files alone: no Spark, no source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import open_table
from cdc_assets.resources.hidden_values import HiddenValues

FACTS = (
    "topic",
    "partition",
    "offset",
    "position",
    "op",
    "row_key",
    "error_class",
    "column",
    "message",
    "schema_id",
    "first_seen",
    "superseded_by",
)
MARKS = ("redriven_at", "dropped_at")
RAW = ("key", "value")
# Of one process: equal values look equal in one answer.
_VALUES = HiddenValues()


@dataclass(frozen=True)
class QuarantinedRecord:
    """One record; `facts` are the quarantine's columns, with its bytes only where they were asked for."""

    source: str
    table: str
    facts: dict[str, Any]

    @property
    def state(self) -> str:
        """open, redriven or dropped."""
        if self.facts["dropped_at"] is not None:
            return "dropped"
        return "redriven" if self.facts["redriven_at"] is not None else "open"

    def hidden(self, table: Table) -> QuarantinedRecord:
        """For people: what may hold a value of a sensitive column is a hash. The message of another column is shown as it is."""
        if not table.sensitive:
            return self
        facts, column = dict(self.facts), self.facts["column"]
        if column is None or column in table.sensitive:
            facts["message"] = f"(sensitive: {_VALUES.hide(facts['message'])})" if facts["message"] is not None else None
        if not table.keys or set(table.keys) & set(table.sensitive):
            facts["row_key"] = _VALUES.hide(facts["row_key"])
        for name in RAW:
            if facts.get(name) is not None:
                facts[name] = str(_VALUES.hide(facts[name])).encode()
        return replace(self, facts=facts)

    def to_json(self, *, raw: bool = False) -> dict[str, Any]:
        """For programs; `raw` adds key and value as text (bytes that are no UTF-8 are escaped)."""
        shown: dict[str, Any] = {"source": self.source, "table": self.table, "state": self.state}
        for name in FACTS:
            value = self.facts[name]
            shown[name] = value.isoformat() if isinstance(value, datetime) else value
        if raw:
            for name in RAW:
                data = self.facts[name]
                shown[name] = None if data is None else data.decode(errors="backslashreplace")
        return shown


@dataclass(frozen=True)
class QuarantineFilter:
    """Which records are wanted; None: whatever the value is. Open ones unless `every_state`."""

    error_class: str | None = None
    partition: int | None = None
    offset: int | None = None
    every_state: bool = False

    def matches(self, record: QuarantinedRecord) -> bool:
        """Whether the record is one of them."""
        wanted = {"error_class": self.error_class, "partition": self.partition, "offset": self.offset}
        same = all(value is None or record.facts[name] == value for name, value in wanted.items())
        return same and (self.every_state or record.state == "open")


ALL_OPEN = QuarantineFilter()


def quarantine_records(
    lake: str, source: BaseSource, table: Table, wanted: QuarantineFilter = ALL_OPEN, *, raw: bool = False
) -> list[QuarantinedRecord]:
    """The table's records in quarantine in the order of their offsets.

    Their bytes are read only with `raw`: a topic of poison holds more of them than a check should load.
    """
    rows = _rows(names.quarantine_path(lake, source, table), (*FACTS, *MARKS, *(RAW if raw else ())))
    found = [QuarantinedRecord(source.name, names.table_name(table), row) for row in rows]
    return sorted(filter(wanted.matches, found), key=lambda h: (h.facts["topic"], h.facts["partition"], h.facts["offset"]))


def places_given_up(lake: str, source: BaseSource, table: Table) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each record that was given up; nothing else is read of it."""
    rows = _rows(names.quarantine_path(lake, source, table), ("topic", "partition", "offset", "dropped_at"))
    return [(row["topic"], row["partition"], row["offset"]) for row in rows if row["dropped_at"] is not None]


def _rows(path: str, columns: Sequence[str]) -> Sequence[dict[str, Any]]:
    table = open_table(path)
    if table is None:
        return []
    rows: list[dict[str, Any]] = open_dataset(table, path).to_table(columns=[*columns]).to_pylist()
    return rows
