"""The binlog of a MariaDB or a MySQL and its tables' update times, as a witness of the flow (cdc_assets.volumetry.flow).

MariaDB counts no changed rows by table, and MySQL (`performance_schema.table_io_waits_summary_by_table`) those that are rolled
back too, since the server began, where a role may see them. `information_schema.tables.update_time` says as cheaply that a table
did not change; what it does not settle (a change, or nothing known) is told by the binlog, which holds what was committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.binlog_activity import MariaDbActivity, MySqlActivity
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.volumetry.flow import Baseline, Changes


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
