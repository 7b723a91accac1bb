"""What capture needs of a binlog besides its server's catalogue: the signal table, and which statements change a definition.

A connector reads the whole binlog and picks its tables: nothing is published, and no writer has to be awaited, since a
transaction lies in the binlog as a whole, where it commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases import binlog_images
from cdc_assets.resources.databases.binlog_events import pages
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.binlog_signals import BinlogSignals
from spark.delta.identifiers import quote

_USE = re.compile(r"^use `(?:[^`]|``)*`; ", re.IGNORECASE)
_NO_DEFINITION = re.compile(r"^(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|XA|FLUSH)\b", re.IGNORECASE)


class BinlogCapture(BinlogSignals):
    """One source server, as its connector sees it."""

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to, or see that signals and watermarks may be written to it and removed.

        Raises:
            DatabaseError: the role may not; names the statements for somebody who may.
        """
        super().ensure_signal_table(table)
        name = quote(*table)
        with self.connection() as cursor, self._explain_refusal(table):
            cursor.execute(f"INSERT INTO {name} SELECT * FROM {name} WHERE FALSE")
            cursor.execute(f"DELETE FROM {name} WHERE FALSE")

    def clear_signals(self, table: TableId) -> int:
        """Remove signals and watermarks that have been read; the number of rows."""
        with self.connection() as cursor, self._explain_refusal(table):
            return int(cursor.execute(f"DELETE FROM {quote(*table)}"))

    def tables_with_compression(self, ids: Sequence[TableId], since: BinlogPosition, *, seconds: float = 300.0) -> set[TableId]:
        """Which of these tables have rows with COMPRESSED columns behind a place of the binlog (MariaDB).

        Raises:
            DatabaseError: the binlog was not read to its end in time.
        """
        with self.connection() as cursor:
            found = binlog_images.tables_with_compression(cursor, {(i.schema, i.table): i for i in ids}, since, seconds=seconds)
        if found is None:
            raise DatabaseError(f"the binlog from {since.text} on was not read: {seconds:.0f} s were over; try it again")
        return found

    def place_now(self) -> BinlogPosition:
        """Where the binlog ends."""
        with self.connection() as cursor:
            return self._position(cursor)

    def pending_transactions(self) -> dict[str, str]:
        """Transactions that are prepared (XA) and wait for their COMMIT; whose they are is not told."""
        with self.connection() as cursor:
            cursor.execute("XA RECOVER")
            ids = [f"{row[0]}/{row[1]}/{row[3]!r}" for row in cursor.fetchall()]
        return {each: f"a prepared transaction (XA RECOVER: {each})" for each in ids}

    def definition_changes(self, ids: Sequence[TableId], since: BinlogPosition, until: BinlogPosition) -> list[str]:
        """Statements between two places of the binlog that name one of the tables, or a database of theirs as a whole.

        Raises:
            DatabaseError: a file of them is gone.
        """
        return [info for _, info in self._statements(since, until) if any(_names(info, table) for table in ids)]

    def find_statement(self, part: str, since: BinlogPosition) -> tuple[BinlogPosition, str] | None:
        """The first statement from a place of the binlog on that holds this text, whatever blanks it has, and its place.

        Raises:
            DatabaseError: a file of them is gone.
        """
        wanted = " ".join(part.split())
        return next((found for found in self._statements(since, self.place_now()) if wanted in " ".join(found[1].split())), None)

    def _statements(self, since: BinlogPosition, until: BinlogPosition) -> Iterator[tuple[BinlogPosition, str]]:
        with self.connection() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            files = [row[0] for row in cursor.fetchall()]
            if since.file not in files:
                raise DatabaseError(f"{self.NAME} at {self.place}: {since.file} is gone; its statements cannot be looked at")
            for file in files:
                if since.number <= BinlogPosition.of(file, 0).number <= until.number:
                    yield from _of_file(cursor, since if file == since.file else BinlogPosition.of(file, 4), until)


def _of_file(cursor: Any, at: BinlogPosition, until: BinlogPosition) -> Iterator[tuple[BinlogPosition, str]]:
    for rows, _ in pages(cursor, at):
        for file, begin, kind, _, _, info in rows:
            if BinlogPosition.of(file, begin) >= until:
                return
            if kind.startswith("Query"):
                yield BinlogPosition.of(file, begin), _USE.sub("", info)


def _names(statement: str, table: TableId) -> bool:
    if _NO_DEFINITION.match(statement):
        return False
    whole = re.search(r"\b(DATABASE|SCHEMA)\b", statement, re.IGNORECASE)
    return _holds(statement, table.table) or (bool(whole) and _holds(statement, table.schema))


def _holds(statement: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", statement, re.IGNORECASE) is not None
