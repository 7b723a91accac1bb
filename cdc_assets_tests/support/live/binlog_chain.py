"""A source of a server with a binlog, captured and mirrored by our own connectors, and carried into silver by our assets.

The oracle is the server, read by SQL; silver is read by delta-rs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.capture.log_position import CaughtUpTimeoutError, carry_to_lake
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.capture_assets import flow_check
from cdc_assets.defs.check_specs import EVENTS_FLOW
from cdc_assets.defs.lake_assets import build_bronze_assets, build_silver_assets
from cdc_assets.registry import names
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.live.cdc import Cdc, Lake, declared_in
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.servers.mysql_worker import NAME as MYSQL_WORKER

RIGHTS = ("CREATE DATABASE IF NOT EXISTS cdc_assets", "GRANT CREATE, INSERT, DELETE, SELECT ON cdc_assets.* TO cdc")


@dataclass
class BinlogChain:
    """Its tables lie in the database that is called as the source."""

    own: LiveBinlog
    cdc: Cdc
    platform: Platform
    checks: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def kind(self) -> str:
        return "mysql" if isinstance(self.own, LiveMySql) else "mariadb"

    @property
    def file(self) -> Path:
        """The registry's."""
        return self.cdc.folder / f"{self.name}.yaml"

    @property
    def source(self) -> CapturedSource:
        found = load_source(self.file).captured
        assert found is not None
        return found

    @property
    def connector(self) -> str:
        return names.connector_name(self.source)

    def declare(self, tables: Sequence[dict[str, Any]], **more: Any) -> None:
        """Anew; `more`: keys of the source."""
        database = self.own.source(["any.table"]).database.model_dump(mode="json", exclude_none=True)
        self.file.write_text(json.dumps({"source": self.name, "database": database, "tables": list(tables), **more}))

    def play(self, *statements: str) -> None:
        """In one session, each by itself."""
        with self.own.server.connect(database=self.name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def carry(self, *, fold: bool = True) -> str:
        """What is committed now is in bronze, and in silver; why not all of it is: the connector's words, or those of a layer."""
        if stopped := self._deliver():
            return stopped
        carry_to_lake(Chain(self.platform, self.source), deadline=180)
        return self.append(fold=fold)

    def _deliver(self) -> str:
        """All that is committed is in the topics; what the connector says, where it has failed."""
        deadline = time.monotonic() + 240
        while True:
            try:
                self.own.delivered(seconds=15)
            except CaughtUpTimeoutError:
                if told := self.status():
                    return told
                if time.monotonic() > deadline:
                    raise
            else:
                return ""

    def append(self, *, fold: bool = True) -> str:
        """What has come to the lake is in bronze, and in silver; why not all of it is."""
        assets = [build_bronze_assets(self.source), *([build_silver_assets(self.source)] if fold else [])]
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(assets, instance=instance, resources={"platform": self.platform}, raise_on_error=False)
            failures = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
            return "\n".join(error.cause.message if error and error.cause else str(error) for error in failures)

    def flow(self) -> str:
        """What the check `events_flow` says as Dagster runs it; empty when it passes."""
        result = dg.materialize(
            flow_check.build(self.source),
            selection=dg.AssetSelection.checks(EVENTS_FLOW.key(self.source)),
            resources={"platform": self.platform},
            instance=self.checks,
            raise_on_error=False,
        )
        (told,) = result.get_asset_check_evaluations()
        return "" if told.passed else told.description or "it failed"

    def status(self) -> str:
        """What the connector says in `cdc get connectors`; empty while it runs."""
        (row,) = [row for row in self.cdc.json("get", "connectors") if row["name"] == self.connector]
        return str(row["trace"])

    def stands(self) -> str:
        """What it says, once it has failed."""
        until(lambda: self.status() != "", "the connector goes on", seconds=120)
        return self.status()

    def in_source(self, table: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Its columns in their order, and its rows."""
        within = f"table_schema = '{self.name}' AND table_name = '{table}' ORDER BY ordinal_position"
        columns = [
            str(row[0]) for row in self.own.server.query(f"SELECT column_name FROM information_schema.columns WHERE {within}")
        ]
        listed = ", ".join(f"`{column}`" for column in columns)
        rows = self.own.server.query(f"SELECT {listed} FROM {self.name}.{table}")
        return columns, sorted((tuple(row) for row in rows), key=repr)

    def in_silver(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """These columns of its rows; None where it has no such column."""
        path = names.silver_path(self.platform.lake, self.source, self.source.table(f"{self.name}.{table}"))
        return sorted((tuple(row.get(column) for column in columns) for row in read(path)), key=repr)

    def is_equal(self, table: str, *but: str) -> bool:
        """By values of all columns but these; asserts it."""
        columns, rows = self.in_source(table)
        kept = [place for place, column in enumerate(columns) if column not in but]
        wanted = sorted((tuple(row[place] for place in kept) for row in rows), key=repr)
        assert self.in_silver(table, [columns[place] for place in kept]) == wanted, (table, columns)
        return True


def until(condition: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@contextmanager
def binlog_chain(own: LiveBinlog, lake: Lake, remote: str, folder: Path) -> Iterator[BinlogChain]:
    """Nothing is declared yet. The connectors of what is declared go at the end."""
    # XA RECOVER is asked by all that reads tables again.
    xa = ["GRANT XA_RECOVER_ADMIN ON *.* TO cdc"] if isinstance(own, LiveMySql) else []
    own.server.execute(*RIGHTS, *xa)
    own.write_secret()
    sources = folder / "sources"
    sources.mkdir()
    with declared_in(sources, own.live, lake) as make, pytest.MonkeyPatch.context() as patch:
        if isinstance(own, LiveMySql):
            topics = ",".join(f"_{MYSQL_WORKER}-{what}" for what in ("configs", "offsets", "status"))
            patch.setenv("CDC_CORE_CONNECT_TOPICS", topics)
        patch.setenv("CDC_SPARK_REMOTE", remote)
        patch.setenv("CDC_LAKE", str(folder / "lake"))
        yield BinlogChain(own, make(own.name), Platform())
    lake.connect.delete(f"{own.name}-mirror")
    own.connect.delete(names.connector_name(own.source(["any.table"])))
