"""A look through a binlog between two places, within some seconds: it tells how far it came, and what it did not read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from cdc_assets.resources.databases import binlog_events
from cdc_assets.resources.databases.binlog_position import BinlogPosition

Row = Sequence[Any]
"""(file, begin, kind, server id, end, info), as SHOW BINLOG EVENTS answers."""
_TRANSACTION_KINDS = ("Gtid", "Anonymous_Gtid")


class BinlogScan:
    """The events of a look, page by page. `read_to`: all before it has been read; `unread` says in words what has not."""

    def __init__(self, cursor: Any, since: BinlogPosition, until: BinlogPosition, *, seconds: float) -> None:
        self._cursor, self._since, self._until, self._seconds = cursor, since, until, seconds
        self.read_to = since
        self.unread = ""

    def __iter__(self) -> Iterator[list[Row]]:
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
            asked = time.monotonic()
            begin = self._since if file == self._since.file else BinlogPosition.of(file, 4)
            for rows, at in binlog_events.pages(self._cursor, begin):
                yield [row for row in rows if BinlogPosition.of(file, row[4] or row[1] + 1) <= self._until]
                if at >= self._until or len(rows) < binlog_events.AT_ONCE:
                    break
                # Behind the look's own begin: else the next one would end here too.
                ends = [row[1] for row in rows if row[2] in _TRANSACTION_KINDS and BinlogPosition.of(file, row[1]) > self._since]
                if ends and time.monotonic() - started > self._seconds:
                    self.read_to = BinlogPosition.of(file, ends[-1])
                    self.unread = f"the binlog from {self.read_to.text} to {self._until.text} was not read: "
                    self.unread += f"{self._seconds:.0f} s were over"
                    return
                # As long as it was held up: commits get their turn.
                time.sleep(min(0.1, time.monotonic() - asked))
                asked = time.monotonic()
        self.read_to = self._until

    def _files(self) -> list[str]:
        self._cursor.execute("SHOW BINARY LOGS")
        known = [row[0] for row in self._cursor.fetchall()]
        return [f for f in known if self._since.number <= BinlogPosition.of(f, 0).number <= self._until.number]
