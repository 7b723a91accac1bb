"""Dagster's code server: no other user reaches it, and whoever may ask it does, by short and long homes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from cdc_assets.stack import supervisor
from cdc_assets.stack.home import LONGEST, Home, read_json, remove_short_folders, socket_of
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.own_stack import ELSEWHERE, state_of, until
from cdc_assets_tests.support.stack_fixture import environment_of

ROOT = Path(__file__).parents[2]
_SENSORS = """query($selector: RepositorySelector!) { sensorsOrError(repositorySelector: $selector) {
  ... on Sensors { results { name sensorState { status ticks(limit: 1) { status } } } } } }"""
_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "cdc_assets"}


@pytest.fixture(params=["short", "x" * 120])
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    """Dagster alone, in a home with a path of this kind."""
    home = Home(tmp_path / request.param / "home")
    home.root.parent.mkdir()
    shutil.copytree(ROOT / "cdc_assets" / "sources", tmp_path / "sources")
    with environment_of(home):
        os.environ.update(ELSEWHERE, CDC_POSTGRES_HOST="127.0.0.1", STORAGE_EMULATOR_HOST="http://127.0.0.1:9")
        del os.environ["CDC_DAGSTER_URL"]
        os.environ["CDC_SOURCES"] = str(tmp_path / "sources")
        supervisor.start(home)
        supervisor.wait_healthy(home, seen=lambda _: None)
        try:
            yield home
        finally:
            supervisor.stop(home)


@pytest.mark.stack
def test_the_code_server_listens_where_nobody_else_comes(home: Home) -> None:
    proxy = state_of(home, "dagster-code").pid
    assert proxy
    family = [psutil.Process(proxy), *psutil.Process(proxy).children(recursive=True)]
    assert [c for p in family for c in p.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN] == []
    sockets = {Path(c.laddr) for p in family for c in p.net_connections(kind="unix") if str(c.laddr).startswith("/")}
    assert any(socket.name == "grpc.sock" for socket in sockets)
    # Nobody else may write to the socket itself, or pass a folder above it.
    for socket in sockets:
        shut = [p for p in (socket, *socket.parents) if p.exists() and not p.stat().st_mode & (stat.S_IROTH | stat.S_IXOTH)]
        assert shut, f"{socket} is open to others"

    url = read_json(home.stack)["environment"]["CDC_DAGSTER_URL"]
    dagster = Graphql(url, home.private("dagster_token"))
    assert "silver/world/silver_city" in dagster.assets()
    until(lambda: any(each["sensorState"]["ticks"] for each in sensors(dagster)), 180)
    reload = [sys.executable, "-m", "cdc_assets.cli", "reload"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    (Path(os.environ["CDC_SOURCES"]) / "bank.yaml").unlink()
    done = subprocess.run(reload, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [key for key in dagster.assets() if "/bank/" in key]
    assert supervisor.stop(home)
    outside = [socket for socket in sockets if not socket.is_relative_to(home.root) and socket.name == "grpc.sock"]
    supervisor.wipe(home)
    assert not [socket.parent for socket in outside if socket.parent.exists()]


def sensors(dagster: Graphql) -> list[dict[str, dict[str, list[object]]]]:
    try:
        return list(dagster.ask(_SENSORS, selector=_REPOSITORY)["sensorsOrError"]["results"])
    except httpx.HTTPError:
        return []


def test_the_socket_of_a_long_home_lies_in_a_closed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / ("x" * 120)).create()
    socket = socket_of(home, "dagster-code")
    assert len(os.fsencode(socket)) <= LONGEST
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert socket_of(home, "dagster-code") == socket
    # Somebody else's folder, or one that others may enter, is not taken again.
    socket.parent.chmod(0o755)
    other = socket_of(home, "dagster-code")
    assert other != socket
    remove_short_folders(home)
    assert not other.parent.exists()
    socket.parent.rmdir()
    monkeypatch.setattr("tempfile.tempdir", str(home.root))
    with pytest.raises(StackError, match="no path for a Unix socket"):
        socket_of(home, "dagster-code")
