"""Bronze against a real broker: exactly the committed records, once, and no silence about what is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.opened_store import open_store
from cdc_assets.defs.asset_specs import table_spec
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.topics import Broker
from spark.bronze import append_job as bronze
from spark.errors import JobRefusedError
from spark.specs import BronzeSpec, JobResult, TopicRange
from spark.table.delta_table import DeltaTable
from spark.table.topic_commits import Past

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def broker(kafka: str) -> Broker:
    return Broker(kafka)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "bronze")


def spec(broker: Broker, path: str, *ranges: TopicRange, **options: str) -> BronzeSpec:
    return BronzeSpec(path, broker.bootstrap, ranges, uuid.uuid4().hex, options)


def test_only_committed_records_with_their_bytes(session: SparkSession, broker: Broker, path: str) -> None:
    topic = broker.topic()
    broker.transaction(topic, ['{"op":"c"}', "no json \N{SNOWMAN}"])
    broker.transaction(topic, ["aborted"], end="abort")
    broker.transaction(topic, ["second"])
    result = bronze.run(session, spec(broker, path, broker.range(topic)))
    found = rows(path)
    assert [row["value"].decode() for row in found] == ['{"op":"c"}', "no json \N{SNOWMAN}", "second"]
    assert [row["offset"] for row in found] == [0, 1, 5]
    assert found[0]["headers"] == [{"key": "h", "value": b"\x00\xff"}]
    assert result.by_op == {"c": 1, "unknown": 2}
    assert result.rows_inserted == 3
    assert committed(path).topics[topic].positions == {0: broker.last_stable(topic)}
    written = session.read.format("delta").load(path).schema
    assert columns_that_dagster_shows() == [(field.name, field.dataType.simpleString()) for field in written]


def columns_that_dagster_shows() -> list[tuple[str, str]]:
    table = {"name": "t", "topic": "t", "envelope": "json", "columns": {"sensor": "text"}}
    source = TopicSource.model_validate({"source": "feeds", "kind": "topics", "tables": [table]})
    found = table_spec("bronze", source, source.tables[0]).metadata["dagster/column_schema"].columns
    return [(column.name, column.type) for column in found]


def test_the_same_range_twice_adds_nothing(session: SparkSession, broker: Broker, path: str) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["a", "b"])
    asked = broker.range(topic)
    bronze.run(session, spec(broker, path, asked))
    again = bronze.run(session, spec(broker, path, asked))
    assert (again.version, again.rows_inserted, len(rows(path))) == (None, 0, 2)
    broker.transaction(topic, ["c"])
    more = bronze.run(session, spec(broker, path, broker.range(topic)))
    assert (more.rows_inserted, len(rows(path))) == (1, 3)


def test_a_range_of_markers_only_moves_on(session: SparkSession, broker: Broker, path: str) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["a"])
    bronze.run(session, spec(broker, path, broker.range(topic)))
    before = broker.last_stable(topic)
    broker.transaction(topic, ["never"], end="abort")
    result = bronze.run(session, spec(broker, path, broker.range(topic, before)))
    assert (result.rows_inserted, result.version) == (0, 1)
    assert committed(path).topics[topic].positions == {0: broker.last_stable(topic)}


def test_many_topics_in_one_commit(session: SparkSession, broker: Broker, path: str) -> None:
    topics = [broker.topic() for _ in range(4)]
    for number, topic in enumerate(topics[:3]):
        broker.transaction(topic, ["x"] * (number + 1))
    result = bronze.run(session, spec(broker, path, *[broker.range(topic) for topic in topics]))
    assert (result.version, result.rows_inserted) == (0, 6)
    state = committed(path).topics
    assert [state[topic].records for topic in topics] == [1, 2, 3, 0]


def test_topics_compressed_by_every_codec(session: SparkSession, broker: Broker, path: str) -> None:
    values = [f"the same words {n}" for n in range(50)]
    topics = {codec: broker.topic() for codec in ("gzip", "snappy", "lz4", "zstd")}
    for codec, topic in topics.items():
        broker.send(topic, [(None, value) for value in values], codec=codec)
    bronze.run(session, spec(broker, path, *[broker.range(topic) for topic in topics.values()]))
    found = rows(path)
    assert {topic: [r["value"].decode() for r in found if r["topic"] == topic] for topic in topics.values()} == dict.fromkeys(
        topics.values(), values
    )


def test_an_open_transaction_holds_the_range_end_back(session: SparkSession, broker: Broker, path: str) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["a"])
    producer = broker.transaction(topic, ["undecided"], end="open")
    bronze.run(session, spec(broker, path, broker.range(topic)))
    assert [row["value"] for row in rows(path)] == [b"a"]
    beyond = broker.range(topic, end=broker.last_stable(topic) + 1)
    with pytest.raises(JobRefusedError, match=rf"{topic} partition 0 offsets 2\.\.2.*last stable offset"):
        bronze.run(session, spec(broker, path, beyond, **{"kafkaConsumer.pollTimeoutMs": "2000"}))
    broker.commit(producer, topic)
    bronze.run(session, spec(broker, path, broker.range(topic)))
    assert sorted(row["value"] for row in rows(path)) == [b"a", b"undecided"]


@pytest.mark.parametrize("kept_from", [3, 6])
def test_records_that_are_gone_are_named(session: SparkSession, broker: Broker, path: str, kept_from: int) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["a", "b", "c", "d", "e"])
    broker.delete_before(topic, kept_from)
    with pytest.raises(JobRefusedError, match=rf"{topic} partition 0 offsets 0\.\.5"):
        bronze.run(session, spec(broker, path, broker.range(topic)))
    assert not Path(path, "_delta_log").exists()


def test_each_row_says_its_epoch_and_the_backup_follows(session: SparkSession, tmp_path: Path) -> None:
    """A topic made again begins at offset 0 with the same records; tombstones have no position to tell them by."""
    store = open_store(BackupStore(kind="local", bucket=str(tmp_path / "bucket")))
    store.create_bucket()
    lake = Lake(session, tmp_path)
    lake.put("t", *[Record(n, f'{{"id":{n}}}', None if n % 2 else '{"op":"c"}') for n in range(6)])

    def saved() -> int:
        return backup_table(store, source="source", table="t", bronze_path=lake.bronze_path).records

    lake.append(lake.ranges("t", {0: 4}))
    assert saved() == 4
    lake.append(lake.ranges("t", {0: 6}))
    lake.epoch, lake.topic_id = 1, "made again"
    lake.append(lake.ranges("t", {0: 5}))
    assert saved() == 7
    assert sorted((row["epoch"], row["offset"]) for row in rows(lake.bronze_path)) == [
        *((0, n) for n in range(6)),
        *((1, n) for n in range(5)),
    ]
    report = verify_backup(store, source="source", table="t", bronze_path=lake.bronze_path, deep=True)
    assert (report.differences, report.records, report.behind) == ((), 11, 0)
    assert committed(lake.bronze_path).topics["core.source.public.t"].before == (Past(0, {0: 6}, 6, "topic-id"),)


def test_a_hole_another_topic_and_own_options_are_refused(session: SparkSession, broker: Broker, path: str) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["a", "b"])
    bronze.run(session, spec(broker, path, broker.range(topic)))
    with pytest.raises(JobRefusedError, match=rf"{topic} partition 0.*offset 5.*up to 3.*offsets 3\.\.4 would be lost"):
        bronze.run(session, spec(broker, path, broker.range(topic, 5, 9)))
    other = TopicRange("t", topic, "id-2", 0, {0: (0, 3)})
    with pytest.raises(JobRefusedError, match=r"recreated: its id is id-2, bronze has committed id-1"):
        bronze.run(session, spec(broker, path, other))
    with pytest.raises(JobRefusedError, match="failOnDataLoss"):
        bronze.run(session, spec(broker, path, broker.range(topic, 3, 9), failOnDataLoss="false"))


def test_killed_after_the_commit(remote: str, session: SparkSession, broker: Broker, path: str, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["a", "b"])
    asked = spec(broker, path, broker.range(topic))
    (tmp_path / "spec.json").write_text(asked.to_json())
    # The job's process dies as soon as its commit is in the log.
    code = (
        "import os, signal, sys; from spark import __main__; from spark.bronze import append_job, part_files\n"
        "append_job.can_append_by_tasks = lambda _: False\n"
        "part_files.append_result = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(__main__.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "--job", "bronze", "--spec", str(tmp_path / "spec.json"), "--remote", remote]
    killed = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(rows(path)) == 2
    again = subprocess.run([sys.executable, "-m", "spark", *command[3:]], capture_output=True, timeout=120, check=True, text=True)
    assert JobResult.from_json(again.stdout).version is None
    assert len(rows(path)) == 2


def test_an_append_that_comes_too_late_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """A job has looked at the log, and before it commits somebody else has appended its records: nothing is there twice."""
    lake = Lake(session, tmp_path)
    lake.put("t", *[Record(offset, None, f'{{"op":"c","n":{offset}}}') for offset in range(6)])
    lake.put("other", Record(0, None, '{"op":"r"}'))
    lake.append(lake.ranges("t", {0: 2}), lake.ranges("other", {0: 1}))
    stale = committed(lake.bronze_path)
    lake.append(lake.ranges("t", {0: 6}))
    looks = [stale, stale]
    with pytest.MonkeyPatch.context() as patch:
        whole = DeltaTable.fold
        patch.setattr(DeltaTable, "fold", lambda *a, **k: looks.pop() if looks else whole(*a, **k))
        lake.by_task = False
        assert lake.append(lake.ranges("t", {0: 4})).version is None
        assert looks == []
    assert sorted(row["offset"] for row in rows(lake.bronze_path)) == [0, 0, 1, 2, 3, 4, 5]
    after = committed(lake.bronze_path)
    assert after.topics["core.source.public.t"].records == 6
    assert after.topics["core.source.public.t"].positions == {0: 6}


# The job, which says that it has come to a step, and waits there to be killed; or is never stopped.
_AS_FAR_AS = """
import sys, time
from spark import __main__
from spark.bronze import append_job as bronze

def stop(*arguments, **named):
    print("here", flush=True)
    time.sleep(600)

bronze.can_append_by_tasks = lambda _: False
if sys.argv[1]:
    setattr(bronze, sys.argv[1], stop)
sys.exit(__main__.main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("_persist_and_count", id="reading", marks=pytest.mark.all),
        pytest.param("_write_events", id="before the write", marks=pytest.mark.all),
        pytest.param("", id="within the write"),
    ],
)
def test_killed_while_writing(remote: str, session: SparkSession, broker: Broker, path: str, tmp_path: Path, where: str) -> None:
    topic = broker.topic()
    broker.transaction(topic, ["x" * 1000] * 2000)
    asked = spec(broker, path, broker.range(topic))
    (tmp_path / "spec.json").write_text(asked.to_json())
    arguments = ["--job", "bronze", "--spec", str(tmp_path / "spec.json"), "--remote", remote]
    command, own = [sys.executable, "-c", _AS_FAR_AS, where, *arguments], {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as process:
        assert process.stdout is not None
        if where:
            assert process.stdout.readline() == "here\n"
        else:
            # A file of rows is opened where the table will be, and committed when it is full.
            while not [*Path(path).rglob("*.parquet")]:
                assert process.poll() is None
                time.sleep(0.002)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    # The server goes on with what the dead client had asked for, and commits nothing of it.
    bronze.run(session, asked)
    assert len(rows(path)) == 2000


def test_the_command_line_says_why_it_failed(remote: str, broker: Broker, path: str, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"path": "x", "topicz": []}')
    command = [sys.executable, "-m", "spark", "--job", "bronze", "--spec", str(tmp_path / "spec.json"), "--remote", remote]
    failed = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.splitlines()[-1].startswith("bronze: BronzeSpec has unknown keys ['topicz']")
