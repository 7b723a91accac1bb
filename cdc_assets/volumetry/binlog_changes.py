"""The binlog of a MariaDB or a MySQL and its tables' update times, as a witness of the flow (cdc_assets.volumetry.flow).

MariaDB counts no changed rows by table, and MySQL (`performance_schema.table_io_waits_summary_by_table`) those that are rolled
back too, since the server began, where a role may see them. `information_schema.tables.update_time` says as cheaply that a table
did not change; what it does not settle (a change, or nothing known) is told by the binlog, which holds what was committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc_assets import names
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases.binlog_activity import MariaDbActivity, MySqlActivity
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.binlog_unsent import UnsentChange
from cdc_assets.volumetry.binlog_progress import connector_position
from cdc_assets.volumetry.flow import Baseline, Changes
from cdc_assets.volumetry.unsent_changes import UnsentChanges, read_unsent_changes, remember


class BinlogWitness:
    """The changes of one source, witnessed by its binlog."""

    def __init__(self, database: MariaDbActivity | MySqlActivity) -> None:
        self.database = database

    def now(self, tables: Sequence[Table]) -> dict[str, Any]:
        """A place of the binlog."""
        at, seconds = self.database.place_and_clock()
        return {"file": at.file, "position": at.position, "seconds": seconds}

    def follows(self, before: Baseline, now: Baseline) -> bool:
        """The binlog has not been begun anew."""
        return "file" in before and _place(before) <= _place(now)

    def behind(self, source: Mapping[str, Any], before: Baseline) -> bool:
        """By file and position."""
        return BinlogPosition.of(source["file"], int(source["pos"])) >= _place(before)

    def changes(self, tables: Sequence[Table], quiet: Sequence[Table], before: Baseline, now: Baseline) -> Changes:
        """Of quiet tables only: the others have sent something."""
        ids = {table.id: table.name for table in quiet}
        moved = self.database.perhaps_changed(list(ids), before["seconds"])
        if not moved:
            return Changes(dict.fromkeys(ids.values(), 0), {})
        events, unread = self.database.row_events(moved, _place(before), _place(now))
        counts = {name: events.get(id_, 0) for id_, name in ids.items()}
        told = {name: f"{quantity(n, 'row event')} in the binlog since the last check" for name, n in counts.items() if n}
        return Changes(counts, told, unread)

    def unsent(self, source: CapturedSource, connect: ConnectClient, before: Baseline | None) -> UnsentChanges:
        """What the log holds since the last look, and row images with gaps at which the connector has stopped."""
        kept, now = read_unsent_changes(source.name), self.database.place_and_clock()[0]
        since = kept.read_to or (_place(before) if before and "file" in before else now)
        log_restarted = now < since
        tables = {table.id: table.name for table in source.tables}
        scan = self.database.unsent_changes(list(tables), now if log_restarted else since, now)
        changes = [*scan.changes, *self._gaps_at_connector(source, connect)]
        by_name = [(tables[change.table], change) for change in changes]
        noted = remember(source.name, by_name, self.database.time_at, read_to=scan.read_to, restarted=log_restarted)
        return replace(noted, unread=scan.unread)

    def _gaps_at_connector(self, source: CapturedSource, connect: ConnectClient) -> list[UnsentChange]:
        """Looked for where the connector has stopped: it fails at each such image (`inconsistent.schema.handling.mode`)."""
        name = names.connector_name(source)
        status = connect.status(name)
        if status is None or not status.failed:
            return []
        at = connector_position(connect, name)
        if at is None or at.file not in {file for file, _ in self.database.binlog()}:
            return []
        return self.database.changes_with_gaps([table.id for table in source.tables], at)

    def tables_outside_log(self, source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
        """None: a binlog carries all tables."""
        return {}


def _place(baseline: Baseline) -> BinlogPosition:
    return BinlogPosition.of(baseline["file"], int(baseline["position"]))


def mariadb_witness(database: MariaDb) -> BinlogWitness:
    """Asks a MariaDB for its binlog."""
    return BinlogWitness(MariaDbActivity(database))


def mysql_witness(database: MySql) -> BinlogWitness:
    """The same of a MySQL server."""
    return BinlogWitness(MySqlActivity(database))
