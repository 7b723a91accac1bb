"""The stack's own S3 and GCS endpoints on free ports, each with a data folder that outlives it: the ground's, or a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.stack.component import Component, Site
from cdc_assets.stack.components.object_stores import GcsEndpoint, S3Endpoint
from cdc_assets.stack.home import Home
from cdc_assets.stack.stack_errors import NotReadyError
from cdc_assets_tests.support.lake.jvm import free_port, locked_jars, until

KINDS: dict[str, type[Component]] = {"s3": S3Endpoint, "gcs": GcsEndpoint}
SCHEMES = {"s3": "s3a", "gcs": "gs"}
"""Of a lake in the store of a kind."""


class Endpoint:
    """A component of the stack: whoever starts it may kill it. Another process meets it by its folder and its port."""

    def __init__(self, kind: str, folder: Path, port: int | None = None) -> None:
        self.kind, self.folder, self.port = kind, folder, port or free_port()
        if kind == "s3":
            locked_jars("s3proxy")
        home = Home(folder)
        home.create()
        (folder / "logs").mkdir(exist_ok=True)
        self._component = KINDS[kind](Site(home, {kind: self.port}, buckets={kind: ["cdc-backup"]}))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> BackupStore:
        return BackupStore(kind=self.kind, bucket="cdc-backup", endpoint=self._component.url)  # type: ignore[arg-type]

    @property
    def environment(self) -> dict[str, str]:
        return dict(self._component.addresses)

    def start(self) -> None:
        self._component.prepare()
        log = self._component.log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._component.command(), stdout=output, stderr=output, env=self._component.environment()
            )
        until(self._answers, process=self._process, log=log)
        self._component.settle()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed or tidied."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answers(self) -> bool:
        try:
            self._component.probe()
        except NotReadyError:
            return False
        return True


@contextmanager
def running(kind: str, folder: Path) -> Iterator[Endpoint]:
    endpoint = Endpoint(kind, folder)
    try:
        endpoint.start()
        yield endpoint
    finally:
        endpoint.kill()
