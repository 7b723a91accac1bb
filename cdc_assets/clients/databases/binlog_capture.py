"""What capture needs of a binlog besides its server's catalogue: the signal table, and which statements change a definition.

A connector reads the whole binlog and picks its tables: nothing is published, and no writer has to be awaited, since a
transaction lies in the binlog as a whole, where it commits.

Through the signal table a connector is asked to read some rows again. It writes its watermarks there as well, so its role needs
INSERT. Where a role may not create tables it is said what to run.

SHOW BINLOG EVENTS is asked for some events at a time: commits may have to wait while it answers.
https://mariadb.com/kb/en/show-binlog-events/ , https://dev.mysql.com/doc/refman/9.7/en/show-binlog-events.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogDatabase, BinlogPosition
from cdc_assets.clients.databases.binlog_events import tables_with_compression
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import quote

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


_COLUMNS = "id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data longtext"


class BinlogSignals(BinlogDatabase):
    """A source's database, written to for its connector."""

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to, in a database of its own.
        Raises DatabaseError: the role may not; names the statements for somebody who may."""
        query = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        with self.connection() as cursor:
            cursor.execute(query, list(table))
            if cursor.fetchone()[0]:
                return
            with self._explain_refusal(table):
                for statement in _create_statements(table):
                    cursor.execute(statement)

    def send_signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Write a signal, once: the same id again changes nothing. Raises DatabaseError: as `ensure_signal_table`."""
        with self.connection() as cursor, self._explain_refusal(table):
            cursor.execute(f"INSERT IGNORE INTO {quote(*table)} VALUES (%s, %s, %s)", [signal, kind, data])

    def plan_reading(self, table: TableId, condition: str) -> None:
        """Plan a reading of the rows that a condition (SQL) names; nothing is read.
        Raises DatabaseError: the condition is no single condition on the table's columns, or the role may not read it."""
        with self.connection() as cursor:
            cursor.execute(f"EXPLAIN SELECT 1 FROM {quote(*table)} WHERE {condition}")

    @contextmanager
    def _explain_refusal(self, table: TableId) -> Iterator[Any]:
        import pymysql

        try:
            yield
        except pymysql.err.MySQLError as error:
            granted = f"GRANT SELECT, INSERT, DELETE ON {quote(*table)} TO '{self.user}'@'%'"
            raise DatabaseError(
                f"{self.NAME} at {self.place}: {error.args[-1]}; let somebody who may run, while the connector runs: "
                f"{'; '.join((*_create_statements(table), granted))}"
            ) from error


def _create_statements(table: TableId) -> tuple[str, ...]:
    return f"CREATE DATABASE IF NOT EXISTS {quote(table.schema)}", f"CREATE TABLE IF NOT EXISTS {quote(*table)} ({_COLUMNS})"


_USE = re.compile(r"^use `(?:[^`]|``)*`; ", re.IGNORECASE)
_NO_DEFINITION = re.compile(r"^(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|XA|FLUSH)\b", re.IGNORECASE)


class BinlogCapture(BinlogSignals):
    """One source server, as its connector sees it."""

    def ensure_signal_table(self, table: TableId) -> None:
        """Make the table that signals are written to, or see that signals and watermarks may be written to it and removed.
        Raises DatabaseError: the role may not; names the statements for somebody who may."""
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
        Raises DatabaseError: the binlog was not read to its end in time."""
        with self.connection() as cursor:
            found = tables_with_compression(cursor, {(i.schema, i.table): i for i in ids}, since, seconds=seconds)
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
        return {transaction: f"a prepared transaction (XA RECOVER: {transaction})" for transaction in ids}

    def definition_changes(self, ids: Sequence[TableId], since: BinlogPosition, until: BinlogPosition) -> list[str]:
        """Statements between two places of the binlog that name one of the tables, or a database of theirs as a whole.
        Raises DatabaseError: a file of them is gone."""
        return [info for _, info in self._statements(since, until) if any(_names(info, table) for table in ids)]

    def find_statement(self, part: str, since: BinlogPosition) -> tuple[BinlogPosition, str] | None:
        """The first statement from a place of the binlog on that holds this text, whatever blanks it has, and its place.
        Raises DatabaseError: a file of them is gone."""
        text = " ".join(part.split())
        return next((entry for entry in self._statements(since, self.place_now()) if text in " ".join(entry[1].split())), None)

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
