"""What a MariaDB or a MySQL knows of its tables' changes: when one was last changed, and the row events that its binlog holds.

A look through a binlog between two places has some seconds: it tells how far it came, and what it did not read.
https://mariadb.com/kb/en/information-schema-tables-table/ ,
https://dev.mysql.com/doc/refman/9.7/en/information-schema-tables-table.html
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.clients.databases import binlog_capture
from cdc_assets.clients.databases.binlog import BinlogDatabase, BinlogPosition
from cdc_assets.clients.databases.binlog_events import changes_with_gaps, time_at
from cdc_assets.clients.databases.binlog_unsent import TableMaps, UnsentChange, UnsentReader
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.mysql import MySqlCapture
from cdc_assets.registry.field_types import TableId

"""(file, begin, kind, server id, end, info), as SHOW BINLOG EVENTS answers."""
_TRANSACTION_KINDS = ("Gtid", "Anonymous_Gtid")


class BinlogScan:
    """The events of a look, page by page. `read_to`: all before it has been read; `unread` says in words what has not."""

    def __init__(self, cursor: Any, since: BinlogPosition, until: BinlogPosition, *, seconds: float) -> None:
        self._cursor, self._since, self._until, self._seconds = cursor, since, until, seconds
        self.read_to = since
        self.unread = ""

    def __iter__(self) -> Iterator[list[Sequence[Any]]]:
        """Events that end before the look's end; what is compressed begins where it ends, and some have no end (0).

        The look ends early only where a transaction begins: ids of tables hold within one.
        """
        started = time.monotonic()
        files = self._files()
        if self._since.file not in files:
            self.unread = f"the binlog from {self._since.text} on was not read: the file is gone"
            self.read_to = BinlogPosition.of(files[0], 4) if files else self._until
            return
        for file in files:
            page_began = time.monotonic()
            begin = self._since if file == self._since.file else BinlogPosition.of(file, 4)
            for rows, at in binlog_capture.pages(self._cursor, begin):
                yield [row for row in rows if BinlogPosition.of(file, row[4] or row[1] + 1) <= self._until]
                if at >= self._until or len(rows) < binlog_capture.AT_ONCE:
                    break
                # Behind the look's own begin: else the next one would end here too.
                ends = [row[1] for row in rows if row[2] in _TRANSACTION_KINDS and BinlogPosition.of(file, row[1]) > self._since]
                if ends and time.monotonic() - started > self._seconds:
                    self.read_to = BinlogPosition.of(file, ends[-1])
                    self.unread = f"the binlog from {self.read_to.text} to {self._until.text} was not read: "
                    self.unread += f"{self._seconds:.0f} s were over"
                    return
                # As long as it was held up: commits get their turn.
                time.sleep(min(0.1, time.monotonic() - page_began))
                page_began = time.monotonic()
        self.read_to = self._until

    def _files(self) -> list[str]:
        self._cursor.execute("SHOW BINARY LOGS")
        files = [row[0] for row in self._cursor.fetchall()]
        return [f for f in files if self._since.number <= BinlogPosition.of(f, 0).number <= self._until.number]


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
        condition = " OR ".join(["(table_schema = %s AND table_name = %s)"] * len(ids))
        with self.connection() as cursor:
            cursor.execute(self._SESSION)
            cursor.execute(_UPDATED.format(wanted=condition), [name for table in ids for name in table])
            updated = {TableId(*row[:2]): row[2] for row in cursor.fetchall()}
        return [i for i in ids if i in updated and (updated[i] is None or updated[i] >= since)]

    def row_events(
        self, ids: Sequence[TableId], since: BinlogPosition, until: BinlogPosition, *, seconds: float = 5.0
    ) -> tuple[Counter[TableId], str]:
        """Row events of these tables between two places, and in words what was not looked at within `seconds`.

        A Table_map event alone is no change: a statement writes one for every table that it might have changed.
        """
        maps = TableMaps(ids)
        counts: Counter[TableId] = Counter()
        with self.connection() as cursor:
            scan = BinlogScan(cursor, since, until, seconds=seconds)
            for rows in scan:
                counts.update(filter(None, map(maps.table_of, rows)))
        return counts, scan.unread

    def unsent_changes(
        self, ids: Sequence[TableId], since: BinlogPosition, until: BinlogPosition, *, seconds: float = 30.0
    ) -> UnsentScan:
        """Changes of these tables' rows between two places for which Debezium sends no event (binlog_unsent.py)."""
        reader = UnsentReader(ids)
        changes: list[UnsentChange] = []
        with self.connection() as cursor:
            scan = BinlogScan(cursor, since, until, seconds=seconds)
            for rows in scan:
                changes += reader.changes(rows)
        return UnsentScan(changes, scan.read_to, scan.unread)

    def changes_with_gaps(
        self, ids: Sequence[TableId], since: BinlogPosition, *, seconds: float = 30.0, most: int = 1
    ) -> list[UnsentChange]:
        """Row images of these tables behind a place that lack columns, at most so many of each."""
        tables = {(i.schema, i.table): i for i in ids}
        with self.connection() as cursor:
            return list(changes_with_gaps(cursor, tables, since, seconds=seconds, most=most))

    def time_at(self, at: BinlogPosition) -> int | None:
        """When the event at a place of the binlog was written, in seconds since 1970."""
        with self.connection() as cursor:
            return time_at(cursor, at)


class MariaDbActivity(BinlogActivity, MariaDbDatabase):
    """A MariaDB's, in a session that keeps UTC."""

    _SESSION = "SET SESSION time_zone = '+00:00'"


class MySqlActivity(BinlogActivity, MySqlCapture):
    """A MySQL's, which else tells what it last knew for a day."""

    _SESSION = "SET SESSION time_zone = '+00:00', information_schema_stats_expiry = 0"
