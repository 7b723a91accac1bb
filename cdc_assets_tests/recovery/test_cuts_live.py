"""A bank under load: money and accounts move between tables, processes are killed, and every cut balances to the cent.

PostgreSQL, Debezium, MirrorMaker 2, Spark and `cdc stream` are real. DuckDB adds up what delta-rs reads of the versions that
a cut names; the database itself is compared with the last cut.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from cdc_assets.clients import delta_rows
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.upkeep_assets import build_backup_assets, build_cut_asset
from cdc_assets.reading import lake_at_cut
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.names import lake_topic
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.writers import at_work
from cdc_assets_tests.support.onboarding.drive import REPOSITORY, ended
from cdc_assets_tests.support.onboarding.drive import cdc as started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME, TABLES = "cutbank", ("cutbank_a", "cutbank_b", "cutbank_c")
ACCOUNTS, MONEY = 60, 1_000
EVERYTHING = " UNION ALL ".join(f"SELECT id, v FROM {table}" for table in TABLES)
BALANCE = f"""
WITH account AS ({EVERYTHING}),
moved AS (SELECT payer AS id, -amount AS v FROM cutbank_transfer UNION ALL SELECT payee, amount FROM cutbank_transfer),
due AS (SELECT id, sum(v) AS v FROM moved GROUP BY id)
SELECT count(*), count(DISTINCT account.id), sum(account.v), count(*) FILTER (account.v <> {MONEY} + coalesce(due.v, 0))
FROM account LEFT JOIN due USING (id)
"""
"""Rows, accounts, money, and accounts whose balance the transfers of the same cut do not explain."""


@dataclass
class Bank:
    cdc: Cdc
    root: Path
    log: Path

    def make(self) -> None:
        """The tables, and accounts in all of them."""
        with self.cdc.live.connection() as connection:
            for number, table in enumerate(TABLES):
                connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v bigint NOT NULL)".encode())
                spread = f"SELECT i, {MONEY} FROM generate_series(1, {ACCOUNTS}) i WHERE i % {len(TABLES)} = {number}"
                connection.execute(f"INSERT INTO {table} {spread}".encode())
            connection.execute(
                "CREATE TABLE cutbank_transfer (id bigserial PRIMARY KEY, payer int, payee int, amount bigint NOT NULL)"
            )
            # An empty table has no topic yet.
            connection.execute("INSERT INTO cutbank_transfer (payer, payee, amount) VALUES (1, 2, 0)")

    def write(self, seed: int, stop: threading.Event) -> None:
        """Transactions over several tables, some of them slow, some rolled back."""
        choice = random.Random(seed)
        with self.cdc.live.connection(autocommit=False) as connection:
            while not stop.is_set():
                # In the order of their numbers, so that no two writers wait for each other.
                chosen = sorted(choice.sample(range(1, ACCOUNTS + 1), 2 * choice.choice([1, 1, 2, 5])))
                for payer, payee in zip(chosen[::2], chosen[1::2], strict=True):
                    amount = choice.randrange(-50, 50)
                    for account, change in ((payer, -amount), (payee, amount)):
                        # Whoever waits for a row that goes to another table would find it in none.
                        connection.execute("SELECT pg_advisory_xact_lock(%s)", (account,))
                        for table in TABLES:
                            statement = f"UPDATE {table} SET v = v + %s WHERE id = %s"
                            connection.execute(statement.encode(), (change, account))
                        if choice.random() < 0.05:
                            time.sleep(choice.random() / 2)
                    told = "INSERT INTO cutbank_transfer (payer, payee, amount) VALUES (%s, %s, %s)"
                    connection.execute(told.encode(), (payer, payee, amount))
                    if choice.random() < 0.2:
                        self.move(connection, choice, payee)
                connection.rollback() if choice.random() < 0.05 else connection.commit()
                time.sleep(0.1 * choice.random())

    def move(self, connection: Any, choice: random.Random, account: int) -> None:
        """The account goes to another table."""
        other = choice.choice(TABLES)
        for table in TABLES:
            gone = connection.execute(f"DELETE FROM {table} WHERE id = %s RETURNING v".encode(), (account,)).fetchone()
            if gone is not None:
                connection.execute(f"INSERT INTO {other} VALUES (%s, %s)".encode(), (account, gone[0]))
                return

    def in_source(self) -> dict[str, list[tuple[Any, ...]]]:
        with self.cdc.live.connection() as connection:
            return {t: connection.execute(f"TABLE {t} ORDER BY 1".encode()).fetchall() for t in (*TABLES, "cutbank_transfer")}

    @contextmanager
    def carried(self) -> Iterator[Callable[[], None]]:
        """Bronze and silver are carried by a process of its own; what is given kills it, and starts another one."""
        running: list[subprocess.Popen[bytes]] = []

        def start() -> None:
            stop()
            with self.log.open("ab") as log:
                command = [sys.executable, "-m", "cdc_assets.cli", "stream", NAME]
                running.append(subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log))

        def stop() -> None:
            while running:
                process = running.pop()
                process.kill()
                process.wait()

        try:
            start()
            yield start
        finally:
            stop()

    def check(self, cut: dict[str, Any], restored: Path | None = None) -> int:
        """How many transfers it holds, by DuckDB over what delta-rs reads of its versions, or of tables restored up to it."""
        import duckdb

        with duckdb.connect() as connection:
            for entry in cut["entries"]:
                if entry["layer"] == "silver":
                    version = None if restored else entry["version"]
                    table = DeltaTable(str((restored or self.root) / entry["path"]), version=version)
                    rows = delta_rows.read_rows(table).read_all()
                    assert rows.num_rows == entry["rows"]
                    connection.register(entry["table"], rows)
            found = connection.execute(BALANCE).fetchall()
            assert found == [(ACCOUNTS, ACCOUNTS, ACCOUNTS * MONEY, 0)], (cut, found)
            (count,) = connection.execute("SELECT count(*) FROM cutbank_transfer").fetchall()[0]
            return int(count)

    def cut_by_asset(self) -> dict[str, Any]:
        """What the asset tells is what `cdc cut show` has of it."""
        asset = build_cut_asset(load_source(self.cdc.folder / f"{NAME}.yaml"))
        [event] = self.materialize(asset).asset_materializations_for_node(asset.op.name)
        told = {name: value.value for name, value in event.metadata.items()}
        shown: dict[str, Any] = self.cdc.json("cut", "show", NAME)
        silver = [entry for entry in shown["entries"] if entry["layer"] == "silver"]
        assert (told["cdc/cut"], told["cdc/position"]) == (shown["cut"], shown["position"])
        assert told["cdc/rows"] == sum(entry["rows"] for entry in silver)
        assert told["cdc/cuts_forgotten"] == 0
        assert told["dagster/uri"] == str(self.root / "cuts" / NAME)
        rows: Any = event.metadata["cdc/tables"]
        versions = {(record.data["layer"], record.data["table"]): record.data["version"] for record in rows.records}
        assert versions == {(entry["layer"], entry["table"]): entry["version"] for entry in shown["entries"]}
        return shown

    def back_up(self) -> None:
        """By the asset."""
        self.materialize(build_backup_assets(load_source(self.cdc.folder / f"{NAME}.yaml")))

    def materialize(self, asset: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
        done = dg.materialize([asset], resources={"platform": PlatformResource()})
        assert done.success
        return done


@pytest.fixture
def bank(
    make_cdc: Callable[[str], Cdc], remote: str, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bank:
    bank = Bank(make_cdc(NAME), tmp_path / "lake", tmp_path / "stream.log")
    bank.make()
    bank.cdc.declare(*(f"public.{table}" for table in (*TABLES, "cutbank_transfer")), heartbeat="1s")
    file = bank.cdc.folder / f"{NAME}.yaml"
    (tmp_path / "bucket").mkdir()
    store = f"{{kind: local, bucket: {tmp_path / 'bucket'}, prefix: lake}}"
    file.write_text(file.read_text() + f"cuts: {{every: 1m, keep: 1h}}\nbackup: {{store: {store}}}\n")
    assert [row["summary"] for row in bank.cdc.json("apply", NAME)] == ["created", "created"]
    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    monkeypatch.setenv("CDC_LAKE", str(bank.root))
    source = load_source(file)
    topics = [lake_topic(source, table) for table in source.tables]
    until(lambda: len(Platform().lake_kafka().states(topics)) == len(topics), 300)
    return bank


def test_every_cut_of_a_bank_under_load_balances(bank: Bank) -> None:
    choice, cuts, killed = random.Random(11), list[dict[str, Any]](), 0
    planned = bank.cdc.json("cut", "make", NAME, "--dry-run")
    assert {row["table"] for row in planned} == {*TABLES, "cutbank_transfer"}
    assert not (bank.root / "cuts").exists()
    with at_work(bank.write), bank.carried() as start_again:
        for fate in ("killed", "left alone", "without Connect"):
            process = started("cut", "make", NAME, "-o", "json")
            if fate == "killed":
                time.sleep(1 + 4 * choice.random())
                killed += process.poll() is None
                process.kill()
                process.communicate()
                start_again()
                continue
            if fate == "without Connect":
                bank.cdc.live.parts["core-connect"].kill()
                bank.cdc.live.parts["core-connect"].start()
                out, told = process.communicate(timeout=400)
                # Where the connector is back too late for the marker, that is said, and nothing is left behind.
                assert process.returncode == 0 or "did not arrive" in told, told
                cuts += [json.loads(out)] if process.returncode == 0 else []
                continue
            cuts.append(ended(process, seconds=300))
            bank.check(cuts[-1])
    assert killed, "no kill came before the end of a cut"
    last = bank.cut_by_asset()
    counts = [bank.check(cut) for cut in (*cuts, last)]
    assert counts == sorted(counts)
    assert len(set(counts)) == len(counts), "nothing moved between two cuts"
    # Nobody writes any more: the last cut is the database.
    of_source = bank.in_source()
    at_last = lake_at_cut.at(NAME)
    assert at_last.manifest.cut == last["cut"]
    for table, rows in of_source.items():
        own = [column for column in at_last[table].to_arrow().column_names if not column.startswith("_cdc_")]
        found = at_last[table].to_arrow().select(own).sort_by(own[0]).to_pylist()
        assert [tuple(row.values()) for row in found] == rows
    listed = bank.cdc.json("cut", "list", NAME)
    assert next(row["cut"] for row in listed) == last["cut"]
    assert {cut["cut"] for cut in cuts} <= {row["cut"] for row in listed}
    total = f"SELECT sum(v) AS money FROM ({EVERYTHING.replace('FROM ', f'FROM silver.{NAME}.')})"
    for cut in (cuts[0]["cut"], NAME):
        assert bank.cdc.json("sql", total, "--cut", cut) == [{"money": ACCOUNTS * MONEY}]
    assert bank.cdc.json("sql", total, "--cut", cuts[0]["cut"], "--spark") == [{"money": ACCOUNTS * MONEY}]
    # The backup goes beyond the first cut, and the lake's own cuts are lost.
    bank.back_up()
    shutil.rmtree(bank.root / "cuts")
    then = bank.root.parent / "then"
    bank.cdc("restore", NAME, "--into", str(then), "--to", cuts[0]["cut"])
    assert bank.check(cuts[0], then) == counts[0] < counts[-1]
    assert bank.cdc.json("backup", "verify", NAME)
