"""Statements on a server of their own: what it holds before and behind each, and what it wrote into its binlog."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.clients.databases.binlog import BinlogDatabase
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.mysql import MySqlCapture
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.servers.binlog_server import PASSWORD, BinlogServer
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.mysql_server import mysql_server
from cdc_assets_tests.support.statements.corpus import Case

_USE = re.compile(r"use `((?:[^`]|``)*)`; ", re.IGNORECASE)
_XID = re.compile(r" /\* xid=\d+ \*/$")
_AT_ONCE = 200


def own_server(kind: str, folder: Path) -> AbstractContextManager[BinlogServer]:
    """Of `mariadb` or `mysql`, in a folder of its own."""
    if kind == "mariadb":
        return mariadb_server(folder, "--sync-binlog=0", "--innodb-flush-method=nosync", "--innodb-file-per-table=OFF")
    return mysql_server(folder)


@contextmanager
def open_session(server: BinlogServer, database: str) -> Iterator[Any]:
    """A cursor in a new database; no statement takes long."""
    with server.connect(read_timeout=30, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")
        cursor.execute(f"CREATE DATABASE `{database}`")
        cursor.execute(f"USE `{database}`")
        cursor.execute("SET SESSION lock_wait_timeout = 5, foreign_key_checks = 0")
        yield cursor


def definitions(cursor: Any, database: str, words: Collection[str] = ()) -> dict[str, str]:
    """SHOW CREATE TABLE of each table that holds rows, of these names alone where there are any (in small letters)."""
    import pymysql

    cursor.execute(f"SHOW FULL TABLES FROM `{database}`")
    found = {}
    for name, told in cursor.fetchall():
        if told in ("BASE TABLE", "SYSTEM VERSIONED") and (not words or name.lower() in words):
            quoted = name.replace("`", "``")
            try:
                cursor.execute(f"SHOW CREATE TABLE `{database}`.`{quoted}`")
            except pymysql.err.MySQLError:
                continue
            found[name] = str(cursor.fetchone()[1])
    return found


@dataclass
class PlayedCase:
    """A case as a server has played it in a database of its own.

    `before`: SHOW CREATE TABLE of its tables before the statement, `tables` behind it; `events`: what the binlog holds of the
    statement, each with its database in use; `catalogue`: the product's view behind it.
    """

    case: Case
    database: str
    before: dict[str, str]
    tables: dict[str, str]
    begin: int = 0
    end: int = 0
    events: list[tuple[str, str]] = field(default_factory=list)
    catalogue: dict[str, CatalogueTable] = field(default_factory=dict)

    def history(self) -> dict[str, Any]:
        """As ReadStatements.java takes it."""
        step = {"statements": self.events, "tables": self.tables}
        return {"database": self.database, "charset": "utf8mb4", "before": list(self.before.values()), "steps": [step]}


def play(kind: str, server: BinlogServer, cases: Sequence[Case]) -> list[PlayedCase]:
    """The cases that the server accepts; it holds each in a database of its own afterwards."""
    server.execute("FLUSH BINARY LOGS")
    found = []
    with server.connect(read_timeout=60) as other, other.cursor() as looker:
        for number, case in enumerate(cases):
            if played := _play_case(server, looker, kind, case, f"c{number}"):
                found.append(played)
        _keep_events(looker, kind, found)
    _keep_catalogue(kind, server, found)
    return found


def _play_case(server: BinlogServer, looker: Any, kind: str, case: Case, database: str) -> PlayedCase | None:
    """`looker`: another session, which does not see the first one's temporary tables."""
    import pymysql

    with server.connect(read_timeout=60, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")
        cursor.execute(f"CREATE DATABASE `{database}`")
        cursor.execute(f"USE `{database}`")
        cursor.execute("SET SESSION lock_wait_timeout = 5, foreign_key_checks = 0, sql_mode = ''")
        try:
            for definition in case.before:
                cursor.execute(definition)
            # The binlog of other sessions has no such words before each statement.
            cursor.execute("SET SESSION foreign_key_checks = 1")
            before = definitions(looker, database)
            begin = _position(looker, kind)
            _execute_in_either_mode(cursor, case.statement)
            tables, end = definitions(looker, database), _position(looker, kind)
        except pymysql.err.MySQLError:
            looker.execute(f"DROP DATABASE IF EXISTS `{database}`")
            return None
    return PlayedCase(case, database, before, tables, begin, end)


def _execute_in_either_mode(cursor: Any, statement: str) -> None:
    import pymysql

    cursor.execute("SET SESSION sql_mode = DEFAULT")
    try:
        cursor.execute(statement)
    except pymysql.err.MySQLError:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(statement)


def _position(cursor: Any, kind: str) -> int:
    cursor.execute("SHOW MASTER STATUS" if kind == "mariadb" else "SHOW BINARY LOG STATUS")
    return int(cursor.fetchone()[1])


def _keep_events(cursor: Any, kind: str, found: Sequence[PlayedCase]) -> None:
    """The queries of the binlog as they were written, which is what Debezium reads."""
    cursor.execute("SHOW MASTER STATUS" if kind == "mariadb" else "SHOW BINARY LOG STATUS")
    file = cursor.fetchone()[0]
    cursor.execute("SHOW BINLOG EVENTS IN %s", [file])
    rows = [row for row in cursor.fetchall() if row[2] == "Query" and row[5] not in ("BEGIN", "COMMIT")]
    begins = [row[1] for row in rows]
    for played in found:
        for row in rows[bisect_left(begins, played.begin) : bisect_left(begins, played.end)]:
            used = _USE.match(row[5])
            text = _XID.sub("", row[5][used.end() :] if used else row[5])
            played.events.append((text, used[1].replace("``", "`") if used else ""))


def _keep_catalogue(kind: str, server: BinlogServer, found: Sequence[PlayedCase]) -> None:
    declared = {"kind": kind, "host": "127.0.0.1", "port": server.port, "user": "root", "password": {"secret": "statements"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SECRET_STATEMENTS", PASSWORD)
        database: BinlogDatabase
        if kind == "mariadb":
            database = MariaDbDatabase(MariaDb.model_validate(declared))
        else:
            database = MySqlCapture(MySql.model_validate(declared))
        for first in range(0, len(found), _AT_ONCE):
            some = found[first : first + _AT_ONCE]
            tables = database.tables([TableId(played.database, name) for played in some for name in played.tables])
            for played in some:
                played.catalogue = {id_.table: table for id_, table in tables.items() if id_.schema == played.database}
