"""What a MariaDB or a MySQL knows of its tables' changes: when one was last changed, and the row events that its binlog holds.

https://mariadb.com/kb/en/information-schema-tables-table/ ,
https://dev.mysql.com/doc/refman/9.7/en/information-schema-tables-table.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases import binlog_images
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.binlog_scan import BinlogScan
from cdc_assets.resources.databases.binlog_unsent import TableMaps, UnsentChange, UnsentReader
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.databases.mysql_capture import MySqlCapture

_UPDATED = """
SELECT table_schema, table_name, UNIX_TIMESTAMP(update_time) FROM information_schema.tables WHERE {wanted}
"""


@dataclass(frozen=True)
class UnsentScan:
    """What a look through the binlog found; all before `read_to` was read, and `unread` says in words what was not."""

    changes: list[UnsentChange]
    read_to: BinlogPosition
    unread: str


class BinlogActivity(BinlogDatabase):
    """The changes that one source server tells of."""

    _SESSION: str
    """What makes update_time the one of this moment, in no zone in which a time could be ambiguous."""

    def place_and_clock(self) -> tuple[BinlogPosition, int]:
        """Where the binlog ends, and the server's clock a moment before (seconds since 1970)."""
        with self.connection() as cursor:
            cursor.execute("SELECT UNIX_TIMESTAMP()")
            seconds = int(cursor.fetchone()[0])
            return self._position(cursor), seconds

    def perhaps_changed(self, ids: Sequence[TableId], since: int) -> list[TableId]:
        """The tables that may have changed since (seconds); not told of one that has not changed since the server began."""
        if not ids:
            return []
        wanted = " OR ".join(["(table_schema = %s AND table_name = %s)"] * len(ids))
        with self.connection() as cursor:
            cursor.execute(self._SESSION)
            cursor.execute(_UPDATED.format(wanted=wanted), [part for table in ids for part in table])
            updated = {TableId(*row[:2]): row[2] for row in cursor.fetchall()}
        return [i for i in ids if i in updated and (updated[i] is None or updated[i] >= since)]

    def row_events(
        self, ids: Sequence[TableId], since: BinlogPosition, until: BinlogPosition, *, seconds: float = 5.0
    ) -> tuple[Counter[TableId], str]:
        """Row events of these tables between two places, and in words what was not looked at within `seconds`.

        A Table_map event alone is no change: a statement writes one for every table that it might have changed.
        """
        maps = TableMaps(ids)
        found: Counter[TableId] = Counter()
        with self.connection() as cursor:
            scan = BinlogScan(cursor, since, until, seconds=seconds)
            for rows in scan:
                found.update(filter(None, map(maps.table_of, rows)))
        return found, scan.unread

    def unsent_changes(
        self, ids: Sequence[TableId], since: BinlogPosition, until: BinlogPosition, *, seconds: float = 30.0
    ) -> UnsentScan:
        """Changes of these tables' rows between two places for which Debezium sends no event (binlog_unsent.py)."""
        reader = UnsentReader(ids)
        found: list[UnsentChange] = []
        with self.connection() as cursor:
            scan = BinlogScan(cursor, since, until, seconds=seconds)
            for rows in scan:
                found += reader.changes(rows)
        return UnsentScan(found, scan.read_to, scan.unread)

    def changes_with_gaps(
        self, ids: Sequence[TableId], since: BinlogPosition, *, seconds: float = 30.0, most: int = 1
    ) -> list[UnsentChange]:
        """Row images of these tables behind a place that lack columns, at most so many of each (binlog_images.py)."""
        tables = {(i.schema, i.table): i for i in ids}
        with self.connection() as cursor:
            return list(binlog_images.changes_with_gaps(cursor, tables, since, seconds=seconds, most=most))

    def time_at(self, at: BinlogPosition) -> int | None:
        """When the event at a place of the binlog was written, in seconds since 1970."""
        with self.connection() as cursor:
            return binlog_images.time_at(cursor, at)


class MariaDbActivity(BinlogActivity, MariaDbDatabase):
    """A MariaDB's, in a session that keeps UTC."""

    _SESSION = "SET SESSION time_zone = '+00:00'"


class MySqlActivity(BinlogActivity, MySqlCapture):
    """A MySQL's, which else tells what it last knew for a day."""

    _SESSION = "SET SESSION time_zone = '+00:00', information_schema_stats_expiry = 0"
