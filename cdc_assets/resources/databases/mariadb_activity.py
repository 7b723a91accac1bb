"""What a MariaDB knows of its tables' changes: when one was last changed, and the row events that its binlog holds.

https://mariadb.com/kb/en/information-schema-tables-table/ , https://mariadb.com/kb/en/show-binlog-events/
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.binlog import BinlogPosition
from cdc_assets.resources.databases.mariadb import MariaDbDatabase

# The server holds a lock that commits wait for while it answers: 500 events take about a millisecond.
_AT_ONCE = 500
_MAP, _ROWS = re.compile(r"table_id: (\d+) \((.*)\)$"), re.compile(r"table_id: (\d+)\b")
_UPDATED = """
SELECT table_schema, table_name, UNIX_TIMESTAMP(update_time) FROM information_schema.tables WHERE {wanted}
"""


class MariaDbActivity(MariaDbDatabase):
    """One source server."""

    def place_now(self) -> tuple[BinlogPosition, int]:
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
            # A time in the session's zone could be ambiguous.
            cursor.execute("SET SESSION time_zone = '+00:00'")
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
        started, at = time.monotonic(), since
        with self.connection() as cursor:
            files = self._files(cursor, since, until)
            if since.file not in files:
                return found, f"the binlog from {since.text} on was not read: the file is gone"
            for file in files:
                if file != at.file:
                    at = BinlogPosition.of(file, 4)
                maps: dict[str, TableId | None] = {}
                while at < until:
                    asked = time.monotonic()
                    cursor.execute(f"SHOW BINLOG EVENTS IN %s FROM {at.position} LIMIT {_AT_ONCE}", [file])
                    rows = cursor.fetchall()
                    _count(rows, until, names, maps, found)
                    if not rows or rows[-1][4] <= at.position:
                        break
                    at = BinlogPosition.of(file, rows[-1][4])
                    if len(rows) < _AT_ONCE:
                        break
                    if time.monotonic() - started > seconds:
                        return found, f"the binlog from {at.text} to {until.text} was not read: {seconds:.0f} s were over"
                    # As long as it was held up: commits get their turn.
                    time.sleep(min(0.1, time.monotonic() - asked))
        return found, ""

    def _files(self, cursor: Any, since: BinlogPosition, until: BinlogPosition) -> list[str]:
        cursor.execute("SHOW BINARY LOGS")
        known = [row[0] for row in cursor.fetchall()]
        return [f for f in known if since.number <= BinlogPosition.of(f, 0).number <= until.number]


def _count(
    rows: Sequence[Any],
    until: BinlogPosition,
    names: dict[str, TableId],
    maps: dict[str, TableId | None],
    found: Counter[TableId],
) -> None:
    """Ids of tables hold within a file, from their Table_map event on."""
    for file, position, kind, _, _, info in rows:
        if BinlogPosition.of(file, position) >= until:
            return
        if kind == "Table_map" and (named := _MAP.match(info)):
            maps[named[1]] = names.get(named[2])
        elif "rows" in kind.lower() and "annotate" not in kind.lower() and (row := _ROWS.match(info)):
            table = maps.get(row[1])
            if table is not None:
                found[table] += 1
