"""A real Prometheus, from Debian's package: it scrapes what the rendered files name."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cdc_assets_tests.programs import apt
from cdc_assets_tests.programs.wanted import Program, command
from cdc_assets_tests.support.lake.jvm import free_port

PROMETHEUS = Program("Prometheus", ("prometheus", "promtool"), ("prometheus",))


def bring_prometheus() -> Program:
    """Unpacked below the cache where it is not here; a machine that cannot have it skips."""
    if not PROMETHEUS.is_here():
        try:
            failed = apt.unpack([PROMETHEUS])
        except OSError as error:
            failed = {PROMETHEUS.title: str(error)}
        if failed:
            pytest.skip(f"without Prometheus: {failed[PROMETHEUS.title]}")
    return PROMETHEUS


class PrometheusServer:
    """One that runs, by its HTTP interface."""

    def __init__(self, port: int, log: Path) -> None:
        self._port, self._log = port, log

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each of its series now; none while it does not answer yet."""
        try:
            found = self.ask(f"/api/v1/query?query={quote(expression)}")["result"]
        except OSError:
            return []
        return [(each["metric"], float(each["value"][1])) for each in found]

    def await_alerts(self, name: str, *, gone: str = "") -> dict[str, list[dict[str, str]]]:
        """Those that are pending or firing, once the one of this name is among them, and the one that is to be `gone` is not."""
        until = time.monotonic() + 240
        while time.monotonic() < until:
            try:
                found = self.ask("/api/v1/alerts")["alerts"]
            except OSError:
                found = []
            alerts = self._by_name(found)
            if name in alerts and gone not in alerts:
                return alerts
            time.sleep(0.2)
        raise AssertionError(self._log.read_text()[-3000:])

    @staticmethod
    def _by_name(found: list[dict[str, Any]]) -> dict[str, list[dict[str, str]]]:
        names = {each["labels"]["alertname"] for each in found}
        return {name: [each["labels"] for each in found if each["labels"]["alertname"] == name] for name in names}


def check_config(program: Program, folder: Path) -> str:
    """What promtool says of the folder's files."""
    done = subprocess.run(
        [command(program, "promtool"), "check", "config", str(folder / "prometheus.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def prometheus_server(program: Program, folder: Path) -> Iterator[PrometheusServer]:
    """With the `prometheus.yaml` of the folder."""
    port, log = free_port(), folder / "log"
    options = [f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}"]
    options.append(f"--web.listen-address=127.0.0.1:{port}")
    with log.open("w") as file:
        process = subprocess.Popen([command(program, "prometheus"), *options], stdout=file, stderr=file, cwd=folder)
    try:
        yield PrometheusServer(port, log)
    finally:
        process.terminate()
        process.wait(30)
