"""The servers that all parts of a run share: a Spark Connect server, a Kafka broker, an S3 and a GCS.

`python -m cdc_assets_tests.run.ground FILE` starts them, writes their addresses into the file, and stops them when its standard
input ends. A part waits for its first address (`--ground FILE`). A test that stops, kills or fills a server takes one of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cdc_assets_tests.run.catalogue import ROOT

_FAILED = "failed"
_START_SECONDS = 300


def ground_address(file: str | None, server: str) -> str | None:
    """Where a server of the ground answers; None in a run without a ground.

    Raises:
        AssertionError: the ground could not start; with its own words.
    """
    if file is None:
        return None
    deadline = time.monotonic() + _START_SECONDS
    while not (addresses := _read(Path(file))):
        assert time.monotonic() < deadline, f"{file}: no ground after {_START_SECONDS} s"
        time.sleep(0.2)
    assert _FAILED not in addresses, addresses[_FAILED]
    return addresses[server]


@contextmanager
def started(environment: Mapping[str, str]) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A ground that comes up beside what the caller does, and ends with it: the file of its addresses, and its process."""
    with tempfile.TemporaryDirectory(prefix="cdc-test-ground-") as folder:
        file = Path(folder) / "ground.json"
        command = [sys.executable, "-m", "cdc_assets_tests.run.ground", str(file)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE)
        try:
            yield file, process
        finally:
            process.communicate()


def main(file: Path) -> None:
    """Start the servers, and hold them until standard input ends."""
    from cdc_assets_tests.support.lake.jvm import kafka_broker, spark_connect
    from cdc_assets_tests.support.servers.endpoints import KINDS as ENDPOINTS
    from cdc_assets_tests.support.servers.endpoints import running

    with ExitStack() as servers:
        try:
            addresses = {"kafka": servers.enter_context(kafka_broker(file.parent / "kafka"))}
            for kind in ENDPOINTS:
                found = servers.enter_context(running(kind, file.parent / kind))
                addresses[kind] = f"{found.port} {found.folder}"
            addresses["spark"], _ = servers.enter_context(spark_connect(file.parent / "spark", shared=True))
        except Exception as error:
            _write(file, {_FAILED: f"the ground of the tests did not start: {error}"})
            raise
        _write(file, addresses)
        sys.stdin.read()


def _read(file: Path) -> dict[str, str]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def _write(file: Path, addresses: Mapping[str, str]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(addresses), encoding="utf-8")
    new.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
