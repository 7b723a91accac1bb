"""The code server of the stack: it dies while the registry is broken, and the stack is brought up with other sources.

Of the stack only Dagster runs; nobody answers at the other addresses, which loading definitions does not ask.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from cdc_assets.stack import start
from cdc_assets.stack.home import Home, read_json
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.stack.test_supervisor import ELSEWHERE, state_of, until
from cdc_assets_tests.stack_fixture import environment_of

ROOT = Path(__file__).parents[2]
_CODE = "dagster-code"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    shutil.copytree(ROOT / "cdc_assets" / "sources", tmp_path / "sources")
    with environment_of(home):
        os.environ.update(ELSEWHERE, CDC_POSTGRES_HOST="127.0.0.1", STORAGE_EMULATOR_HOST="http://127.0.0.1:9")
        del os.environ["CDC_DAGSTER_URL"]
        os.environ["CDC_SOURCES"] = str(tmp_path / "sources")
        start.start(home)
        start.wait_healthy(home, seen=lambda _: None)
        try:
            yield home
        finally:
            start.stop(home)


def assets(home: Home) -> set[str]:
    try:
        return Graphql(read_json(home.stack)["environment"]["CDC_DAGSTER_URL"], home.private("dagster_token")).assets()
    except httpx.HTTPError:
        return set()


def test_a_broken_file_and_another_folder(home: Home, tmp_path: Path) -> None:
    assert {"silver/world/city", "silver/bank/pgbench_tellers"} <= assets(home)
    proxy = state_of(home, _CODE).pid
    assert proxy
    (tmp_path / "sources" / "bank.yaml").write_text("source: bank\ntabels: []\n")
    (server,) = (child for child in psutil.Process(proxy).children() if "grpc" in child.cmdline())
    server.send_signal(signal.SIGKILL)
    until(lambda: state_of(home, _CODE).restarts == 1 and state_of(home, _CODE).health == "healthy")
    until(lambda: {"silver/world/city", "silver/bank/pgbench_tellers"} <= assets(home))
    assert "bank.yaml:2: tabels: unknown key" in (home.root / "logs" / f"{_CODE}.log").read_text()

    others = tmp_path / "others"
    others.mkdir()
    (others / "world.yaml").write_text((tmp_path / "sources" / "world.yaml").read_text())
    up = [sys.executable, "-m", "cdc_assets.cli", "up", "--no-main-job", "--no-examples"]
    environment = {**os.environ, "CDC_SOURCES": str(others)}
    done = subprocess.run(up, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Dagster takes in bank, of {others}" in done.stderr
    assert "silver/world/city" in assets(home)
    assert not [key for key in assets(home) if "/bank/" in key]
    # Without the variable, in another shell: the folder is remembered.
    del os.environ["CDC_SOURCES"]
    status = [sys.executable, "-m", "cdc_assets.cli", "reload", "--dry-run"]
    told = subprocess.run(status, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=120, check=False)
    assert told.stdout.strip() == f"Dagster has all that {others} declares", told.stderr
