"""A live PostgreSQL into a lake in the stack's S3 and GCS: tasks and Spark write in turns, and reconcile finds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Producer

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients import delta_rows
from cdc_assets.clients.delta_log import bronze_committed, silver_rows
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.jvm import spark_connect
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.servers.endpoints import SCHEMES
from spark.silver import fold_job as silver_job
from spark.silver.small_tables import SmallTablesSpec
from spark.silver.small_tables import run as fold_in_tasks
from spark.specs import SilverSpec
from spark.table.delta_rs import open_delta
from spark.table.delta_table import table_of
from spark.table.lake_location import spark_conf, spark_variables
from spark.table.spark_session import connect
from spark.table.table_folder import open_folder
from spark.table.write_lease import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.all]
TABLES = [{"name": "public.coin", "history": "scd2"}, "public.toss"]
DDL = """
DROP TABLE IF EXISTS coin, toss;
CREATE TABLE coin (id int PRIMARY KEY, face text, worth numeric(12,2), minted date);
CREATE TABLE toss (coin int, up boolean);
ALTER TABLE coin REPLICA IDENTITY FULL;
INSERT INTO coin SELECT i, 'face ' || i, i / 7.0, '2026-01-01'::date + i FROM generate_series(1, 400) i;
INSERT INTO toss SELECT i, i % 3 = 0 FROM generate_series(1, 90) i;
"""
HOST = """
import sys
from spark.table.identifiers import table_at
from spark.table.write_lease import lend_to_spark
from spark.table.spark_session import connect
remote, path, count = sys.argv[1:]
session = connect(remote)
for number in range(int(count)):
    with lend_to_spark(path):
        session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ('of.other.host.{number}' = 'there')").collect()
"""
"""Another host: a client of its own beside a Spark server of its own. Each of its commits leaves a property."""


class Store(NamedTuple):
    """An endpoint's variables, the jars that reach it, and the root of the lake in it."""

    variables: dict[str, str]
    jars: str
    root: str


@pytest.fixture(scope="module", params=["s3", "gcs"])
def store(request: pytest.FixtureRequest) -> Store:
    variables = request.getfixturevalue(f"{request.param}_endpoint").environment
    return Store(variables, f"spark-{request.param}", f"{SCHEMES[request.param]}://cdc-backup/{uuid.uuid4().hex}")


@pytest.fixture(scope="module")
def remote_of_store(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**store.variables, **spark_variables(store.root)}.items():
            patch.setenv(name, value)
        folder = tmp_path_factory.mktemp("spark-of-store")
        with spark_connect(folder, conf=spark_conf(store.root), jars=[store.jars]) as (address, _):
            yield address


@pytest.fixture(scope="module")
def session_of_store(remote_of_store: str) -> Iterator[SparkSession]:
    session = connect(remote_of_store)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def chain(live: LiveSource, store: Store, remote_of_store: str, session_of_store: SparkSession) -> Iterator[SmallChain]:
    own = replace(live, name=f"objects_{store.jars[6:]}")
    with own.connection() as connection:
        connection.execute(DDL)
    with small_chain(own, remote_of_store, session_of_store, store.root, TABLES) as made:
        yield made


def change(chain: SmallChain, *statements: str) -> None:
    with chain.live.connection() as connection:
        for statement in statements:
            connection.execute(statement)


def who_wrote(path: str) -> list[str]:
    """Of each commit, oldest first: whether Spark made it, or a task."""
    return ["task" if e.get("engineInfo") == "cdc_assets" else "spark" for e in reversed(open_delta(path).history())]


def only_equal(chain: SmallChain) -> None:
    results = chain.compare()
    assert {name: r.sentence() for name, r in results.items() if not r.equal} == {}


def test_the_first_load_is_equal(chain: SmallChain) -> None:
    only_equal(chain)
    committed = bronze_committed(f"{chain.root}/bronze/{chain.source.name}")
    assert committed is not None
    assert sum(topic.records for topic in committed.topics.values()) == 490
    assert silver_rows(chain.silver("coin")) == 400


def coin_spec(chain: SmallChain) -> SilverSpec:
    coin = chain.source.table("coin")
    found = catalogue_of(Chain(chain.platform, chain.source), [coin])
    return silver_spec(chain.root, chain.source, coin, found[coin.id])


def test_tasks_and_spark_write_one_table_in_turns(chain: SmallChain) -> None:
    spec = coin_spec(chain)
    for turn in range(4):
        change(
            chain,
            f"UPDATE coin SET worth = worth + 1 WHERE id % 4 = {turn}",
            f"DELETE FROM coin WHERE id = {turn + 1}",
            f"INSERT INTO coin VALUES ({1000 + turn}, 'new', 1, '2026-02-03')",
        )
        chain.advance(fold=False)
        if turn % 2:
            silver_job.run(chain.session, spec)
        else:
            [outcome] = fold_in_tasks(chain.session, SmallTablesSpec((spec,)))
            assert outcome.left == ""
    assert who_wrote(spec.path)[-4:] == ["task", "spark", "task", "spark"]
    assert "spark" not in who_wrote(spec.bronze_path)
    only_equal(chain)
    # Given back by each: the newest of the row is an end.
    for path in (spec.path, spec.bronze_path):
        folder = open_folder(path)
        assert b'"holder": ""' in folder.read(f"{FOLDER}/{folder.names(FOLDER)[-1]}")


def test_two_hosts_with_a_spark_each_write_one_table(chain: SmallChain, store: Store, tmp_path: Path) -> None:
    """Delta's own store for S3 guards a commit within one JVM alone (delta-io/delta#41)."""
    spec, commits = coin_spec(chain), 10
    known, folds = len(who_wrote(spec.path)), 0
    with spark_connect(tmp_path / "other", conf=spark_conf(store.root), jars=[store.jars]) as (remote, _):
        command = [sys.executable, "-c", HOST, remote, spec.path, str(commits)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as other:
            while other.poll() is None:
                change(chain, "UPDATE coin SET worth = worth + 1 WHERE id % 3 = 1")
                chain.advance(fold=False)
                folds += silver_job.run(chain.session, spec).version is not None
        assert other.stdout is not None
        assert other.returncode == 0, other.stdout.read()[-3000:]
    told = open_delta(spec.path).metadata().configuration
    assert {name for name in told if name.startswith("of.other.host")} == {f"of.other.host.{n}" for n in range(commits)}
    assert len(who_wrote(spec.path)) == known + commits + folds
    assert folds > 1
    only_equal(chain)


def test_a_record_waits_in_quarantine_and_is_given_up(
    chain: SmallChain, store: Store, remote_of_store: str, tmp_path: Path
) -> None:
    """By the verbs, of a table in the store. The oracle: delta-rs, and PostgreSQL for what lies behind the record."""
    source, coin = chain.source, chain.source.table("coin")
    (tmp_path / f"{source.name}.yaml").write_text(source.model_dump_json(exclude_unset=True, by_alias=True))
    own = {"CDC_SOURCES": str(tmp_path), "CDC_LAKE": store.root, "CDC_SPARK_REMOTE": remote_of_store}

    def quarantine(*words: str, code: int = 0) -> Any:
        command = [sys.executable, "-m", "cdc_assets.cli", "quarantine", *words, "-o", "json"]
        done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    producer = Producer({"bootstrap.servers": chain.live.bootstrap})
    producer.produce(names.lake_topic(source, coin), b"no event", partition=0)
    assert producer.flush(30) == 0
    change(chain, "UPDATE coin SET worth = 0 WHERE id = 300")
    chain.advance()
    only_equal(chain)
    table = f"{source.name}/coin"
    (found,) = quarantine("list", table)
    kept = delta_rows.read_rows(open_delta(names.quarantine_path(store.root, source, coin))).read_all().to_pylist()
    assert [(row["offset"], row["error_class"], row["value"]) for row in kept] == [(found["offset"], "envelope", b"no event")]
    assert quarantine("redrive", table, code=1)["left"] == 1
    assert quarantine("drop", table)["dropped"] == 1
    assert quarantine("list", table) == []
    only_equal(chain)


def test_a_history_is_proven(chain: SmallChain) -> None:
    from cdc_assets.chain.fold_specs import history_spec
    from spark.silver import history_job

    coin, spec = chain.source.table("coin"), coin_spec(chain)
    for number in range(2):
        change(chain, f"UPDATE coin SET face = 'f{number}' WHERE id < 50")
        chain.advance()
        history_job.run(chain.session, history_spec(chain.root, chain.source, coin, spec))
    passed, told, counted = chain.history_told("coin")
    assert passed, told
    assert counted[0] > counted[1] > 0


def test_secrets_are_in_no_commit_and_no_setting(chain: SmallChain, store: Store) -> None:
    if "AWS_SECRET_ACCESS_KEY" not in store.variables:
        # The address of GCS's endpoint has its key: it is a setting of Spark, in a file.
        assert not any("credential" in name.lower() for name in spark_conf(store.root))
        return
    secret = store.variables["AWS_SECRET_ACCESS_KEY"]
    for path in (chain.silver("coin"), f"{chain.root}/bronze/{chain.source.name}"):
        assert secret not in str(table_of(path).commits(None))
    assert secret not in str(chain.session.sql("SET").collect())
    assert secret not in str(spark_conf(store.root))
