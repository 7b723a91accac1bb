"""Random histories played on a real PostgreSQL: worlds of a few keys each, several sessions in every table.

A world is a range of keys of one table: what happens to its rows is one history, independent of the other worlds' but
for what concerns the whole table (TRUNCATE, snapshots). Sessions of a table leave transactions open across each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors, sql

from cdc_assets_tests.support.histories.alter import Definition, now
from cdc_assets_tests.support.histories.tables import KINDS, LARGE, Kind
from spark.specs import Column

KEYS = 5
SESSIONS = 3
ACTS = {
    "insert": 14,
    "update": 14,
    "enlarge": 5,
    "delete": 6,
    "move": 5,
    "swap": 2,
    "copy": 2,
    "many": 3,
    "savepoint": 3,
    "commit": 12,
    "rollback": 4,
}


@dataclass
class Player:
    """One table and its sessions."""

    name: str
    kind: Kind
    worlds: int
    choice: random.Random
    sessions: Sequence[psycopg.Connection]
    catalogue: Callable[[], tuple[Column, ...]]
    definition: Definition = field(init=False)
    serial: int = 0
    unknown: bool = False
    """Whether silver may not know of the rows from before what they have in an added column: the check `schema` warns then,
    and the table is read again (docs/explanation/schema-changes.md)."""
    acts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.definition = Definition([self.catalogue()])

    def did(self, act: str) -> None:
        """Counts it."""
        self.acts[act] = self.acts.get(act, 0) + 1

    def step(self, *, ends: bool = True) -> None:
        """One statement, or (`ends`) the end of a transaction, in one session."""
        session = self.choice.choice(self.sessions)
        acts = {act: weight for act, weight in ACTS.items() if ends or act != "commit"}
        act = self.choice.choices([*acts], [*acts.values()])[0]
        try:
            self._act(session, act)
            self.did(act)
        except (errors.LockNotAvailable, errors.UniqueViolation, errors.DeadlockDetected):
            # What a client would do: give the transaction up.
            session.rollback()
            self.did("refused")

    def finish(self) -> None:
        """Every open transaction ends, one way or the other."""
        for session in self.sessions:
            session.commit() if self.choice.random() < 0.7 else session.rollback()

    def truncate(self) -> None:
        """Rows that are there are gone; a session goes on in the same transaction."""
        self.finish()
        session = self.choice.choice(self.sessions)
        # Debezium may be reading the table.
        session.execute("SET LOCAL lock_timeout = '20s'")
        self._do(session, "TRUNCATE {t}")
        self._insert(session, self._key())
        session.commit() if self.choice.random() < 0.8 else session.rollback()
        self.did("truncate")

    def alter(self) -> None:
        """Another definition, in a transaction that also writes."""
        self.finish()
        session, at = self.choice.choice(self.sessions), now()
        session.execute("SET LOCAL lock_timeout = '20s'")
        if self.choice.random() < 0.5:
            self._insert(session, self._key())
        change = self.definition.change(self.choice)
        self._do(session, f"ALTER TABLE {{t}} {change}")
        self._do(session, "UPDATE {t} SET v = %s WHERE id = %s", self._value(), self._key())
        kept = self.choice.random() < 0.8
        session.commit() if kept else session.rollback()
        if kept:
            self.definition.changed(self.catalogue, at)
            self.unknown = self.unknown or self.definition.rewritten()
        self.did(change.split()[0].lower() if kept else "alter undone")

    def _act(self, session: psycopg.Connection, act: str) -> None:
        key = self._key()
        if act in ("commit", "rollback"):
            getattr(session, act)()
        elif act == "insert":
            self._insert(session, key)
        elif act == "many":
            for other in range(key - key % KEYS, key - key % KEYS + KEYS):
                self._insert(session, other)
        elif act == "copy":
            self._copy(session, key)
        elif act == "update":
            self._update(session, key)
        elif act == "enlarge":
            self._enlarge(session, key)
        elif act == "delete":
            self._do(session, "DELETE FROM {t} WHERE id = %s", key)
        elif act == "move":
            self._do(session, "UPDATE {t} SET id = %s WHERE id = %s", key - key % KEYS + self.choice.randrange(KEYS), key)
        elif act == "swap":
            self._swap(session, key)
        elif act == "savepoint":
            self._do(session, "SAVEPOINT s")
            self._insert(session, key)
            self._do(session, "UPDATE {t} SET v = %s WHERE id = %s", self._value(), key)
            self._do(session, "ROLLBACK TO SAVEPOINT s" if self.choice.random() < 0.6 else "RELEASE SAVEPOINT s")

    def _key(self) -> int:
        return KEYS * self.choice.randrange(self.worlds) + self.choice.randrange(KEYS)

    def _value(self) -> str:
        self.serial += 1
        return f"{self.name}-{self.serial}"

    def _row(self, key: int, more: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {"id": key, "v": self._value(), **more}
        for column in self.kind.columns:
            if column.name in self.kind.large:
                values[column.name] = self._large(column.source_type) if self.choice.random() < 0.8 else None
            elif column.name == "part":
                values["part"] = "p"
            elif column.name == "n":
                values["n"] = f"{self.serial}.125"
            elif column.name == "at":
                values["at"] = "2026-01-01 00:00:00.000001+00"
        return values

    def _large(self, kind: str) -> Any:
        text = (self._value() + " ") * (LARGE // (len(self.name) + 4))
        return {"text": text, "bytea": text.encode(), "text[]": [text, "x"]}[kind]

    def _insert(self, session: psycopg.Connection, key: int) -> None:
        row = self._row(key, self.definition.values(self.choice, self.serial))
        names = sql.SQL(", ").join(map(sql.Identifier, row))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(row))
        statement = sql.SQL("INSERT INTO {t} ({names}) VALUES ({places}) ON CONFLICT DO NOTHING")
        session.execute(statement.format(t=sql.Identifier(self.name), names=names, places=places), [*row.values()])

    def _update(self, session: psycopg.Connection, key: int) -> None:
        added = self.definition.added()
        if not added or self.choice.random() < 0.5:
            self._do(session, "UPDATE {t} SET v = %s WHERE id = %s", self._value(), key)
            return
        column = self.choice.choice(added)
        value = self.definition.value(column, self.serial)
        self._do(session, f"UPDATE {{t}} SET {column.name} = %s WHERE id = %s", value, key)

    def _copy(self, session: psycopg.Connection, key: int) -> None:
        first = key - key % KEYS
        self._do(session, "DELETE FROM {t} WHERE id >= %s AND id < %s", first, first + KEYS)
        more = self.definition.values(self.choice, self.serial)
        rows = [self._row(other, more) for other in range(first, first + KEYS)]
        names = sql.SQL(", ").join(map(sql.Identifier, rows[0]))
        statement = sql.SQL("COPY {t} ({names}) FROM STDIN").format(t=sql.Identifier(self.name), names=names)
        with session.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([*row.values()])

    def _enlarge(self, session: psycopg.Connection, key: int) -> None:
        if not self.kind.large:
            return
        name = self.choice.choice(self.kind.large)
        (source_type,) = [c.source_type for c in self.kind.columns if c.name == name]
        value = self._large(source_type) if self.choice.random() < 0.7 else None
        statement = sql.SQL("UPDATE {t} SET {c} = %s WHERE id = %s").format(t=sql.Identifier(self.name), c=sql.Identifier(name))
        session.execute(statement, [value, key])

    def _swap(self, session: psycopg.Connection, key: int) -> None:
        first, second, away = key, key - key % KEYS + (key + 1) % KEYS, -1 - key
        for old, new in ((first, away), (second, first), (away, second)):
            self._do(session, "UPDATE {t} SET id = %s WHERE id = %s", new, old)

    def _do(self, session: psycopg.Connection, text: str, *values: Any) -> None:
        session.execute(sql.SQL(text).format(t=sql.Identifier(self.name)), values)  # type: ignore[arg-type]


def kind_of(table: str) -> Kind:
    """By the table's name: `toasted_3`."""
    return KINDS[table.rpartition("_")[0]]
