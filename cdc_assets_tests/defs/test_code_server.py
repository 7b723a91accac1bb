"""The code server of the stack: it dies while the registry is broken, and the stack is brought up with other sources.

Folders and files are named by relative paths, as a person in a shell does. Definitions of one's own come while it runs.

Of the stack only Dagster runs; nobody answers at the other addresses, which loading definitions does not ask.
"""

from __future__ import annotations

import json
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

from cdc_assets.stack import supervisor
from cdc_assets.stack.home import Home, read_json
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.own_stack import ELSEWHERE, state_of, until
from cdc_assets_tests.support.stack_fixture import environment_of

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[2]
_CODE = "dagster-code"
_GOLD = """
import dagster as dg

@dg.asset(key=["gold", "{name}"], deps=[dg.AssetKey(["silver", "world", "silver_city"])])
def gold(): ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the person's shell is."""
    return tmp_path_factory.mktemp("folder")


@pytest.fixture(scope="module")
def home(folder: Path) -> Iterator[Home]:
    home = Home(folder / "home")
    shutil.copytree(ROOT / "cdc_assets" / "sources", folder / "sources")
    with environment_of(home), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        os.environ.update(ELSEWHERE, CDC_POSTGRES_HOST="127.0.0.1", STORAGE_EMULATOR_HOST="http://127.0.0.1:9")
        del os.environ["CDC_DAGSTER_URL"]
        os.environ["CDC_SOURCES"] = "sources"
        supervisor.start(home)
        supervisor.wait_healthy(home, seen=lambda _: None)
        # Remembered: the commands are those of another shell, and folder.
        del os.environ["CDC_SOURCES"]
        try:
            yield home
        finally:
            supervisor.stop(home)


def assets(home: Home) -> set[str]:
    try:
        return Graphql(read_json(home.stack)["environment"]["CDC_DAGSTER_URL"], home.private("dagster_token")).assets()
    except httpx.HTTPError:
        return set()


@pytest.mark.all
def test_a_broken_file_and_another_folder(home: Home, folder: Path) -> None:
    assert {"silver/world/silver_city", "silver/bank/silver_pgbench_tellers"} <= assets(home)
    proxy = state_of(home, _CODE).pid
    assert proxy
    (folder / "sources" / "bank.yaml").write_text("source: bank\ntabels: []\n")
    (server,) = (child for child in psutil.Process(proxy).children() if "grpc" in child.cmdline())
    server.send_signal(signal.SIGKILL)
    until(lambda: state_of(home, _CODE).restarts == 1 and state_of(home, _CODE).health == "healthy")
    until(lambda: {"silver/world/silver_city", "silver/bank/silver_pgbench_tellers"} <= assets(home))
    assert "bank.yaml:2: tabels: unknown key" in (home.root / "logs" / f"{_CODE}.log").read_text()

    others = folder / "others"
    others.mkdir()
    (others / "world.yaml").write_text((folder / "sources" / "world.yaml").read_text())
    done = cdc(folder, "up", "--no-main-job", "--no-examples", CDC_SOURCES="others")
    assert f"Dagster takes in bank, of {others}" in done.stderr
    assert "silver/world/silver_city" in assets(home)
    assert not [key for key in assets(home) if "/bank/" in key]
    # Without the variable, in another folder: it is remembered.
    assert cdc(ROOT, "reload", "--dry-run").stdout.strip() == f"Dagster has all that {others} declares"
    lost = cdc(ROOT, "reload", code=1, CDC_SOURCES="others").stderr
    told = f"CDC_SOURCES=others is looked for in the current folder, {ROOT}: set it to the whole path"
    assert lost == f"cdc: {ROOT}/others: no such folder; {told}\n"


@pytest.mark.all
def test_definitions_of_ones_own_come_change_and_go_while_it_runs(home: Home, folder: Path) -> None:
    gold, given = folder / "gold.py", {"CDC_DEFINITIONS": "gold.py"}
    gold.write_text(_GOLD.format(name="cities"))
    named = f"CDC_DEFINITIONS={gold} is not loaded, Dagster has no definitions of yours"
    told = cdc(folder, "status", code=None, **given)
    assert f"not in Dagster yet: {named}: cdc reload" in told.stdout
    assert "gold/cities" not in assets(home)
    taken = json.loads(cdc(folder, "reload", "-o", "json", **given).stdout)
    assert taken["definitions"] == {"named": str(gold), "assets": ["gold/cities"]}
    assert {"gold/cities", "silver/world/silver_city"} <= assets(home)

    # From here in a shell that knows nothing of it.
    gold.write_text(_GOLD.format(name="towns"))
    assert f"not in Dagster yet: {gold} has changed since Dagster loaded it: cdc reload" in cdc(ROOT, "status", code=None).stdout
    cdc(ROOT, "reload")
    assert ("gold/towns" in assets(home), "gold/cities" in assets(home)) == (True, False)

    gold.write_text("1 / 0\n")
    broken = cdc(ROOT, "reload", code=1)
    assert f"CDC_DEFINITIONS={gold} is not loaded: ZeroDivisionError: division by zero" in broken.stderr
    assert {"gold/towns", "silver/world/silver_city"} <= assets(home)

    cdc(ROOT, "up", "--no-main-job", "--no-examples", CDC_DEFINITIONS="")
    assert not [key for key in assets(home) if key.startswith("gold/")]
    assert "silver/world/silver_city" in assets(home)


def cdc(place: Path, *arguments: str, code: int | None = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """A verb in this folder, that ends with this code."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "240", **variables}
    command = [sys.executable, "-m", "cdc_assets.cli", *arguments]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done
