"""The chain on a cluster of two executors, of which one is killed in the middle of each job: no row is lost, none comes twice."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import history_spec, silver_spec
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.executors import Executors
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.lake.readings import SOURCE
from cdc_assets_tests.support.lake.standalone import FIRST_COMPILER, standalone
from cdc_assets_tests.support.lake.topics import Broker
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.bronze import append_job
from spark.silver import fold_job as silver
from spark.silver import history_job as history
from spark.specs import SilverSpec

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.all]
ROOT = Path(__file__).parents[2]
TABLE = "meter"
ROWS = 3_000
DDL = f"""
CREATE TABLE {TABLE} (id int PRIMARY KEY, v text);
INSERT INTO {TABLE} SELECT i, 'v' || i FROM generate_series(1, {ROWS}) i;
"""


@dataclass(frozen=True)
class TwoExecutors:
    """A Spark Connect server on a cluster, and its executors."""

    remote: str
    executors: Executors


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoExecutors]:
    folder = tmp_path_factory.mktemp("two-executors")
    with standalone(folder / "cluster", workers=2) as master, spark_connect(folder / "connect", master=master) as (remote, _):
        yield TwoExecutors(remote, Executors(folder / "cluster" / "work", folder / "connect" / "spark.log"))


@dataclass
class Round:
    """The chain with one row changed of three, and some gone and come, each time that it is asked to go on."""

    chain: SmallChain
    number: int = 0

    def change(self) -> None:
        self.number += 1
        with self.chain.live.connection() as connection:
            connection.execute(f"UPDATE {TABLE} SET v = 'round {self.number} of ' || id WHERE id % 3 = {self.number % 3}")
            connection.execute(f"DELETE FROM {TABLE} WHERE id % 100 = {self.number}")
            connection.execute(
                f"INSERT INTO {TABLE} SELECT {ROWS} + {1000 * self.number} + i, 'new' FROM generate_series(1, 50) i"
            )

    def spec(self) -> SilverSpec:
        source, platform = self.chain.source, self.chain.platform
        table = source.table(TABLE)
        return silver_spec(str(self.chain.root), source, table, catalogue_of(Chain(platform, source), [table])[table.id])

    def keep_history(self) -> None:
        source = self.chain.source
        history.run(self.chain.session, history_spec(str(self.chain.root), source, source.table(TABLE), self.spec()))


@contextmanager
def chain_of_one_table(live: LiveSource, remote: str, root: Path) -> Iterator[Round]:
    with live.connection() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(DDL)
    with SparkSessions(remote).session() as session:
        with small_chain(live, remote, session, root, [{"name": f"public.{TABLE}", "history": "scd2"}]) as chain:
            made = Round(chain)
            made.keep_history()
            yield made


@pytest.mark.parametrize("of_tasks", ["silver", "bronze"])
@pytest.mark.all
def test_an_executor_killed_in_each_job_costs_no_row(
    live: LiveSource, cluster: TwoExecutors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_tasks: str
) -> None:
    """One of bronze and silver is written in tasks, the other by Spark's plans."""
    one_killed = cluster.executors.one_killed
    with chain_of_one_table(replace(live, name=f"executors_{of_tasks}"), cluster.remote, tmp_path) as made:
        chain = made.chain
        if of_tasks == "silver":
            monkeypatch.setattr(append_job, "can_append_by_tasks", lambda _: False)
        made.change()
        with one_killed():
            chain.advance(fold=False)
        with one_killed():
            if of_tasks == "silver":
                chain.fold()
            else:
                silver.run(chain.session, made.spec())
        with one_killed():
            made.keep_history()
        with one_killed():
            compared = chain.compare()
        assert [each.verdict for each in compared.values()] == ["equal"]
        compare_all(chain)


def compare_all(chain: SmallChain) -> None:
    """By PostgreSQL's rows and Debezium's records, read by delta-rs."""
    with chain.live.connection() as connection:
        expected = connection.execute(f"SELECT id, v FROM {TABLE}").fetchall()
    assert sorted(rows(chain.silver(TABLE), "id", "v")) == sorted(expected)
    records = chain.live.delivered()[chain.topics[0]]
    sent = [record for partition in records.values() for record in partition]
    bronze = rows(names.bronze_path(str(chain.root), chain.source), "partition", "offset")
    # The copier has left transactions and their gaps behind.
    assert sorted(bronze) == [(0, offset) for offset in range(len(sent))]
    changes = [json.loads(record.value) for record in sent if record.value is not None]
    versions = [(c["after"]["id"], c["after"]["v"]) for c in changes if c["op"] != "d"]
    kept = rows(names.history_path(str(chain.root), chain.source, chain.source.table(TABLE)), "id", "v", "_is_current")
    assert sorted((i, v) for i, v, _ in kept) == sorted(versions)
    assert sorted((i, v) for i, v, current in kept if current) == sorted(expected)


def rows(path: str, *columns: str) -> list[tuple[Any, ...]]:
    chosen = ", ".join(f'"{column}"' for column in columns)
    found = QueryBuilder().register("t", DeltaTable(path)).execute(f"SELECT {chosen} FROM t").read_all()
    return [tuple(row.values()) for row in found.to_struct_array().to_pylist()]


def test_two_executors_write_a_table_in_turns(cluster: TwoExecutors, tmp_path: Path) -> None:
    """The lock of a table on one disk is the kernel's, whichever executor's task takes it."""
    path = str(tmp_path / "table")

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        import psutil
        import pyarrow

        from spark.table.write_lease import lend_to_task

        for batch in batches:
            with lend_to_task(path, seconds=60):
                began = time.time()
                time.sleep(0.4)
                ended = time.time()
            jvm = next(each.pid for each in psutil.Process().parents() if each.name() == "java")
            yield pyarrow.RecordBatch.from_pylist([{"jvm": jvm, "began": began, "ended": ended}] * batch.num_rows)

    with SparkSessions(cluster.remote).session() as session:
        told = session.range(0, 6, 1, 6).mapInArrow(hold, "jvm long, began double, ended double").collect()
    spans = sorted((row.began, row.ended) for row in told)
    assert [first[1] <= second[0] for first, second in itertools.pairwise(spans)] == [True] * 5
    assert len({row.jvm for row in told}) == 2


@pytest.mark.all
def test_an_executor_killed_in_each_job_of_spark_submit(kafka: str, tmp_path: Path) -> None:
    """Bronze, silver and history, each a driver and an application of its own."""
    topic, lake = Broker(kafka).topic(), tmp_path / "lake"
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(6_000):
        key = number % 2_000
        producer.produce(topic, json.dumps({"id": key, "at": f"at {number}"}).encode(), json.dumps({"id": key}).encode())
        producer.poll(0)
    assert producer.flush(60) == 0
    (tmp_path / "sources").mkdir()
    declared = SOURCE.format(topic=topic).replace("keys: [id]", "keys: [id], history: scd2")
    (tmp_path / "sources" / "feeds.yaml").write_text(declared)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_", "SPARK_"))}
    own = {"CDC_HOME": str(tmp_path / "home"), "CDC_SOURCES": str(tmp_path / "sources"), "CDC_LAKE_BOOTSTRAP": kafka}
    environment = {**kept, **own, "CDC_LAKE": str(lake), "JDK_JAVA_OPTIONS": FIRST_COMPILER}

    def cdc(*arguments: str) -> str:
        with (tmp_path / "driver.log").open("ab") as log:
            command = [sys.executable, "-m", "cdc_assets.cli", *arguments]
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, check=True, timeout=400)
        return done.stdout.decode()

    with standalone(tmp_path / "cluster", workers=2) as master:
        executors = Executors(tmp_path / "cluster" / "work", tmp_path / "driver.log")
        for job in ("bronze", "silver", "history"):
            spec = tmp_path / f"{job}.json"
            spec.write_text(cdc("spec", job, "feeds", *(() if job == "bronze" else ("readings",))))
            with executors.one_killed():
                cdc("spark-submit", "--master", master, "spark/__main__.py", "--job", job, "--spec", str(spec))
    newest = [(key, f"at {4_000 + key}") for key in range(2_000)]
    assert sorted(rows(str(lake / "silver" / "feeds" / "readings"), "id", "at")) == newest
    versions = rows(str(lake / "silver" / "feeds" / "readings__history"), "id", "at")
    assert sorted(versions) == sorted((number % 2_000, f"at {number}") for number in range(6_000))
    assert sorted(rows(str(lake / "bronze" / "feeds"), "offset")) == [(offset,) for offset in range(6_000)]
