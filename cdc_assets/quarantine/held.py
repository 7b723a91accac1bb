"""What is in quarantine, read from the Delta files alone: no Spark, no source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cdc_assets import names
from cdc_assets.registry.models import BaseSource, Table

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
)


@dataclass(frozen=True)
class Held:
    """One record; `facts` are the quarantine's columns, raw bytes included."""

    source: str
    table: str
    facts: dict[str, Any]

    @property
    def state(self) -> str:
        """open, redriven or dropped."""
        if self.facts["dropped_at"] is not None:
            return "dropped"
        return "redriven" if self.facts["redriven_at"] is not None else "open"

    def to_json(self, *, raw: bool = False) -> dict[str, Any]:
        """For programs; `raw` adds key and value as text (bytes that are no UTF-8 are escaped)."""
        shown: dict[str, Any] = {"source": self.source, "table": self.table, "state": self.state}
        for name in FACTS:
            value = self.facts[name]
            shown[name] = value.isoformat() if isinstance(value, datetime) else value
        if raw:
            for name in ("key", "value"):
                data = self.facts[name]
                shown[name] = None if data is None else data.decode(errors="backslashreplace")
        return shown


def held(
    lake: str,
    source: BaseSource,
    table: Table,
    *,
    error_class: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    every_state: bool = False,
) -> list[Held]:
    """The table's records in quarantine in the order of their offsets; open ones unless `every_state`."""
    rows = _rows(names.quarantine_path(lake, source, table))
    found = [Held(source.name, names.table_name(table), row) for row in rows]
    wanted = {"error_class": error_class, "partition": partition, "offset": offset}
    found = [h for h in found if all(v is None or h.facts[k] == v for k, v in wanted.items())]
    found = [h for h in found if every_state or h.state == "open"]
    return sorted(found, key=lambda h: (h.facts["topic"], h.facts["partition"], h.facts["offset"]))


def _rows(path: str) -> Sequence[dict[str, Any]]:
    from deltalake import DeltaTable

    if "://" not in path and not (Path(path) / "_delta_log").is_dir():
        return []
    if not DeltaTable.is_deltatable(path):
        return []
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
    return rows
