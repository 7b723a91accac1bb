"""docs/how-to/disaster.md, followed by its own commands on a machine that has lost everything but the bucket.

Oracles: the source database's rows, and delta-rs as the lake's reader.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.e2e.source_rows import current_versions, silver_rows, source_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse
from cdc_assets_tests.support.page_blocks import blocks_of
from cdc_assets_tests.support.servers.endpoints import Endpoint, running
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server

pytestmark = [pytest.mark.e2e, pytest.mark.all]

PASSWORD = "of the shop"
SOURCE = """
source: shop
database: {{kind: postgresql, host: 127.0.0.1, port: {port}, dbname: live, user: live, password: {{secret: shop_db_password}}}}
backup: {{every: 1h, store: {{kind: s3, bucket: cdc-backup, prefix: lake}}}}
tables:
  - {{name: public.orders, history: scd2}}
  - {{name: public.lines, without_key: multiset}}
  - {{name: public.notes}}
"""
TABLES = ("orders", "lines", "notes")
FIRST = (
    "CREATE TABLE orders (id int PRIMARY KEY, state text, total numeric(12,2))",
    "CREATE TABLE lines (of_order int, what text)",
    "ALTER TABLE lines REPLICA IDENTITY FULL",
    "CREATE TABLE notes (id int PRIMARY KEY, words text)",
    "INSERT INTO orders SELECT i, 'new', i / 7.0 FROM generate_series(1, 300) i",
    "INSERT INTO lines SELECT i % 50, 'thing ' || i % 9 FROM generate_series(1, 200) i",
    "INSERT INTO notes SELECT i, 'words of ' || i FROM generate_series(1, 80) i",
)
# With tombstones: they have no position, and are in bronze beside those of the epoch that a restore opens.
BACKED_UP = (
    "UPDATE orders SET state = 'paid' WHERE id % 3 = 0",
    "DELETE FROM lines WHERE of_order = 7",
    "DELETE FROM orders WHERE id % 13 = 0",
    "DELETE FROM notes WHERE id % 7 = 0",
)
AFTER_THE_BACKUP = (
    "DELETE FROM orders WHERE id % 10 = 0",
    "UPDATE orders SET total = total + 1 WHERE id % 4 = 0",
    "INSERT INTO notes VALUES (1000, 'captured, and in no backup')",
    "DELETE FROM lines WHERE of_order = 9",
)
WHILE_NOTHING_RUNS = (
    "DELETE FROM orders WHERE id % 11 = 0",
    "UPDATE orders SET id = id + 5000 WHERE id % 50 = 1",
    "INSERT INTO orders VALUES (10, 'came again', 1)",
    "UPDATE notes SET words = words || '!' WHERE id < 20",
    "DELETE FROM notes WHERE id = 1000",
    "INSERT INTO lines VALUES (900, 'late')",
)


@dataclass
class Machine(Lakehouse):
    """One that keeps its backup in a bucket elsewhere."""

    store: Endpoint = field(default=cast(Any, None))
    backed_up: int = 0
    """Records of bronze that the bucket has."""
    held: int = 0
    """Those that bronze had at the loss."""

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**self.store.environment, **more)

    def bronze_records(self) -> int:
        return DeltaTable(str(self.home / "lake" / "bronze" / "shop")).to_pyarrow_table(columns=["topic"]).num_rows

    def back_up(self, folder: Path) -> None:
        """As a person or a CI job does; the sensor would in an hour."""
        command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "cdc_assets.definitions"]
        environment = self.environment(DAGSTER_HOME=str(folder))
        subprocess.run([*command, "--select", "key:backup/shop/*"], cwd=ROOT, env=environment, check=True, timeout=600)

    def lay_secret(self) -> None:
        """As the page's block of settings does."""
        folder = self.home / "secrets"
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        (folder / "shop_db_password").write_text(PASSWORD)
        (folder / "shop_db_password").chmod(0o600)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_server(tmp_path_factory.mktemp("elsewhere"), password=PASSWORD) as made:
        made.run(*FIRST)
        yield made


@pytest.fixture(scope="module")
def lost(server: OwnServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The machine's folders after the loss: sources are as in git, nothing else is there."""
    sources = tmp_path_factory.mktemp("sources")
    (sources / "shop.yaml").write_text(SOURCE.format(port=server.postgres.site.ports["postgres"]))
    (sources.parent / "gold.py").write_text("")
    home = Path(tempfile.mkdtemp(prefix="cdc-lost-"))
    with running("s3", tmp_path_factory.mktemp("bucket")) as store:
        machine = Machine(home, sources, cast(Any, None), store=store)
        machine.lay_secret()
        try:
            machine.cdc("up", "--no-examples", timeout=1500)
            server.run(*BACKED_UP)
            machine.cdc("wait", timeout=600)
            machine.back_up(tmp_path_factory.mktemp("dagster"))
            machine.cdc("drill", "shop", timeout=600)
            assert {row["table"]: row["behind"] for row in verified(machine)} == dict.fromkeys(TABLES, 0)
            machine.backed_up = machine.bronze_records()
            server.run(*AFTER_THE_BACKUP)
            machine.cdc("wait", timeout=600)
            machine.held = machine.bronze_records()
            machine.cdc("down")
            shutil.rmtree(home)
            server.run(*WHILE_NOTHING_RUNS)
            home.mkdir(mode=0o700)
            machine.lay_secret()
            yield machine
        finally:
            machine.cdc("down", "--wipe", "--yes", timeout=180, check=False)
            shutil.rmtree(home, ignore_errors=True)


def assert_all_checks_are_green(machine: Machine) -> None:
    """Each once more behind the page's last step, on a running stack; the ledger counts both epochs first."""
    dagster = Graphql(machine.addresses["CDC_DAGSTER_URL"], machine.private("dagster_token"))
    dagster.materialize([f"ledger/shop/ledger_{table}" for table in TABLES], {})
    assets = [asset for asset in sorted(dagster.assets()) if asset.split("/")[0] != "topic" and "/shop/" in f"/{asset}/"]
    chosen = [(asset, name) for asset in assets for name in dagster.checks(asset) if name != "drilled"]
    assert {("bronze/shop/bronze_orders", "record_parity"), ("ledger/shop/ledger_orders", "mirror_bronze")} <= {*chosen}
    dagster.execute_checks(chosen)
    found = dagster.statuses_at_end(chosen)
    assert {check: status for check, status in found.items() if status not in ("SUCCEEDED", "")} == {}
    machine.cdc("status")


def verified(machine: Machine) -> list[dict[str, Any]]:
    """Of each table how many of bronze's records the backup lacks."""
    found = json.loads(machine.cdc("backup", "verify", "-o", "json").stdout)
    return [row for row in found if row["table"] in TABLES]


def test_the_page_brings_the_tables_back(lost: Machine, server: OwnServer, tmp_path: Path) -> None:
    (tmp_path / "cdc").symlink_to(ROOT / "cdc")
    blocks = blocks_of("disaster.md", "sh")
    assert list(blocks) == ["install", "settings", "registry", "look", "bronze", "start", "read again", "compare"]
    declared = lost.sources / "shop.yaml"
    text = declared.read_text()
    declared.unlink()
    blocks["registry"] = blocks["registry"].replace("BUCKET/PREFIX", "cdc-backup/lake")
    outputs = {}
    for title in ("registry", "look", "bronze", "start", "read again", "compare"):
        outputs[title] = lost.follow(tmp_path, title, blocks[title], code=1 if title == "start" else 0)
        if title == "registry":
            assert declared.read_text() == text
        if title == "look":
            assert "minutes" in outputs[title], "the drill of before the loss is told"
        if title == "bronze":
            assert lost.bronze_records() == lost.backed_up < lost.held
    assert all(f"cdc repair bronze shop {table}" in outputs["start"] for table in TABLES)
    # Kafka Connect was new, so its connector has read each table; nothing has to be read twice.
    told = "its topic begins with the whole table public.{}; bronze goes on in epoch 1"
    assert all(told.format(table) in outputs["read again"] for table in TABLES)
    for table in TABLES:
        with server.connection() as connection:
            columns, expected = source_rows(connection, table)
        assert silver_rows(lost.silver("shop", table), columns) == expected, outputs["compare"]
    with server.connection() as connection:
        columns, expected = source_rows(connection, "orders")
    assert current_versions(lost.history("shop", "orders"), columns) == expected
    assert_all_checks_are_green(lost)
    versions = DeltaTable(str(lost.history("shop", "orders"))).to_pyarrow_table(columns=["id", "state"]).to_pylist()
    assert {"id": 300, "state": "new"} in versions, "what was captured before the loss is in the history still"
