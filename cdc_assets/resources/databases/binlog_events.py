"""The events of a binlog's file as SHOW BINLOG EVENTS tells them, some at a time: commits may have to wait while it answers.

https://mariadb.com/kb/en/show-binlog-events/ , https://dev.mysql.com/doc/refman/9.7/en/show-binlog-events.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cdc_assets.resources.databases.binlog_position import BinlogPosition

AT_ONCE = 500
"""Events: about a millisecond."""


def pages(cursor: Any, at: BinlogPosition) -> Iterator[tuple[Sequence[Sequence[Any]], BinlogPosition]]:
    """Rows of (file, begin, kind, server id, end, info) from a place of a file on, and the place before which all have come.

    A page of less than `AT_ONCE` is the last. MySQL tells what is in a compressed transaction too, behind the event that holds
    it, and there begin and end are that event's end. MariaDB from 11.4 on tells no end (0) of a transaction's row events. A page
    that ends among these is followed by their number, from the last event whose end is known.
    """
    begin, skip = at.position, 0
    while True:
        cursor.execute(f"SHOW BINLOG EVENTS IN %s FROM {begin} LIMIT {skip}, {AT_ONCE}", [at.file])
        rows = cursor.fetchall()
        last = max((n for n, row in enumerate(rows) if row[1] < row[4]), default=None)
        if last is None:
            skip += len(rows)
        elif last < len(rows) - 1 or rows[last][2] == "Transaction_payload":
            begin, skip = rows[last][1], len(rows) - last
        else:
            begin, skip = rows[last][4], 0
        if rows:
            yield rows, BinlogPosition.of(at.file, begin)
        if len(rows) < AT_ONCE:
            return
