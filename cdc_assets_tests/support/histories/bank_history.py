"""A bank in several tables between which money moves, as Debezium sends the transactions of PostgreSQL.

Transactions overlap: the order of writing is not the order of commits. An account may move to another table as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from cdc_assets_tests.support.lake.capture import Record
from spark.record_formats import CommitPlace, behind_commit

Place = tuple[str, int]
Rows = dict[str, dict[int, int]]
MONEY = 1_000


@dataclass
class Change:
    """An account's new balance; None: it is gone from its table."""

    at: Place
    op: str
    balance: int | None
    lsn: int = 0


@dataclass
class Transfer:
    number: int
    waiting: list[Change]
    written: list[Change] = field(default_factory=list)


@dataclass
class Marked:
    """A place of the log, and what the tables held there."""

    place: CommitPlace
    rows: Rows


@dataclass
class BankHistory:
    choice: Random
    tables: Sequence[str]
    accounts: int = 4
    rows: Rows = field(default_factory=dict)
    log: dict[str, list[Record]] = field(default_factory=dict)
    lsn: int = 1_000
    last_commit: int | None = None
    serial: int = 0
    open: dict[int, Transfer] = field(default_factory=dict)
    sent: list[tuple[str, str, str | None]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open accounts, and a first snapshot while a transaction is open."""
        for table in self.tables:
            self.rows[table] = dict.fromkeys(range(self.accounts), MONEY)
            self.log[table], self.offsets[table] = [], 0
        self.serial = self.accounts
        self.begin()
        self.write()
        self.lsn += 8
        at = self.lsn
        for table, rows in self.rows.items():
            for key, balance in rows.items():
                self._send(table, "r", key, balance, at, [None, str(at)], tx=0, snapshot="true")
        self._end_transaction()

    @property
    def total(self) -> int:
        return sum(balance for rows in self.rows.values() for balance in rows.values())

    def step(self) -> None:
        self.choice.choice([self.begin, self.write, self.write, self.commit, self.commit])()

    def begin(self) -> None:
        """Money between some accounts of different tables, or an account that moves."""
        free = [(t, k) for t, rows in self.rows.items() for k in rows if not self._is_locked((t, k))]
        self.choice.shuffle(free)
        if len(self.open) > 3 or len(free) < 3:
            return
        self.serial += 1
        (table, key), *others = free
        if self.choice.random() < 0.3:
            other = self.choice.choice([t for t in self.tables if t != table])
            changes = [Change((table, key), "d", None), Change((other, self.serial), "c", self.rows[table][key])]
        else:
            amount, rest = self.choice.randrange(1, 50), others[: self.choice.choice([1, 2])]
            changes = [Change((table, key), "u", self.rows[table][key] - amount * len(rest))]
            changes += [Change((t, k), "u", self.rows[t][k] + amount) for t, k in rest]
            self.choice.shuffle(changes)
        self.open[self.serial] = Transfer(self.serial, changes)

    def write(self) -> None:
        """One more change of a transaction that is open."""
        waiting = [transfer for transfer in self.open.values() if transfer.waiting]
        if waiting:
            transfer = self.choice.choice(waiting)
            self.lsn += 40
            change = transfer.waiting.pop(0)
            change.lsn = self.lsn
            transfer.written.append(change)

    def commit(self) -> None:
        """One that has written all; sometimes one is rolled back."""
        ready = [transfer for transfer in self.open.values() if not transfer.waiting]
        if not ready:
            return
        transfer = self.open.pop(self.choice.choice(ready).number)
        if self.choice.random() < 0.1:
            return
        for change in transfer.written:
            (table, key), told = change.at, [str(self.last_commit) if self.last_commit else None, str(change.lsn)]
            self._send(table, change.op, key, change.balance, change.lsn, told, tx=transfer.number)
            if change.balance is None:
                del self.rows[table][key]
            else:
                self.rows[table][key] = change.balance
        self._end_transaction()
        self.lsn += 16
        self.last_commit = self.lsn

    def mark(self) -> Marked | None:
        """A marker of ours goes through the log; None: no commit was streamed before it."""
        last, self.lsn = self.last_commit, self.lsn + 16
        self.last_commit = self.lsn
        return None if last is None else Marked(behind_commit(last), deepcopy(self.rows))

    def replay(self) -> None:
        """The connector was killed before its offsets were stored: the last records come again, in their order."""
        for table, key, value in self.sent[-self.choice.randrange(1, 12) :]:
            self._append(table, key, value)
        self._end_transaction()

    def _is_locked(self, place: Place) -> bool:
        return any(change.at == place for t in self.open.values() for change in (*t.waiting, *t.written))

    def _send(
        self,
        table: str,
        op: str,
        key: int,
        balance: int | None,
        lsn: int,
        sequence: list[str | None],
        *,
        tx: int,
        snapshot: str = "false",
    ) -> None:
        source = {"lsn": lsn, "sequence": json.dumps(sequence), "txId": tx, "ts_us": 1_700_000_000_000_000, "snapshot": snapshot}
        before = {"id": key, "v": None} if balance is None else None
        value = {"op": op, "before": before, "after": None if balance is None else {"id": key, "v": balance}, "source": source}
        own = json.dumps({"id": key})
        for text in (json.dumps(value), *([None] if balance is None else [])):
            self.sent.append((table, own, text))
            self._append(table, own, text)

    def _append(self, table: str, key: str, value: str | None) -> None:
        self.log[table].append(Record(self.offsets[table], key, value))
        self.offsets[table] += 1

    def _end_transaction(self) -> None:
        """Kafka's own marker takes an offset in each partition."""
        for table in self.tables:
            self.offsets[table] += 1
