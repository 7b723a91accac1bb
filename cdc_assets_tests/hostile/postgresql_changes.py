"""What happens to a world's tables: statements of several sessions, crossed, with savepoints, prepared and given up.

One thread drives all sessions, so that a seed is played the same way again; a row that another holds is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
from psycopg import errors

from cdc_assets_tests.hostile.postgresql_tables import ROWS, Column, Table
from cdc_assets_tests.hostile.postgresql_values import TWINS

ACTS = {
    "insert": 12,
    "update": 14,
    "touch": 2,
    "delete": 6,
    "move": 5,
    "swap": 3,
    "twin": 4,
    "upsert": 3,
    "again": 2,
    "savepoint": 5,
    "commit": 14,
    "rollback": 3,
    "prepare": 2,
    "truncate": 0.4,
}
_REFUSED = (
    *(errors.LockNotAvailable, errors.UniqueViolation, errors.DeadlockDetected, errors.ProgramLimitExceeded),
    *(errors.CheckViolation, errors.NumericValueOutOfRange, errors.ObjectInUse, errors.SerializationFailure),
    *(errors.StringDataRightTruncation, errors.ObjectNotInPrerequisiteState, errors.ConfigurationLimitExceeded),
)
"""What a client would give its transaction up for."""


class Sessions:
    """Several connections, and the transactions that they have prepared."""

    def __init__(self, random: Random, connect: Callable[[], psycopg.Connection], schema: str) -> None:
        self.random, self._connect, self._schema = random, connect, schema
        self.open: list[psycopg.Connection] = []
        self.prepared: list[str] = []
        self.acts: dict[str, int] = {}
        self._serial = 0
        self.reopen()

    def reopen(self) -> None:
        """New ones, after the server was restarted; what was prepared is still there."""
        for session in self.open:
            with suppress(psycopg.Error):
                session.close()
        self.open = [self._connect() for _ in range(3)]
        for session in self.open:
            session.execute("SELECT set_config('search_path', quote_ident(%s) || ', public', false)", [self._schema])
            session.execute("SET lock_timeout = '40ms'")
            session.commit()

    def close(self) -> None:
        """Nothing stays open that the next slot would wait for."""
        for session in self.open:
            with suppress(psycopg.Error):
                session.close()
        with self._connect() as connection:
            connection.autocommit = True
            for name in self.prepared:
                connection.execute(f"ROLLBACK PREPARED '{name}'".encode())

    def step(self, tables: Sequence[Table], *, truncate: bool = True) -> None:
        """One act on one table, in one session."""
        session, table = self.random.choice(self.open), self.random.choice(tables)
        acts = {name: weight for name, weight in ACTS.items() if truncate or name != "truncate"}
        self.act(session, table, self.random.choices([*acts], [*acts.values()])[0])

    def act(self, session: psycopg.Connection, table: Table, act: str) -> None:
        """A refused statement ends the transaction, or only the savepoint before it."""
        guarded = self.random.random() < 0.5
        try:
            if act in ("commit", "rollback", "prepare"):
                self._end(session, act)
            else:
                statements = self._statements(table, act)
                if guarded:
                    session.execute("SAVEPOINT guard")
                for statement in statements:
                    session.execute(statement.encode())
                if act == "savepoint":
                    session.execute(self.random.choice((b"ROLLBACK TO SAVEPOINT s", b"RELEASE SAVEPOINT s")))
            self.acts[act] = self.acts.get(act, 0) + 1
        except _REFUSED as error:
            self.acts[type(error).__name__] = self.acts.get(type(error).__name__, 0) + 1
            session.execute("ROLLBACK TO SAVEPOINT guard") if guarded and act not in ("prepare",) else session.rollback()

    def finish(self) -> None:
        """Every transaction ends, one way or the other."""
        for session in self.open:
            session.commit() if self.random.random() < 0.8 else session.rollback()
        while self.prepared:
            self._decide(self.open[0])

    def _end(self, session: psycopg.Connection, act: str) -> None:
        if act != "prepare":
            getattr(session, act)()
            if self.prepared and self.random.random() < 0.5:
                self._decide(session)
            return
        if len(self.prepared) < 2:
            self._serial += 1
            name = f"{self._schema[-8:]}'{self._serial}".replace("'", "''")
            session.execute(f"PREPARE TRANSACTION '{name}'".encode())
            session.rollback()
            asked = "SELECT FROM pg_prepared_xacts WHERE gid = %s"
            if session.execute(asked, [name.replace("''", "'")]).fetchone() is not None:
                self.prepared.append(name)
        session.rollback()

    def _decide(self, session: psycopg.Connection) -> None:
        session.commit()
        session.autocommit = True
        verb = "COMMIT" if self.random.random() < 0.7 else "ROLLBACK"
        session.execute(f"{verb} PREPARED '{self.prepared.pop()}'".encode())
        session.autocommit = False

    def _statements(self, table: Table, act: str) -> list[str]:
        random = self.random
        if act == "insert" or (table.appends and act != "savepoint"):
            return [table.insert(random, random.choice((1, 1, 2, 7)))]
        if act == "update":
            changed = random.sample(table.others, min(len(table.others), random.choice((1, 2, 5))))
            return [_update(table, random, {c: table.value(random, c) for c in changed})] if changed else []
        if act == "touch":
            column = random.choice(table.columns)
            return [f"UPDATE {table.sql} SET {column.sql} = {column.sql}"]
        if act == "delete":
            return [f"DELETE FROM {table.sql} WHERE {some(table, random)}"]
        if act == "savepoint":
            return ["SAVEPOINT s", *(s for _ in range(2) for s in self._statements(table, random.choice(("insert", "update"))))]
        if act == "truncate":
            return [f"TRUNCATE {table.sql}", table.insert(random, 3)]
        return _of_keys(table, random, act)


def _of_keys(table: Table, random: Random, act: str) -> list[str]:
    keyed = [c for c in table.columns if c.key]
    if not keyed:
        return [table.insert(random, 1)]
    column = random.choice(keyed)
    one, two = column.key.format(n=random.randint(1, ROWS)), column.key.format(n=random.randint(1, ROWS))
    if act == "move":
        return [_update(table, random, {column: two})]
    if act == "swap":
        away = column.key.format(n=ROWS + 1)
        put = "UPDATE {t} SET {c} = {new} WHERE {c} = {old}"
        return [put.format(t=table.sql, c=column.sql, new=n, old=o) for o, n in ((one, away), (two, one), (away, two))]
    if act == "again":
        # The same key goes and comes within one transaction.
        return [f"DELETE FROM {table.sql} WHERE {column.sql} = {one}", *(table.insert(random, 5) for _ in range(2))]
    if act == "twin" and column.type in TWINS:
        return [_update(table, random, {column: TWINS[column.type].format(c=column.sql)})]
    if act == "upsert" and table.others and table.shape != "indexed":
        other, listed = random.choice(table.others), ", ".join(c.sql for c in table.columns if c.name in table.keys)
        values = ", ".join(table.value(random, c) for c in table.columns)
        into = f"INSERT INTO {table.sql} ({', '.join(c.sql for c in table.columns)}) VALUES ({values})"
        return [f"{into} ON CONFLICT ({listed}) DO UPDATE SET {other.sql} = excluded.{other.sql}"]
    return [table.insert(random, 1)]


def some(table: Table, random: Random) -> str:
    """A condition that holds for some rows, the same whenever the seed is played."""
    return f"md5({random.randint(0, 10**6)} || t::text) < '{random.choice('0112f'):0<2}'".replace("t::text", _row(table))


def _row(table: Table) -> str:
    return f"concat_ws(',', {', '.join(f'{c.sql}::text' for c in table.columns)})"


def _update(table: Table, random: Random, values: dict[Column, Any]) -> str:
    changed = ", ".join(f"{c.sql} = {v}" for c, v in values.items())
    return f"UPDATE {table.sql} SET {changed} WHERE {some(table, random)}"
