"""A registry of one source on the shared PostgreSQL, Kafka and Connect, a lake of one broker, and the CLI on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.clients.connect import ConnectClient
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.kafka_broker import KafkaBroker
from cdc_assets.stack.loopback import HOST, assign
from cdc_assets_tests.support.live.live_source import NAME, LiveSource, Part
from cdc_assets_tests.support.servers.quick_worker import QuickWorker

REGISTRY = """
source: {name}
database: {{kind: postgresql, host: {host}, port: {port}, dbname: {db}, user: {db}, password: {{secret: {db}}}}}
capture: {{heartbeat: {heartbeat}}}
tables: [{tables}]
"""


@dataclass(frozen=True)
class Lake:
    """The cluster that topics are mirrored into, and its Connect worker."""

    bootstrap: str
    connect: ConnectClient
    parts: Mapping[str, Part]


@dataclass
class Cdc:
    """`cdc` as a person calls it."""

    live: LiveSource
    lake: Lake
    folder: Path

    def declare(self, *tables: str, heartbeat: str = "10s") -> None:
        listed = ", ".join(f"{{name: {table}}}" for table in tables)
        port = self.live.postgres.site.ports["postgres"]
        text = REGISTRY.format(name=self.live.name, host=HOST, port=port, db=NAME, tables=listed, heartbeat=heartbeat)
        (self.folder / f"{self.live.name}.yaml").write_text(text)

    def make_table(self) -> None:
        """A table called as the source, with one row, and declared."""
        name = self.live.name
        with self.live.connection() as connection:
            connection.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY, v text)".encode())
            connection.execute(f"INSERT INTO public.{name} VALUES (1, 'one')".encode())
        self.declare(f"public.{name}")

    def __call__(self, *arguments: str, code: int = 0, stdin: str | None = None) -> str:
        from cdc_assets.cli.cdc_command import app
        from cdc_assets.registry.errors import CdcAssetsError

        result = CliRunner().invoke(app, list(arguments), input=stdin)
        if isinstance(result.exception, CdcAssetsError):
            assert code == 1, result.exception
            return str(result.exception)
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    def json(self, *arguments: str, code: int = 0, stdin: str | None = None) -> Any:
        from cdc_assets.cli.cdc_command import app

        result = CliRunner().invoke(app, [*arguments, "-o", "json"], input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return json.loads(result.stdout)


@contextmanager
def live_lake(live: LiveSource) -> Iterator[Lake]:
    site = Site(live.home, assign(("lake-kafka", "lake-kafka-controller", "lake-connect"), {}))
    broker, worker = KafkaBroker(site, "lake", 1), QuickWorker(site, "lake")
    with ExitStack() as stack:
        parts = {component.name: Part(component) for component in (broker, worker)}
        for part in parts.values():
            stack.callback(part.kill)
            part.start()
        yield Lake(site.bootstrap("lake"), ConnectClient(worker.url), parts)


@contextmanager
def declared_in(folder: Path, live: LiveSource, lake: Lake) -> Iterator[Callable[[str], Cdc]]:
    """`cdc` with the registry files of this folder, until the end."""
    with pytest.MonkeyPatch.context() as patch, live.settings():
        patch.setenv("CDC_SOURCES", str(folder))
        patch.setenv("CDC_CORE_BOOTSTRAP", live.bootstrap)
        patch.setenv("CDC_CORE_CONNECT", live.connect.url)
        patch.setenv("CDC_LAKE_BOOTSTRAP", lake.bootstrap)
        patch.setenv("CDC_LAKE_CONNECT", lake.connect.url)
        yield lambda name: Cdc(replace(live, name=name), lake, folder)
