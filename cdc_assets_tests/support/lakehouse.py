"""One embedded stack for all tests of a running one: brought up as a user would, by `cdc up`, and taken down afterwards.

Beside the two example sources two are declared in a folder of the user's own, a MariaDB and a MySQL that the stack does not
run. There the countries of the first one have a history, too. Where a machine has no MySQL, its source is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.stack.home import Home
from cdc_assets_tests.programs.mysql import MYSQL
from cdc_assets_tests.programs.wanted import ProgramMissingError
from cdc_assets_tests.programs.whole_java import WHOLE_JAVA, find_java
from cdc_assets_tests.support.posts import Posts, posts_server
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD, MariaDbServer, mariadb_server
from cdc_assets_tests.support.servers.mysql_server import GTIDS, MySqlServer, mysql_server

ROOT = Path(__file__).parents[2]
PAGE_TIMEOUT_MS = 180_000
SHOP = """
source: shop
database: {{kind: mariadb, host: 127.0.0.1, port: {port}, user: cdc, password: {{secret: shop_db_password}}}}
backup: {{store: {{kind: gcs, bucket: cdc-backup-shop, prefix: lake}}}}
tables:
  - name: shop.orders
    windows:
      - {{name: per_hour, event_time: at, size: 1h, by: [state], measures: {{orders: count, revenue: sum price}}}}
"""
PLANT = """
source: plant
database: {{kind: mysql, host: 127.0.0.1, port: {port}, user: cdc, password: {{secret: plant_db_password}}}}
reconciliation: {{signals: cdc_assets.signal_plant}}
tables:
  - name: plant.parts
  - name: plant.tills
  - name: plant.safes
"""
# What a test counts it asks for: the rhythms' runs were half of the time of all runs.
RARELY = "ledger: {every: 1d}\nvolumetry: {every: 1d}\n"
# What a user puts behind silver: it reads the table by delta-rs, and keeps what it has found beside the lake.
GOLD = """
import json
import os
from pathlib import Path

import dagster as dg
from deltalake import DeltaTable


@dg.asset(key=["gold", "largest_cities"], deps=[dg.AssetKey(["silver", "world", "silver_city"])], group_name="gold")
def largest_cities() -> dg.MaterializeResult:
    lake = Path(os.environ["CDC_LAKE"])
    rows = DeltaTable(lake / "silver" / "world" / "city").to_pyarrow_table(columns=["name", "population"]).to_pylist()
    largest = sorted(rows, key=lambda row: -row["population"])[:10]
    (lake / "largest_cities.json").write_text(json.dumps(largest))
    return dg.MaterializeResult(metadata={"dagster/row_count": len(largest)})


@dg.asset(
    key=["gold", "places"],
    deps=[dg.AssetKey(["silver", "world", "silver_city"])],
    automation_condition=dg.AutomationCondition.eager(),
)
def places() -> None:
    lake = Path(os.environ["CDC_LAKE"])
    rows = DeltaTable(lake / "silver" / "world" / "city").to_pyarrow_table(columns=["name"]).to_pylist()
    written = lake / "places.json.new"
    written.write_text(json.dumps([row["name"] for row in rows]))
    written.replace(lake / "places.json")
"""


def until(condition: Callable[[], Any], what: str, *, seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


@dataclass
class Lakehouse:
    """A running stack, reached through the command line."""

    home: Path
    sources: Path
    mariadb: MariaDbServer
    mysql: MySqlServer | None = None
    up_output: str = ""
    collector: str = ""
    """Where the stack's traces are sent; empty: nowhere."""

    def cdc(self, *arguments: str, timeout: float = 600, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a verb; fails the test with its output when it does not exit 0 (unless told otherwise)."""
        result = subprocess.run(
            [sys.executable, "-m", "cdc_assets.cli", *arguments],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and result.returncode:
            pytest.fail(f"cdc {' '.join(arguments)} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}")
        return result

    def materialize(self, folder: Path, selection: str) -> subprocess.CompletedProcess[str]:
        """As in a CI job: an instance of its own in `folder`, no daemon, no webserver."""
        return subprocess.run(
            [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "cdc_assets.definitions", "--select", selection],
            cwd=ROOT,
            env=self.environment(DAGSTER_HOME=str(folder)),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def follow(self, folder: Path, title: str, block: str, *, code: int = 0) -> str:
        """What a page's block prints in `folder`; the first of its commands that fails ends it, with this exit code."""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-euc", block],
            stdin=subprocess.DEVNULL,
            cwd=folder,
            env={**self.environment(), "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1500,
            check=False,
        )
        assert done.returncode == code, f"{title}: {done.stdout[-6000:]}"
        return done.stdout

    def environment(self, **more: str) -> dict[str, str]:
        """A clean environment that knows nothing but where the state lies."""
        ours = ("CDC_", "DAGSTER_", "AWS_", "STORAGE_EMULATOR_HOST")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        if self.mysql and (java := find_java()):
            # MySQL's connector needs a whole Java, which `cdc up` finds: the PATH of a machine that has one.
            kept |= {"PATH": f"{kept['PATH']}{os.pathsep}{java.parent}", "CDC_VENDOR_DRIVERS": "mysql"}
        return {
            **kept,
            "CDC_HOME": str(self.home),
            "CDC_SOURCES": str(self.sources),
            "CDC_DEFINITIONS": str(self.sources.parent / "gold.py"),
            **({"CDC_ALERTS": str(self.channels)} if self.channels.exists() else {}),
            **({"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector} if self.collector else {}),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
            **more,
        }

    @property
    def channels(self) -> Path:
        """The file that says who is told what went red, where somebody is."""
        return self.home / "alerts.yaml"

    @property
    def addresses(self) -> dict[str, str]:
        """What `stack.json` tells clients."""
        environment: dict[str, str] = json.loads((self.home / "stack.json").read_text())["state"]["environment"]
        return environment

    def private(self, name: str) -> str:
        """A password of the stack itself."""
        return (self.home / "private" / name).read_text()

    def connect(self, database: str) -> Any:
        """An autocommit connection to a source as its own role."""
        import psycopg

        return psycopg.connect(
            host=self.addresses["CDC_POSTGRES_HOST"],
            port=int(self.addresses["CDC_POSTGRES_PORT"]),
            dbname=database,
            user=f"{database}_cdc",
            password=(self.home / "secrets" / f"{database}_db_password").read_text().strip(),
            autocommit=True,
        )

    def silver(self, source: str, table: str) -> Path:
        """The folder of a silver table."""
        return Path(self.addresses["CDC_LAKE"]) / "silver" / source / table

    def history(self, source: str, table: str) -> Path:
        """The folder of a table's versions."""
        return self.silver(source, f"{table}__history")


@pytest.fixture(scope="session")
def mariadb_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A server that allows no zero dates, with the table `shop.orders` and some rows."""
    with mariadb_server(tmp_path_factory.mktemp("shop"), "--sql-mode=TRADITIONAL") as server:
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id bigint unsigned PRIMARY KEY, note varchar(40), price decimal(30,10), at datetime(6),"
            " state enum('new','paid'), paid boolean NOT NULL)",
            "INSERT INTO shop.orders SELECT seq, CONCAT('note ', seq), seq / 7,"
            " '2026-01-01 00:00:00.000001' + INTERVAL seq SECOND, 'new', seq % 2 FROM shop.seq_1_to_500",
        )
        yield server


@pytest.fixture(scope="session")
def mysql_plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer | None]:
    """A server with the table `plant.parts` and some rows; None where there is none, or no Java for its connector."""
    try:
        MYSQL.require()
        WHOLE_JAVA.require()
    except ProgramMissingError:
        yield None
        return
    with mysql_server(tmp_path_factory.mktemp("plant"), *GTIDS) as server:
        server.execute(
            "CREATE DATABASE plant",
            "CREATE TABLE plant.parts (id bigint unsigned PRIMARY KEY, note varchar(40), price decimal(30,10), at datetime(6),"
            " state enum('new','paid'), paid boolean NOT NULL)",
            "INSERT INTO plant.parts WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 500)"
            " SELECT n, CONCAT('note ', n), n / 7, '2026-01-01 00:00:00.000001' + INTERVAL n SECOND, 'new', n % 2 FROM s",
            *(f"CREATE TABLE plant.{table} (id int PRIMARY KEY, money int NOT NULL)" for table in ("tills", "safes")),
            *(f"INSERT INTO plant.{table} VALUES (1, 1000), (2, 1000), (3, 1000)" for table in ("tills", "safes")),
            # What reads tables again: no table elsewhere may be made.
            "GRANT CREATE, INSERT, DELETE ON cdc_assets.* TO cdc",
            "GRANT XA_RECOVER_ADMIN ON *.* TO cdc",
        )
        yield server


@pytest.fixture(scope="session")
def pager() -> Iterator[Posts]:
    """What the stack has posted: alerts to `/pager`, traces below `/otlp`."""
    with posts_server() as server:
        yield server


@pytest.fixture(scope="session")
def lakehouse(
    mariadb_shop: MariaDbServer,
    mysql_plant: MySqlServer | None,
    pager: Posts,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Lakehouse]:
    # While writing tests: `./cdc test cdc_assets_tests/e2e --stack-home .cdc` uses a stack that runs already.
    given = pytestconfig.option.stack_home
    home = Path(given).absolute() if given else Path(tempfile.mkdtemp(prefix="cdc-e2e-"))
    sources = tmp_path_factory.mktemp("sources")
    for example in (ROOT / "cdc_assets" / "sources").glob("*.yaml"):
        (sources / example.name).write_text(example.read_text().replace(", volumetry: {every: 5m}", "") + RARELY)
    (sources.parent / "gold.py").write_text(GOLD)
    world = sources / "world.yaml"
    world.write_text(world.read_text().replace("{name: public.country,", "{name: public.country, history: scd2,"))
    (sources / "shop.yaml").write_text(SHOP.format(port=mariadb_shop.port) + RARELY)
    if mysql_plant:
        (sources / "plant.yaml").write_text(PLANT.format(port=mysql_plant.port) + RARELY)
    for name in ("shop_db_password", "plant_db_password"):
        secret = Home(home).create().secrets / name
        secret.write_text(PASSWORD)
        secret.chmod(0o600)
    house = Lakehouse(home, sources, mariadb_shop, mysql_plant, collector=pager.url("otlp"))
    house.channels.write_text(f"- {{kind: webhook, name: pager, url: '{pager.url('pager')}'}}\n")
    house.channels.chmod(0o600)
    try:
        result = house.cdc("up", timeout=1500, check=False)
        house.up_output = result.stdout + result.stderr
        if result.returncode:
            pytest.fail(f"cdc up exited with {result.returncode}:\n{house.up_output[-8000:]}")
        yield house
    finally:
        if not given:
            house.cdc("down", "--wipe", "--yes", timeout=180, check=False)
            shutil.rmtree(home, ignore_errors=True)
