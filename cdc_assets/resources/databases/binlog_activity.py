"""What a MariaDB or a MySQL knows of its tables' changes: when one was last changed, and the row events that its binlog holds.

https://mariadb.com/kb/en/information-schema-tables-table/ ,
https://dev.mysql.com/doc/refman/9.7/en/information-schema-tables-table.html
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases import binlog_events
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.databases.mysql_capture import MySqlCapture

_MAP, _ROWS = re.compile(r"table_id: (\d+) \((.*)\)$"), re.compile(r"table_id: (\d+)\b")
_UPDATED = """
SELECT table_schema, table_name, UNIX_TIMESTAMP(update_time) FROM information_schema.tables WHERE {wanted}
"""


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
        names = {f"{i.schema}.{i.table}": i for i in ids}
        found: Counter[TableId] = Counter()
        started = time.monotonic()
        with self.connection() as cursor:
            files = self._files(cursor, since, until)
            if since.file not in files:
                return found, f"the binlog from {since.text} on was not read: the file is gone"
            for file in files:
                maps: dict[str, TableId | None] = {}
                asked = time.monotonic()
                for rows, at in binlog_events.pages(cursor, since if file == since.file else BinlogPosition.of(file, 4)):
                    _count(rows, until, names, maps, found)
                    if at >= until or len(rows) < binlog_events.AT_ONCE:
                        break
                    if time.monotonic() - started > seconds:
                        return found, f"the binlog from {at.text} to {until.text} was not read: {seconds:.0f} s were over"
                    # As long as it was held up: commits get their turn.
                    time.sleep(min(0.1, time.monotonic() - asked))
                    asked = time.monotonic()
        return found, ""

    def _files(self, cursor: Any, since: BinlogPosition, until: BinlogPosition) -> list[str]:
        cursor.execute("SHOW BINARY LOGS")
        known = [row[0] for row in cursor.fetchall()]
        return [f for f in known if since.number <= BinlogPosition.of(f, 0).number <= until.number]


class MariaDbActivity(BinlogActivity, MariaDbDatabase):
    """A MariaDB's, in a session that keeps UTC."""

    _SESSION = "SET SESSION time_zone = '+00:00'"


class MySqlActivity(BinlogActivity, MySqlCapture):
    """A MySQL's, which else tells what it last knew for a day."""

    _SESSION = "SET SESSION time_zone = '+00:00', information_schema_stats_expiry = 0"


def _count(
    rows: Sequence[Any],
    until: BinlogPosition,
    names: dict[str, TableId],
    maps: dict[str, TableId | None],
    found: Counter[TableId],
) -> None:
    """Ids of tables hold within a file, from their Table_map event on. What is compressed begins where it ends."""
    for file, _, kind, _, end, info in rows:
        if BinlogPosition.of(file, end) > until:
            return
        if kind == "Table_map" and (named := _MAP.match(info)):
            maps[named[1]] = names.get(named[2])
        elif "rows" in kind.lower() and "annotate" not in kind.lower() and (row := _ROWS.match(info)):
            table = maps.get(row[1])
            if table is not None:
                found[table] += 1
