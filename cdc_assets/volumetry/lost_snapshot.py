"""A first snapshot that a connector has begun, and gone on without: no row of before comes, and later changes look as ever.

Debezium stores an empty offset with its notification that a snapshot begins (connectors.first_snapshot). Killed or failed before
its first table, it skips the snapshot at its next start, and says so. A snapshot that was killed later begins anew. One that
was asked for by a signal has named a table by then, and whoever has asked for it is told.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets import names
from cdc_assets.connectors.notifications import (
    FINE,
    INCREMENTAL,
    INITIAL,
    SOME_ROWS,
    KeptNotifications,
    Notification,
    read_notifications,
)
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.kafka import KafkaCluster


@dataclass(frozen=True)
class LostSnapshot:
    """When the newest that was lost began (0: none was), and when each table (`schema.table`) was last read whole."""

    began_ms: int = 0
    read_ms: Mapping[str, int] = field(default_factory=dict)

    def tables(self, source: BaseSource) -> list[Table]:
        """Those of which no row of the time before has come."""
        return [table for table in source.tables if self.read_ms.get(".".join(table.id), 0) < self.began_ms]

    def message(self, source: BaseSource, table: Table) -> str:
        """What is wrong, and the command that reads the table."""
        began = dt.datetime.fromtimestamp(self.began_ms / 1000, dt.timezone.utc)
        return (
            f"the first snapshot of connector {names.connector_name(source)}, begun {began:%Y-%m-%d %H:%M:%S} UTC, was never "
            f"completed, and the connector has gone on without it: rows of before are missing; ./cdc snapshot {source.name} "
            f"{table.name} reads them"
        )


def read_lost_snapshots(core: KafkaCluster, sources: Sequence[BaseSource]) -> dict[str, LostSnapshot]:
    """By source, what the connectors' notifications tell, in one read; of one that begins without a snapshot none is missed."""
    wanted = [source for source in sources if source.captured and source.captured.capture.snapshot == "initial"]
    said = read_notifications(core, wanted)
    return {source.name: lost_snapshot(said.get(source.name, KeptNotifications())) for source in sources}


def lost_snapshot(said: KeptNotifications) -> LostSnapshot:
    """From what the connector has said since nothing of it is missing."""
    began = lost = before = 0
    read: dict[str, int] = {}
    for each in said.whole:
        if each.table and each.data.get("status") in FINE and _is_whole(each):
            read[each.table] = each.at_ms
        if each.aggregate != INITIAL:
            continue
        if each.type == "STARTED":
            began, before = each.at_ms, lost
        elif each.type == "SKIPPED":
            lost, began = began or lost, 0
        elif each.type != "ABORTED":
            # It goes on: what was skipped meanwhile is another connector's (onboarding has one beside the source's own).
            began, lost = 0, before
    return LostSnapshot(lost, read)


def _is_whole(scan: Notification) -> bool:
    """Heals and conditions read some rows of a table; all else reads it whole."""
    return scan.aggregate == INITIAL or (scan.aggregate == INCREMENTAL and not scan.id.startswith(SOME_ROWS))
