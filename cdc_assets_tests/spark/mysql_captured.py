"""A real MySQL's tables with the product's own connector on the Connect worker of `live_source`, as a registry declares them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc_assets import names
from cdc_assets.connectors.capture import capture_config
from cdc_assets.reconcile import by_pages
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.rows.open import open_reader
from cdc_assets.stack.java import java
from cdc_assets.stack.ports import HOST
from cdc_assets_tests.binlog_server import PASSWORD
from cdc_assets_tests.live_source import LiveSource
from cdc_assets_tests.mysql_server import MySqlServer, mysql_server
from cdc_assets_tests.spark.capture import Record

OURS = (
    "CREATE DATABASE ours",
    "CREATE TABLE ours.marker (id varchar(100) PRIMARY KEY)",
    "CREATE TABLE ours.signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))",
    "GRANT INSERT, DELETE ON ours.marker TO cdc",
    "GRANT INSERT ON ours.signals TO cdc",
)
SECRET = "mysqlrec"
Declared = Mapping[str, object]


@dataclass(frozen=True)
class Captured:
    """A MySQL's tables, as they are declared; `capture` starts the product's own connector."""

    server: MySqlServer
    live: LiveSource
    name: str
    sslmode: str = "preferred"

    @property
    def bootstrap(self) -> str:
        return self.live.bootstrap

    @property
    def connect(self) -> ConnectClient:
        return self.live.connect

    def source(self, tables: Sequence[Declared]) -> UnaskedSource:
        return UnaskedSource.model_validate(
            {
                "source": self.name,
                "database": {
                    "kind": "mysql",
                    "host": HOST,
                    "port": self.server.port,
                    "user": "cdc",
                    "password": {"secret": SECRET},
                    "sslmode": self.sslmode,
                },
                "reconciliation": {"marker": "ours.marker", "signals": "ours.signals"},
                "tables": tables,
            }
        )

    @contextmanager
    def settings(self) -> Iterator[None]:
        file = self.live.home.secrets / SECRET
        file.write_text(PASSWORD)
        file.chmod(0o600)
        with self.live.settings(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("CDC_CORE_BOOTSTRAP", self.live.bootstrap)
            yield

    def capture(self, tables: Sequence[Declared]) -> None:
        with self.settings():
            config = capture_config(self.source(tables))
            assert self.connect.validate(config) == {}
            self.connect.put_config(config["name"], config)
            self.connect.wait_running(config["name"])

    def delivered(self) -> None:
        """All that is committed until now has come."""
        source = self.source([{"name": "any.table", "keys": ["id"], "columns": {"id": "integer not null"}}])
        with self.settings():
            reader = open_reader(source.database)
            marker = TableId("ours", "marker")
            told = f"test-{time.monotonic_ns()}"
            by_pages.mark(KafkaCluster(self.bootstrap), source, reader, marker, told, time.monotonic() + 90)

    def records(self, table: Declared) -> list[Record]:
        source = self.source([table])
        cluster = KafkaCluster(self.bootstrap)
        topic = names.topic(source, source.tables[0])
        (state,) = cluster.states([topic]).values()
        return [
            Record(r.offset, *(None if part is None else part.decode() for part in (r.key, r.value)))
            for r in cluster.records(topic, state.ranges)
        ]


@contextmanager
def server_with_our_tables(folder: Path) -> Iterator[MySqlServer]:
    """With GTIDs, and the tables of ours that a comparison writes to."""
    modules = subprocess.run([java(), "--list-modules"], capture_output=True, text=True, check=True).stdout
    assert "jdk.charsets" in modules, "JAVA_HOME must be a whole JDK: without jdk.charsets Connector/J asks MySQL for eucjpms"
    with mysql_server(folder, "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as found:
        found.execute(*OURS)
        yield found
