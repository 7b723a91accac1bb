"""A Dagster of the user's own, with the chains by the Component door: what is added to a registry file is there, or it is told.

Real parts: a webserver, one code server that reloads, and one that cannot (`dagster api grpc`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from cdc_assets_tests.defs.conftest import SOURCE
from cdc_assets_tests.support.lake.jvm import free_port, until

pytestmark = pytest.mark.service

ROOT = Path(__file__).parents[2]
_DEFINITIONS = """
from datetime import timedelta
from pathlib import Path
import dagster as dg

KEY = dg.AssetKey(["silver", "SOURCE", "silver_orders"])

@dg.asset(key=["silver", "SOURCE", "gold_of_mine"], deps=[KEY])
def gold_of_mine():
    pass

@dg.definitions
def defs():
    checks = dg.build_last_update_freshness_checks(assets=[KEY], lower_bound_delta=timedelta(days=1))
    mine = dg.Definitions(assets=[gold_of_mine], asset_checks=checks)
    return dg.Definitions.merge(dg.load_from_defs_folder(path_within_project=Path(__file__).parent), mine)
"""
"""With a check and an asset of the user's own at our keys."""
_PROJECT = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "%s"\n'
_COMPONENT = "type: cdc_assets.components.CdcSource\nattributes: {registry_file: %s.yaml}\n"
_ASSETS = "{ assetNodes { assetKey { path } } }"


@dataclass(frozen=True)
class OwnDagster:
    """A webserver at `url` with two locations: `reloads` has the source shop, `fixed` the source annex."""

    url: str
    project: Path

    def file(self, source: str) -> Path:
        """The component's registry file."""
        return self.package(source) / "defs" / source / f"{source}.yaml"

    def package(self, source: str) -> Path:
        """The package of a project as `dg` makes them, one per source."""
        return self.project / f"{source}-project" / source

    def assets(self) -> set[str]:
        """As any reader of GraphQL sees them."""
        answer = httpx.post(f"{self.url}/graphql", json={"query": _ASSETS}, timeout=120, trust_env=False).json()
        return {"/".join(node["assetKey"]["path"]) for node in answer["data"]["assetNodes"]}

    def cdc(self, source: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A verb that ends with this code, told of this Dagster and the folder of the source's file."""
        environment = {
            **os.environ,
            "CDC_DAGSTER_URL": self.url,
            "CDC_SOURCES": str(self.file(source).parent / "registry"),
            "CDC_HOME": str(self.project / "home"),
        }
        command = [sys.executable, "-m", "cdc_assets.cli", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done


def declare(dagster: OwnDagster, source: str, tables: list[str]) -> None:
    text = yaml.safe_dump({**SOURCE, "source": source, "tables": [{"name": name} for name in tables]})
    file = dagster.file(source)
    (file.parent / "registry").mkdir(parents=True, exist_ok=True)
    # The component's own file, and the folder that the command line reads, are one.
    (file.parent / "registry" / file.name).write_text(text)
    if not file.exists():
        file.symlink_to(Path("registry") / file.name)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnDagster]:
    project = tmp_path_factory.mktemp("own")
    ports = {"shop": free_port(), "annex": free_port(), "web": free_port()}
    found = OwnDagster(f"http://127.0.0.1:{ports['web']}", project)
    (project / "dagster_home").mkdir()
    (project / "dagster_home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    commands = []
    for source, location, command in (("shop", "reloads", ("code-server", "start")), ("annex", "fixed", ("api", "grpc"))):
        package = found.package(source)
        (package / "defs" / source).mkdir(parents=True)
        (package.parent / "pyproject.toml").write_text(_PROJECT % source)
        (package / "__init__.py").touch()
        (package / "definitions.py").write_text(_DEFINITIONS.replace("SOURCE", source))
        (package / "defs" / source / "defs.yaml").write_text(_COMPONENT % source)
        declare(found, source, ["public.orders"])
        at = ["-m", f"{source}.definitions", "-h", "127.0.0.1", "-p", str(ports[source]), "--location-name", location]
        commands.append([sys.executable, "-m", "dagster", *command, *at])
    entries = [
        {"grpc_server": {"host": "127.0.0.1", "port": ports[source], "location_name": location}}
        for source, location in (("shop", "reloads"), ("annex", "fixed"))
    ]
    (project / "workspace.yaml").write_text(yaml.safe_dump({"load_from": entries}))
    web = ["-m", "dagster_webserver", "-w", str(project / "workspace.yaml"), "-h", "127.0.0.1", "-p", str(ports["web"])]
    packages = [str(ROOT), *(str(found.package(source).parent) for source in ("shop", "annex"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(packages), "DAGSTER_HOME": str(project / "dagster_home")}
    with ExitStack() as running:

        def start(name: str, command: list[str], condition: Callable[[], bool]) -> None:
            log = project / f"{name}.log"
            with log.open("wb") as file:
                process = subprocess.Popen(command, env=environment, cwd=project, stdout=file, stderr=file)
            running.callback(process.wait, 180)
            running.callback(process.terminate)
            until(condition, process=process, log=log)

        for source, command in zip(("shop", "annex"), commands, strict=True):
            start(source, command, lambda port=ports[source]: is_open(port))
        start("web", [sys.executable, *web], lambda: has_both(found))
        yield found


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def has_both(own: OwnDagster) -> bool:
    try:
        return {"silver/shop/silver_orders", "silver/annex/silver_orders"} <= own.assets()
    except httpx.HTTPError:
        return False


def test_what_the_user_declares_at_our_keys_stays_and_a_reload_ends_well(own: OwnDagster) -> None:
    taken = json.loads(own.cdc("shop", "reload", "-o", "json").stdout)
    assert taken["locations"] == ["reloads"]
    assert "silver/shop/gold_of_mine" in own.assets()


@pytest.mark.all
def test_a_table_added_to_a_components_file_is_there_and_one_that_is_taken_out_is_gone(own: OwnDagster) -> None:
    declare(own, "shop", ["public.orders", "public.lines"])
    assert "silver/shop/silver_lines" not in own.assets()
    plan = json.loads(own.cdc("shop", "reload", "--dry-run", "-o", "json").stdout)
    assert plan["changed"] == ["shop"]
    assert "asset silver/shop/silver_lines" in plan["to_come"]
    assert "silver/shop/silver_lines" not in own.assets()

    taken = own.cdc("shop", "reload", "-o", "json")
    assert json.loads(taken.stdout)["locations"] == ["reloads"]
    assert {"bronze/shop/bronze_lines", "silver/shop/silver_lines", "ledger/shop/ledger_lines"} <= own.assets()

    declare(own, "shop", ["public.lines"])
    own.cdc("shop", "reload")
    assert "silver/shop/silver_lines" in own.assets()
    assert not [key for key in own.assets() if key.endswith("shop/orders")]
    assert json.loads(own.cdc("shop", "reload", "--dry-run", "-o", "json").stdout)["changed"] == []


def test_a_code_server_that_cannot_reload_is_told_and_what_to_do(own: OwnDagster) -> None:
    declare(own, "annex", ["public.orders", "public.lines"])
    told = own.cdc("annex", "reload", code=1)
    assert "still lacks asset backup/annex/backup_lines, asset bronze/annex/bronze_lines" in told.stderr
    assert "`dagster api grpc` cannot reload" in told.stderr
    assert "dagster code-server start" in told.stderr
    assert "Traceback" not in told.stderr
    assert "silver/annex/silver_orders" in own.assets()


def test_a_broken_file_is_told_by_line_and_takes_nothing_down(own: OwnDagster) -> None:
    file = own.file("shop").parent / "registry" / "shop.yaml"
    good = file.read_text()
    file.write_text(good + "tabels: []\n")
    try:
        told = own.cdc("shop", "reload", code=1)
        assert f"{file}:{len(good.splitlines()) + 1}: tabels: unknown key" in told.stderr
        assert "silver/shop/silver_lines" in own.assets() or "silver/shop/silver_orders" in own.assets()
    finally:
        file.write_text(good)
