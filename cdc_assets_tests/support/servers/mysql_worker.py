"""A Connect worker for MySQL's connector alone, on a Java with all modules, beside the one of `live_source`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from typing_extensions import override

from cdc_assets.clients.connect import ConnectClient
from cdc_assets.stack.loopback import assign
from cdc_assets_tests.programs.whole_java import whole_java
from cdc_assets_tests.support.live.live_source import LiveSource, Part
from cdc_assets_tests.support.servers.quick_worker import QuickWorker

NAME, PLUGIN = "mysql-connect", "debezium-mysql"


class MySqlWorker(QuickWorker):
    """A Connect cluster of its own on the core's broker."""

    @property
    @override
    def name(self) -> str:
        return NAME

    @property
    @override
    def java(self) -> Path:
        return whole_java()

    @override
    def environment(self) -> dict[str, str]:
        """Of a machine whose clock is not UTC's, as few people's are."""
        return {**super().environment(), "TZ": "America/New_York"}

    @override
    def _properties(self) -> dict[str, str]:
        # What the group and its topics are called.
        return {key: value.replace("core-connect", NAME) for key, value in super()._properties().items()}


@contextmanager
def mysql_worker(live: LiveSource) -> Iterator[LiveSource]:
    """`live`, with this worker in place of its own.

    Raises:
        ProgramMissingError: there is no such Java.
    """
    whole_java()
    site = live.parts["core-connect"].component.site
    part = Part(worker := MySqlWorker(replace(site, ports={**site.ports, **assign([NAME], {})}, plugins=(PLUGIN,)), "core"))
    try:
        part.start()
        connect = ConnectClient(worker.url)
        live.beside.append(connect)
        yield replace(live, connect=connect, parts={**live.parts, "core-connect": part}, beside=[])
    finally:
        live.beside.clear()
        part.kill()
