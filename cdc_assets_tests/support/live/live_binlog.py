"""A server with a binlog, with the product's own connector on the Connect worker of `live_source`: what Debezium really sends."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.named_log_position import await_binlog
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.databases.binlog import BinlogDatabase
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.live.live_source import LiveSource, Part
from cdc_assets_tests.support.servers.binlog_server import PASSWORD, BinlogServer

if TYPE_CHECKING:
    from typing_extensions import Self

SECRET = "binlog"


@dataclass(frozen=True)
class Session:
    """A connection that executes, as psycopg's do."""

    connection: Any

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


@dataclass(frozen=True)
class LiveBinlog(ABC):
    """A server and, once `capture` has been called, a connector; `replace(live, name=...)` is another connector."""

    server: BinlogServer
    live: LiveSource
    name: str = "binlog"

    @property
    def bootstrap(self) -> str:
        return self.live.bootstrap

    @property
    def home(self) -> Home:
        return self.live.home

    @property
    def parts(self) -> Mapping[str, Part]:
        return self.live.parts

    @contextmanager
    def connection(self, *, autocommit: bool = True) -> Iterator[Session]:
        """A session in the database that is called as the connector's source."""
        with self.server.connect(autocommit=autocommit, database=self.name) as connection:
            yield Session(connection)

    @property
    def connect(self) -> ConnectClient:
        return self.live.connect

    @abstractmethod
    def source(self, tables: Sequence[str | Mapping[str, object]], **values: str) -> CapturedSource:
        """The registry's declaration of these tables."""

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Where the product finds secrets and the cluster."""
        self.write_secret()
        with self.live.settings(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("CDC_CORE_BOOTSTRAP", self.live.bootstrap)
            yield

    def write_secret(self) -> None:
        file = self.live.home.secrets / SECRET
        file.write_text(PASSWORD)
        file.chmod(0o600)

    @abstractmethod
    def reads(self, source: CapturedSource) -> BinlogDatabase:
        """The product's view of the server."""

    @contextmanager
    def database(self, source: CapturedSource) -> Iterator[BinlogDatabase]:
        """The same, where the product finds its secret."""
        with self.settings():
            yield self.reads(source)

    def capture(self, tables: Sequence[str | Mapping[str, object]], **values: str) -> None:
        """Start the product's own connector on these tables, with these `capture.values`."""
        with self.settings():
            config = capture_config(self.source(tables, **values))
        assert self.live.connect.validate(config) == {}
        self.live.connect.put_config(config["name"], config)
        self.live.connect.wait_running(config["name"])

    def delivered(self, *, seconds: float = 240) -> dict[str, dict[int, list[Record]]]:
        """Every committed record of every table topic, once all that is committed in the database until now has come."""
        source = self.source(["any.table"])
        with self.database(source) as database:
            await_binlog(source, "test", database, self.live.connect, time.monotonic() + seconds)
        topics = AdminClient({"bootstrap.servers": self.live.bootstrap}).list_topics(timeout=60).topics
        cluster = KafkaCluster(self.live.bootstrap)
        found: dict[str, dict[int, list[Record]]] = {}
        for topic, state in cluster.states([t for t in topics if t.startswith(f"{self.name}.")]).items():
            for read in cluster.records(topic, state.ranges):
                texts = [None if part is None else part.decode() for part in (read.key, read.value)]
                found.setdefault(topic, {}).setdefault(read.partition, []).append(Record(read.offset, *texts))
        return found

    def renamed(self, name: str) -> Self:
        """The same server, for another connector."""
        return replace(self, name=name)
