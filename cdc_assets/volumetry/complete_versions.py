"""Which version of each silver table and history is complete up to a point of its source's log: what a reader of several pins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdc_assets import names
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_state
from cdc_assets.volumetry.log_position import LogPosition


@dataclass(frozen=True)
class CompleteVersions:
    """The Delta versions of a source's silver tables that hold everything committed before `position`.

    They may hold later changes as well, each table its own: all of one transaction is there when it was committed before.
    Of a table with a history its place, version and rows are there as well, as `history`.
    """

    source: str
    position: str
    tables: dict[str, dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """As `cdc wait -o json` prints it."""
        return {"position": self.position, "tables": self.tables}


def complete_versions(lake: str, source: BaseSource, position: LogPosition) -> CompleteVersions:
    """Of a source that has been waited for (`wait_caught_up`); tables that nothing was ever captured of are left out."""
    found: dict[str, dict[str, Any]] = {}
    for table in source.tables:
        told = _newest(names.silver_path(lake, source, table))
        if told is None:
            continue
        if table.history == "scd2":
            told["history"] = _newest(names.history_path(lake, source, table))
        found[names.table_name(table)] = told
    return CompleteVersions(source.name, position.lsn, found)


def _newest(path: str) -> dict[str, Any] | None:
    state = silver_state(path)
    return None if state is None else {"path": path, "version": state.version, "rows": state.rows}
