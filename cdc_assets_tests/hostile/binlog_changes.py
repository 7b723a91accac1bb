"""What happens to a world's tables in MariaDB or MySQL: several sessions, crossed, with savepoints; DDL commits by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from random import Random
from typing import Any

import pymysql

from cdc_assets_tests.hostile.binlog_facts import CHANGED, BinlogFacts
from cdc_assets_tests.hostile.binlog_tables import ROWS, Column, Table
from cdc_assets_tests.hostile.names import column_names, ticked

ACTS = {
    "insert": 12,
    "replace": 4,
    "update": 14,
    "delete": 6,
    "move": 5,
    "swap": 3,
    "twin": 4,
    "upsert": 3,
    "again": 2,
    "savepoint": 5,
    "commit": 14,
    "rollback": 3,
    "truncate": 0.4,
    "rotate": 0.5,
    "set": 1.5,
}
_REFUSED = {1062, 1205, 1213, 1264, 1406, 1526, 1690, 1265, 1292, 1366, 1071, 3780, 1048}
"""Errors that a client would give its transaction up for: a key twice, a lock, a deadlock, a value out of range."""


class Sessions:
    """Several connections that write, each with variables of its own."""

    def __init__(self, random: Random, connect: Callable[[], pymysql.Connection[Any]], facts: BinlogFacts) -> None:
        self.random, self._connect, self._facts = random, connect, facts
        self.open: list[pymysql.Connection[Any]] = []
        self.acts: dict[str, int] = {}
        self.reopen()

    def reopen(self) -> None:
        """New ones, after the server was restarted."""
        for session in self.open:
            with suppress(pymysql.Error):
                session.close()
        self.open = [self._connect() for _ in range(3)]
        for session in self.open:
            # A row that another holds is not waited for; time zone and mode than the connector's.
            zone = self.random.choice(("+05:30", "-03:30", "+00:00"))
            waits = f"SET innodb_lock_wait_timeout = {self._facts.lock_wait}, lock_wait_timeout = 5"
            run(session, waits, f"SET time_zone = '{zone}'", *self._settings())

    def close(self) -> None:
        """Nothing stays open."""
        for session in self.open:
            with suppress(pymysql.Error):
                session.close()

    def step(self, tables: Sequence[Table], *, truncate: bool = True) -> None:
        """One act on one table, in one session."""
        session, table = self.random.choice(self.open), self.random.choice(tables)
        acts = {name: weight for name, weight in ACTS.items() if truncate or name != "truncate"}
        act = self.random.choices([*acts], [*acts.values()])[0]
        if act == "truncate":
            # It commits, and waits for every transaction that has used the table.
            self.finish()
        if act == "set":
            # Most variables take no other value within a transaction.
            session.commit()
        try:
            if act in ("commit", "rollback"):
                getattr(session, act)()
            else:
                run(session, *self._statements(table, act))
            self.acts[act] = self.acts.get(act, 0) + 1
        except pymysql.err.MySQLError as error:
            if error.args[0] not in _REFUSED:
                raise
            self.acts[str(error.args[0])] = self.acts.get(str(error.args[0]), 0) + 1
            session.rollback()

    def finish(self) -> None:
        """Every transaction ends, one way or the other."""
        for session in self.open:
            session.commit() if self.random.random() < 0.8 else session.rollback()

    def _settings(self) -> list[str]:
        return [
            f"SET SESSION {setting}" for setting in self.random.sample(self._facts.settings, min(2, len(self._facts.settings)))
        ]

    def _statements(self, table: Table, act: str) -> list[str]:
        random = self.random
        if act == "rotate":
            return ["FLUSH BINARY LOGS"]
        if act == "set":
            return self._settings()
        if act == "truncate":
            return [f"TRUNCATE TABLE {table.sql}", table.insert(random, 3)]
        if act == "insert" or (table.shape == "appended" and act != "savepoint"):
            return [table.insert(random, random.choice((1, 1, 2, 7)))]
        if act == "replace":
            return [table.insert(random, 2, "REPLACE")]
        if act == "update":
            changed = random.sample(table.others, min(len(table.others), random.choice((1, 2, 5))))
            return [_update(table, random, {c: table.value(random, c) for c in changed})]
        if act == "delete":
            return [f"DELETE FROM {table.sql} WHERE {_some(table, random)}"]
        if act == "savepoint":
            within = [s for _ in range(2) for s in self._statements(table, random.choice(("insert", "update")))]
            return ["SAVEPOINT s", *within, random.choice(("ROLLBACK TO SAVEPOINT s", "RELEASE SAVEPOINT s"))]
        return _of_keys(table, random, act)


def run(session: pymysql.Connection[Any], *statements: str) -> None:
    """One after the other."""
    with session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _of_keys(table: Table, random: Random, act: str) -> list[str]:
    column = random.choice([c for c in table.columns if c.key])
    one, two = column.key.format(n=random.randint(1, ROWS)), column.key.format(n=random.randint(1, ROWS))
    if act == "move":
        return [_update(table, random, {column: two})]
    if act == "swap":
        away = column.key.format(n=ROWS + 1)
        pairs = ((one, away), (two, one), (away, two))
        return [f"UPDATE {table.sql} SET {column.sql} = {new} WHERE {column.sql} = {old}" for old, new in pairs]
    if act == "again":
        return [f"DELETE FROM {table.sql} WHERE {column.sql} = {one}", *(table.insert(random, 5) for _ in range(2))]
    if act == "twin" and column.type in table.facts.twins:
        return [_update(table, random, {column: table.facts.twins[column.type].format(c=column.sql)})]
    if act == "upsert":
        other = random.choice(table.others)
        return [f"{table.insert(random, 2, 'INSERT')} ON DUPLICATE KEY UPDATE {other.sql} = VALUES({other.sql})"]
    return [table.insert(random, 1)]


def _some(table: Table, random: Random) -> str:
    """A condition that holds for some rows, the same whenever the seed is played."""
    row = ", ".join(f"HEX({c.sql})" for c in table.columns)
    return f"SHA2(CONCAT_WS(',', {random.randint(0, 10**6)}, {row}), 256) < '{random.choice('0112f'):0<2}'"


def _update(table: Table, random: Random, values: dict[Column, str]) -> str:
    changed = ", ".join(f"{c.sql} = {v}" for c, v in values.items())
    return f"UPDATE IGNORE {table.sql} SET {changed} WHERE {_some(table, random)}"


def alter(sessions: Sessions, table: Table) -> str:
    """One change of the table, between writes; which, or '' where none was possible."""
    random, before = sessions.random, [copy(column) for column in table.columns]
    sessions.finish()
    session = random.choice(sessions.open)
    # A rename is told from a drop and an add by a declaration, or by rows that come again (docs/explanation/schema-changes.md).
    ways = [_add, _drop] if table.shape == "appended" else [_add, _drop, _rename, _retype]
    change = random.choice([*ways, _part] if table.shape == "partitioned" else ways)
    run(session, table.insert(random, 2))
    statements = change(table, random)
    try:
        run(session, *statements, table.insert(random, 2))
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _REFUSED:
            raise
        table.columns = before
        session.rollback()
        return f"{change.__name__.strip('_')} refused"
    if table.shape != "appended":
        # No event tells of the rows that the change has rewritten, and an UPDATE to the same value is none here.
        run(session, "COMMIT", f"CREATE TEMPORARY TABLE held AS SELECT * FROM {table.sql}", f"DELETE FROM {table.sql}")
        run(session, f"INSERT INTO {table.sql} SELECT * FROM held", "DROP TEMPORARY TABLE held")
    session.commit()
    return change.__name__.strip("_") if statements else ""


def _free(table: Table) -> list[Column]:
    """Which may be altered: Debezium finds no column whose name has a backtick (docs/reference/mariadb.md)."""
    return [c for c in table.others if not c.settled and "`" not in c.name]


def _name(table: Table, random: Random) -> str:
    while True:
        (name,) = column_names(random, 1, kind=table.facts.kind, taken=(*(c.name for c in table.columns), *table.gone))
        if "`" not in name:
            return name


def _add(table: Table, random: Random) -> list[str]:
    column = Column(_name(table, random), random.choice(table.facts.added))
    table.columns.append(column)
    first = table.columns[0]
    place = random.choice((" FIRST", "" if "`" in first.name else f" AFTER {first.sql}", ""))
    return [f"ALTER TABLE {table.sql} ADD {column.sql} {column.type} NULL{place}"]


def _drop(table: Table, random: Random) -> list[str]:
    if len(free := _free(table)) < 2:
        return []
    column = random.choice(free)
    table.columns.remove(column)
    if table.shape == "appended":
        # Nothing tells its values from those of a new column of its name (docs/explanation/schema-changes.md).
        table.gone.append(column.name)
    return [f"ALTER TABLE {table.sql} DROP {column.sql}"]


def _rename(table: Table, random: Random) -> list[str]:
    if not (free := _free(table)):
        return []
    column = random.choice(free)
    old, column.name = column.sql, _name(table, random)
    return [f"ALTER TABLE {table.sql} RENAME COLUMN {old} TO {column.sql}"]


def _retype(table: Table, random: Random) -> list[str]:
    if not (free := [c for c in _free(table) if c.type in table.facts.changes]):
        return []
    column = random.choice(free)
    column.type, column.settled = random.choice(table.facts.changes[column.type]), True
    assert column.type in {*table.facts.values, *CHANGED}
    return [f"ALTER TABLE {table.sql} MODIFY {column.sql} {column.type} NULL"]


def _part(table: Table, random: Random) -> list[str]:
    """Into other parts, or none: no row changes by that."""
    key = ticked(table.keys[0])
    ranges = f"RANGE ({key}) (PARTITION a VALUES LESS THAN (7), PARTITION b VALUES LESS THAN MAXVALUE)"
    ways = (f"PARTITION BY HASH ({key}) PARTITIONS 5", f"PARTITION BY KEY ({key}) PARTITIONS 2", f"PARTITION BY {ranges}")
    return [f"ALTER TABLE {table.sql} {random.choice((*ways, 'REMOVE PARTITIONING'))}"]
