"""Where onboarding is tried: a live source whose connector captures one table already, a registry of its own, writers.

The lake's cluster is the core cluster here, under MirrorMaker 2's prefix: what is tried is the order of steps, and one
broker less to start.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pymysql

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.capture.onboarding.registry_entries import remove_tables
from cdc_assets.clients.platform import Platform
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_mongodb import LiveMongoDb
from cdc_assets_tests.support.live.live_mysql import PLAIN, LiveMySql
from cdc_assets_tests.support.live.live_source import LiveSource

OLD = "old"
_ON_CONFLICT = "ON CONFLICT (id) DO UPDATE SET v = excluded.v"


@dataclass
class Ground:
    """One source with a running connector on the table `old`."""

    live: Any
    folder: Path

    @property
    def schema(self) -> str:
        return "public"

    @property
    def file(self) -> Path:
        return self.folder / f"{self.live.name}.yaml"

    def environment(self) -> dict[str, str]:
        live = self.live
        return {
            "CDC_HOME": str(live.home.root),
            "CDC_SOURCES": str(self.folder),
            "CDC_CONNECT_SECRETS": str(live.home.secrets),
            "CDC_CORE_BOOTSTRAP": live.bootstrap,
            "CDC_LAKE_BOOTSTRAP": live.bootstrap,
            "CDC_CORE_CONNECT": live.connect.url,
            "CDC_LAKE_CONNECT": live.connect.url,
        }

    def start(self) -> None:
        """The connector and its mirror run on what the registry declares."""
        source = find_source(self.live.name)
        apply_connector(self.live.connect, capture_config(source))
        apply_connector(self.live.connect, mirror_config(source))

    def stop(self) -> None:
        for suffix in ("capture", "capture-onboard", "mirror"):
            self.live.connect.delete(f"{self.live.name}-{suffix}")

    def create(self, table: str, rows: int) -> None:
        with self.live.connection() as connection:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY, v text)")
            connection.execute(f"INSERT INTO {table} SELECT i * 2, 'first ' || i FROM generate_series(1, {rows}) i")

    @property
    def name(self) -> str:
        """The source's."""
        return str(self.live.name)

    def declare(self, table: str, columns: Mapping[str, str] = PLAIN["columns"]) -> None:
        """In the registry, where a kind is not asked for columns."""

    def forget(self, table: str) -> None:
        """Take out what `declare` has put in."""

    def prepare(self) -> None:
        """What somebody who may has to do at the source."""

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The oracle: the table itself."""
        with self.live.connection() as connection:
            found = connection.execute(f"SELECT id, v FROM {table} ORDER BY id").fetchall()
        return [{"id": row[0], "v": row[1]} for row in found]


class BinlogGround(Ground):
    """Its tables are in a database of the source's name; `live` is a LiveBinlog."""

    @property
    def schema(self) -> str:
        return str(self.live.name)

    def create(self, table: str, rows: int) -> None:
        self.declare(table)
        with self.live.connection() as session:
            session.execute(f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY, v varchar(100))")
            session.execute(f"INSERT INTO {table} (id, v) SELECT i * 2, CONCAT('first ', i) FROM {numbers(rows)}")

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.live.connection() as session:
            return [{"id": row[0], "v": row[1]} for row in session.execute(f"SELECT id, v FROM {table} ORDER BY id")]

    def prepare(self) -> None:
        """The database, and the signal table as docs/reference/mariadb.md has an administrator make it."""
        server, name = self.live.server, self.live.name
        signals = f"cdc_assets.signal_{name}"
        server.execute(f"CREATE DATABASE IF NOT EXISTS {name}", "CREATE DATABASE IF NOT EXISTS cdc_assets")
        server.execute(f"CREATE TABLE IF NOT EXISTS {signals} (id varchar(100) PRIMARY KEY, type varchar(100), data longtext)")
        server.execute(f"GRANT SELECT, INSERT, DELETE ON {signals} TO cdc")
        self.live.write_secret()


class MySqlGround(BinlogGround):
    """Its tables are declared with their columns before they are taken in, and its signal table by its name."""

    def declare(self, table: str, columns: Mapping[str, str] = PLAIN["columns"]) -> None:
        name = f"{self.schema}.{table}"
        if self.file.exists() and f"name: {name}," not in (text := self.file.read_text()):
            self.file.write_text(
                f"{text}  - {json.dumps({'name': name, **PLAIN, 'columns': columns})}\n".replace('"name"', "name")
            )

    def forget(self, table: str) -> None:
        remove_tables(self.file, [f"{self.schema}.{table}"])

    def prepare(self) -> None:
        """Who onboards must see prepared transactions."""
        super().prepare()
        self.live.server.execute("GRANT XA_RECOVER_ADMIN ON *.* TO cdc")


class MongoDbGround(Ground):
    """Its collections are in a database of the source's name; `live` is a LiveMongoDb."""

    @property
    def schema(self) -> str:
        return str(self.live.name)

    def create(self, table: str, rows: int) -> None:
        with self.live.server.client() as client:
            documents = [{"_id": number * 2, "v": f"first {number}"} for number in range(1, rows + 1)]
            client[self.schema][table].insert_many(documents)

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self.live.server.client() as client:
            return [{"id": found["_id"], "v": found["v"]} for found in client[self.schema][table].find().sort("_id", 1)]

    def prepare(self) -> None:
        """The collection of signals, which the role may write to."""
        self.live.server.grant(self.schema)
        with self.live.server.client() as client:
            client[self.schema].create_collection("signals")
        self.live.write_secret()


def numbers(rows: int) -> str:
    """A table of `i` from 1 to `rows`, at most a million, in MariaDB and in MySQL."""
    digits = f"(SELECT 0 d {' '.join(f'UNION SELECT {d}' for d in range(1, 10))})"
    places = ", ".join(f"{digits} p{n}" for n in range(6))
    number = " + ".join(f"p{n}.d * {10**n}" for n in range(6))
    return f"(SELECT {number} + 1 AS i FROM {places}) n WHERE i <= {rows}"


@contextmanager
def ground(live: LiveSource | LiveBinlog | LiveMongoDb, folder: Path, name: str) -> Iterator[Ground]:
    """`os.environ` knows this ground while it is used."""
    kinds = {LiveMariaDb: BinlogGround, LiveMySql: MySqlGround, LiveSource: Ground, LiveMongoDb: MongoDbGround}
    own: Ground = kinds[type(live)](replace(live, name=name), folder)
    own.prepare()
    folder.mkdir(parents=True, exist_ok=True)
    source = own.live.source([f"{own.schema}.{name}_{OLD}"])
    declared = source.model_dump(mode="json", include={"source", "database"})
    entry = f"name: {own.schema}.{name}_{OLD}"
    if isinstance(live, LiveMySql):
        declared |= {"reconciliation": {"signals": f"cdc_assets.signal_{name}"}}
        entry += ", " + ", ".join(f"{key}: {json.dumps(value)}" for key, value in PLAIN.items())
    if isinstance(live, LiveMongoDb):
        declared |= {"reconciliation": {"signals": f"{name}.signals"}}
    tables = f"tables:\n  # what was captured first\n  - {{{entry}}}  # stays\n"
    own.file.write_text(f"# by hand\n{_yaml(declared)}{tables}")
    with patch.dict(os.environ, own.environment()):
        own.create(f"{name}_{OLD}", 50)
        own.start()
        try:
            yield own
        finally:
            own.stop()


def platform() -> Platform:
    return Platform()


def _yaml(value: dict[str, Any]) -> str:
    return "".join(f"{key}: {json.dumps(part)}\n" for key, part in value.items())


@dataclass
class Writers:
    """Threads that insert, update and delete rows of tables, in transactions of some statements, until they are stopped."""

    live: LiveSource | LiveBinlog
    tables: Sequence[str]
    keys: int
    seed: int = 1
    pause: float = 0.002
    transactions: int = 0
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Writers:
        for number, table in enumerate([*self.tables, *self.tables]):
            thread = threading.Thread(target=self._write, args=(table, random.Random(f"{self.seed}/{number}")))
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, table: str, choice: random.Random) -> None:
        while not self._stop.is_set():
            try:
                with self.live.connection(autocommit=False) as connection:
                    while not self._stop.is_set():
                        self._transaction(connection, table, choice)
            except (psycopg.Error, pymysql.err.MySQLError) as error:  # the server was killed, or two writers met
                self.errors.append(str(error))
                time.sleep(0.2)

    def _transaction(self, connection: Any, table: str, choice: random.Random) -> None:
        conflict = "ON DUPLICATE KEY UPDATE v = VALUES(v)" if isinstance(self.live, LiveBinlog) else _ON_CONFLICT
        for _ in range(choice.randrange(1, 4)):
            key = choice.randrange(self.keys)
            act = choice.random()
            if act < 0.4:
                connection.execute(f"UPDATE {table} SET v = %s WHERE id = %s", (f"v{choice.random()}", key))
            elif act < 0.8:
                text = f"INSERT INTO {table} (id, v) VALUES (%s, %s) {conflict}"
                connection.execute(text, (key, f"i{choice.random()}"))
            else:
                connection.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
            if choice.random() < 0.2:
                time.sleep(choice.random() * 0.05)
        connection.commit() if choice.random() < 0.9 else connection.rollback()
        self.transactions += 1
        time.sleep(self.pause)
