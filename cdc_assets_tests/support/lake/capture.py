"""A model of a PostgreSQL table and of what Debezium 3.7 sends for it, written from observed events (ADR 0003).

Independent of the code under test: the truth is a dict, changed the way PostgreSQL would (row locks, WAL positions at
the moment of writing, visibility at commit); the connector only looks at what is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass
class Change:
    lsn: int
    op: str
    before: int | None
    after: Row | None


@dataclass
class Record:
    """One Kafka record; offsets leave gaps where transaction markers are."""

    offset: int
    key: str | None
    value: str | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Transaction:
    number: int
    changes: list[Change] = field(default_factory=list)
    view: dict[int, Row | None] = field(default_factory=dict)


@dataclass
class Database:
    """One table `(id, v)`, any number of open transactions, a write-ahead log."""

    rows: dict[int, Row] = field(default_factory=dict)
    lsn: int = 1000
    open: dict[int, Transaction] = field(default_factory=dict)
    committed: list[tuple[int, Transaction]] = field(default_factory=list)
    serial: int = 0

    def write(self, session: int, op: str, key: int, other: int = 0) -> None:
        """An insert, update, delete or key change; nothing where PostgreSQL would block or refuse."""
        touched = [key, other] if op == "move" else [key]
        if any(k in t.view for s, t in self.open.items() if s != session for k in touched):
            return
        if session not in self.open:
            self.serial += 1
            self.open[session] = Transaction(self.serial)
        mine = self.open[session]
        now = mine.view.get(key, self.rows.get(key))
        self.serial += 1
        fresh = {"id": key, "v": f"v{self.serial}"}
        self.lsn += 40
        if op == "insert" and now is None:
            self._log(mine, "c", None, fresh)
        elif op == "update" and now is not None:
            self._log(mine, "u", None, fresh)
        elif op == "delete" and now is not None:
            self._log(mine, "d", key, None)
        elif op == "move" and now is not None and key != other and mine.view.get(other, self.rows.get(other)) is None:
            self._log(mine, "d", key, None)
            self._log(mine, "c", None, {**now, "id": other})

    def _log(self, mine: Transaction, op: str, before: int | None, after: Row | None) -> None:
        mine.changes.append(Change(self.lsn, op, before, after))
        if after is None:
            assert before is not None
            mine.view[before] = None
        else:
            mine.view[after["id"]] = after

    def commit(self, session: int) -> None:
        mine = self.open.pop(session, None)
        if mine is None:
            return
        for key, row in mine.view.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row
        self.lsn += 16
        if mine.changes:
            self.committed.append((self.lsn, mine))

    def rollback(self, session: int) -> None:
        self.open.pop(session, None)


@dataclass
class Connector:
    """Turns what is committed into records of one topic partition, in the order that Debezium sends them."""

    database: Database
    records: list[Record] = field(default_factory=list)
    next_offset: int = 0
    last_commit: int | None = None
    streamed: int = 0
    replayable: list[tuple[str | None, str | None]] = field(default_factory=list)

    def snapshot(self, *, blocking: bool = False, rows: int | None = None) -> None:
        """A full snapshot; with `rows`, one that dies after so many."""
        self.stream()
        self.replayable.clear()
        self.database.lsn += 8
        at = self.database.lsn
        sequence = [str(at), str(at)] if blocking else [None, str(at)]
        for row in list(self.database.rows.values())[:rows]:
            self._event("r", None, row, lsn=at, sequence=sequence, snapshot="true")
        self.last_commit = at if blocking else None
        self.replayable.clear()
        self._marker()

    def incremental(self) -> None:
        """Rows read again while streaming, as one window."""
        self.stream()
        if self.last_commit is None:
            return
        for row in list(self.database.rows.values()):
            place = [str(self.last_commit), str(self.last_commit)]
            self._event("r", None, row, lsn=None, sequence=place, snapshot="incremental")
        self._marker()

    def stream(self) -> None:
        for end, transaction in self.database.committed[self.streamed :]:
            place = None if self.last_commit is None else str(self.last_commit)
            for change in transaction.changes:
                where = [place, str(change.lsn)]
                self._event(change.op, change.before, change.after, lsn=change.lsn, sequence=where, tx=transaction.number)
            self._marker()
            self.last_commit = end
        self.streamed = len(self.database.committed)

    def replay(self, count: int) -> None:
        """The worker died before its offsets were stored: the last records come again, all up to the end."""
        again = self.replayable[-count:] if count else []
        for key, value in again:
            self._append(key, value)
        self._marker()

    def _event(
        self,
        op: str,
        before: int | None,
        after: Row | None,
        *,
        lsn: int | None,
        sequence: list[str | None],
        tx: int = 0,
        snapshot: str = "false",
    ) -> None:
        source = {"lsn": lsn, "sequence": json.dumps(sequence), "txId": tx, "ts_us": 1_700_000_000_000_000, "snapshot": snapshot}
        key = before if after is None else after["id"]
        value = {"op": op, "before": None if before is None else {"id": before, "v": None}, "after": after, "source": source}
        self._send(json.dumps({"id": key}), json.dumps(value))
        if op == "d":
            self._send(json.dumps({"id": key}), None)

    def _send(self, key: str | None, value: str | None) -> None:
        self.replayable.append((key, value))
        self._append(key, value)

    def _append(self, key: str | None, value: str | None) -> None:
        self.records.append(Record(self.next_offset, key, value))
        self.next_offset += 1

    def _marker(self) -> None:
        self.next_offset += 1
