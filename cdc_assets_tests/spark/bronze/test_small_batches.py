"""The two writers of bronze make the same of the same records: rows, and what the commit says of them."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets_tests.support.lake.lake import append_here, rows
from cdc_assets_tests.support.lake.topics import Broker
from spark.bronze import append_job, part_files
from spark.bronze.narrow_columns import narrow
from spark.bronze.range_reader import SCHEMA
from spark.record_formats import ANCHOR_HEADER
from spark.specs import BronzeSpec, JobResult, TopicRange
from spark.table.commit_metadata import parse
from spark.table.delta_table import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("postgresql", "mariadb", "mysql")


def source_of(kind: str, number: int, op: str, choice: random.Random) -> dict[str, Any]:
    snapshot = choice.choice(["true", "first", "last"]) if op == "r" else choice.choice(["false", None])
    times = {"ts_ms": 1_700_000_000_000 + number, "snapshot": snapshot}
    times |= {"ts_us": 1_700_000_000_000_123 + number} if choice.random() < 0.7 else {}
    if kind == "postgresql":
        commit = None if op == "r" and choice.random() < 0.7 else str(900 + number)
        sequence = json.dumps([commit, str(1000 + number)])
        lsn = {} if choice.random() < 0.2 else {"lsn": 1000 + number}
        return {**times, "sequence": sequence, "txId": choice.choice([None, number]), **lsn}
    return {
        **times,
        "file": f"binlog.{number // 7:06d}",
        "pos": 4 + number,
        "row": number % 3,
        "gtid": choice.choice([None, "0-1-2"]),
    }


def records_of(kind: str, seed: int) -> list[tuple[str | None, str | None]]:
    choice, found = random.Random(seed), []
    for number in range(choice.randrange(20, 60)):
        op = choice.choice("rrcuuudtm")
        key = json.dumps({"id": number % 5}) if op != "t" and choice.random() < 0.9 else None
        after = {"id": number, "v": "ünï\n☃"} if op in "cur" else None
        value = {"before": None, "after": after, "source": source_of(kind, number, op, choice), "op": op}
        found.append((key, json.dumps(value)))
        if op == "d":
            found.append((key, None))
    return found


def said(path: str) -> dict[str, Any]:
    """The newest commit's metadata, less whose it is."""
    [commit] = table_of(path).commits(1) or []
    data = parse(commit["userMetadata"], "bronze", commit["version"])
    assert data is not None
    return {name: value for name, value in data.items() if name != "operation_id"}


def ranges(broker: Broker, topics: list[tuple[str, str]], *, end: bool) -> list[TopicRange]:
    found = []
    for topic, kind in topics:
        stops = {p: broker.last_stable(topic, p) for p in (0, 1)} if end else {0: 1, 1: 0}
        found.append(TopicRange(topic[-9:], topic, "id-1", 3, {p: (0, stop) for p, stop in stops.items()}, connector=kind))
    return found


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.all) for seed in (0, 2))])
def test_the_same_rows_and_the_same_commit(
    session: SparkSession, kafka: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(kafka)
    if seed == 2:
        monkeypatch.setattr(append_job, "small_work_lack", lambda _: "executors without Python: the client does it")
    if seed:
        # Several tasks write, more of them than run at a time, and another commits.
        monkeypatch.setattr(append_job, "OFFSETS_A_PART", 20)
        monkeypatch.setattr(append_job, "MOST_OFFSETS_A_PART", 50)
    topics = [(broker.topic(partitions=2), kind) for kind in KINDS]
    for number, (topic, kind) in enumerate(topics):
        for partition in (0, 1):
            broker.send(topic, records_of(kind, 100 * seed + 10 * number + partition), partition=partition)
            broker.send(topic, records_of(kind, seed), partition=partition, end="abort")
    paths = [str(tmp_path / name) for name in ("spark", "task")]

    def run(path: str, *, end: bool, writer: Any) -> JobResult:
        return writer(session, BronzeSpec(path, kafka, tuple(ranges(broker, topics, end=end)), uuid.uuid4().hex))

    for path in paths:
        run(path, end=False, writer=append_job.append_by_spark)
    first = run(paths[0], end=True, writer=append_job.append_by_spark)
    outcome = append_job.append_by_tasks(
        session, BronzeSpec(paths[1], kafka, tuple(ranges(broker, topics, end=True)), uuid.uuid4().hex)
    )
    second = outcome.result
    assert second is not None, outcome.left
    order = ("topic", "partition", "offset")
    one, other = (sorted(rows(path), key=lambda row: [row[name] for name in order]) for path in paths)
    assert other == one
    assert said(paths[1]) == said(paths[0])
    assert (second.by_op, second.ranges, second.version) == (first.by_op, first.ranges, first.version)
    anew = str(tmp_path / "anew")
    outcome = append_job.append_by_tasks(session, BronzeSpec(anew, kafka, tuple(ranges(broker, topics, end=True)), "anew"))
    assert outcome.result is not None, outcome.left
    assert sorted(rows(anew), key=lambda row: [row[name] for name in order]) == one
    made, other_made = (session.read.format("delta").load(path).schema for path in (anew, paths[0]))
    assert [(f.name, f.dataType) for f in made] == [(f.name, f.dataType) for f in other_made]
    assert DeltaTable(anew).metadata().configuration == DeltaTable(paths[0]).metadata().configuration
    again = BronzeSpec(paths[1], kafka, tuple(ranges(broker, topics, end=True)), "again")
    outcome = append_job.append_by_tasks(session, again)
    assert outcome.result is not None
    assert [outcome.result.version, append_job.append_by_spark(session, again).version] == [None, None]
    assert session.read.format("delta").load(paths[1]).count() == len(one)


@pytest.mark.parametrize(
    "value",
    [
        "no json",
        '{"op":"c","source":{"lsn":1}}',
        *(pytest.param(value, marks=pytest.mark.all) for value in ("null", "[1]", '{"op":1}', '{"a":1} {"b":2}')),
    ],
)
def test_a_record_that_spark_has_to_look_at(session: SparkSession, kafka: str, tmp_path: Path, value: str) -> None:
    broker, path = Broker(kafka), str(tmp_path / "bronze")
    topic = broker.topic()
    broker.transaction(topic, ['{"op":"c"}', value])
    asked = TopicRange("t", topic, "id-1", 0, {0: (0, broker.last_stable(topic))})
    append_job.append_by_spark(session, BronzeSpec(path, kafka, (TopicRange("t", topic, "id-1", 0, {0: (0, 1)}),), "first"))
    outcome = append_job.append_by_tasks(session, BronzeSpec(path, kafka, (asked,), "by task"))
    assert outcome.left.startswith("LeftToSparkError: a "), outcome
    assert len(rows(path)) == 1
    assert append_job.run(session, BronzeSpec(path, kafka, (asked,), "by either")).rows_inserted == 1
    assert sorted(row["value"].decode() for row in rows(path)) == sorted(['{"op":"c"}', value])


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_are_no_whole_event_are_told_as_by_spark(
    session: SparkSession, kafka: str, tmp_path: Path, kind: str
) -> None:
    """Without an op, with another one, without a place in the source's log: they are in bronze, and counted, all the same."""
    broker, choice = Broker(kafka), random.Random(1)
    topic = broker.topic()
    source = source_of(kind, 3, "u", choice)
    texts = [{}, {"a": 1}, {"op": "c"}, {"op": None, "source": source}, {"op": "x", "source": source}, {"op": "r", "source": {}}]
    texts += [{"op": "u", "source": source_of(kind, 4, "u", choice)}, {"op": "c", "source": None}]
    broker.transaction(topic, [json.dumps(text) for text in texts])
    asked = TopicRange("t", topic, "id-1", 0, {0: (0, broker.last_stable(topic))}, connector=kind)
    paths = [str(tmp_path / name) for name in ("spark", "task")]
    append_job.append_by_spark(session, BronzeSpec(paths[0], kafka, (asked,), "spark"))
    outcome = append_job.append_by_tasks(session, BronzeSpec(paths[1], kafka, (asked,), "task"))
    assert outcome.result is not None, outcome.left
    one, other = (sorted(rows(path), key=lambda row: row["offset"]) for path in paths)
    assert other == one
    assert [row["position"] is None for row in one].count(False) >= 2
    assert said(paths[1]) == said(paths[0])


def written_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet"))


def a_change(number: int) -> str:
    return json.dumps({"op": "c", "after": {"id": number}, "source": {"lsn": number, "sequence": f'["{number}","{number}"]'}})


def test_parts_of_a_batch_that_is_left_go(
    session: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, path = Broker(kafka), tmp_path / "bronze"
    topic = broker.topic()
    broker.transaction(topic, [*(a_change(n) for n in range(1, 40)), "no json"])
    monkeypatch.setattr(append_job, "OFFSETS_A_PART", 20)
    asked = TopicRange("t", topic, "id-1", 0, {0: (0, broker.last_stable(topic))})
    outcome = append_job.append_by_tasks(session, BronzeSpec(str(path), kafka, (asked,), "in parts"))
    assert outcome.left.startswith("LeftToSparkError: a "), outcome
    assert written_files(path) == []
    assert not (path / "_delta_log").exists()


def test_another_topics_append_meanwhile_does_not_turn_a_batch_away(session: SparkSession, kafka: str, tmp_path: Path) -> None:
    """The runs of two tables of a source append at the same time, as under a load they do: neither is done twice."""

    broker, path = Broker(kafka), tmp_path / "bronze"
    topics = [broker.topic() for _ in range(2)]
    for topic in topics:
        broker.transaction(topic, [a_change(n) for n in range(1, 31)])
    mine, others = (
        BronzeSpec(str(path), kafka, (TopicRange(name, topic, f"id-{name}", 0, {0: (0, broker.last_stable(topic))}),), name)
        for name, topic in zip(("mine", "others"), topics, strict=True)
    )
    append_job.run(session, BronzeSpec(str(path), kafka, (replace(mine.topics[0], ranges={0: (0, 5)}),), "before"))
    parts = [append_job.write_ranges(mine, number, 2) for number in range(2)]
    append_job.run(session, others)
    assert part_files.commit_parts(mine, parts, started=0.0).rows_inserted == 25
    found = sorted((row["table"], row["offset"]) for row in rows(str(path)))
    assert found == [(name, offset) for name in ("mine", "others") for offset in range(30)]
    held = bronze_committed(str(path))
    assert held is not None
    assert {topic: sum(state.positions.values()) for topic, state in held.topics.items()} == dict.fromkeys(topics, 31)


def test_parts_are_of_one_look_at_the_log(session: SparkSession, kafka: str, tmp_path: Path) -> None:
    from spark.errors import LeftToSparkError

    broker, path = Broker(kafka), tmp_path / "bronze"
    topic = broker.topic()
    broker.transaction(topic, [a_change(n) for n in range(1, 31)])
    asked = TopicRange("t", topic, "id-1", 0, {0: (0, broker.last_stable(topic))})
    spec = BronzeSpec(str(path), kafka, (asked,), "in parts")
    parts = [append_job.write_ranges(spec, number, 3) for number in range(3)]
    assert len(written_files(path)) == 3
    # Another append of a part of the range comes in between.
    append_job.append_by_spark(session, BronzeSpec(str(path), kafka, (TopicRange("t", topic, "id-1", 0, {0: (0, 5)}),), "other"))
    with pytest.raises(LeftToSparkError, match="appended some of these records"):
        part_files.commit_parts(spec, parts, started=0.0)
    assert [uri.rsplit("/", 1)[1] for uri in DeltaTable(path).file_uris()] == [file.name for file in written_files(path)]
    parts = [append_job.write_ranges(spec, number, 3) for number in range(3)]
    assert part_files.commit_parts(spec, parts, started=0.0).rows_inserted == 25
    assert sorted(row["offset"] for row in rows(str(path))) == list(range(30))
    # What is committed already is not committed again, and stays: an executor lost right after its commit has the task run again.
    assert part_files.commit_parts(spec, parts, started=0.0).version is None
    assert sorted(row["offset"] for row in rows(str(path))) == list(range(30))
    assert part_files.commit_parts(spec, [append_job.write_ranges(spec, 0, 3)], started=0.0).version is None


def test_a_batch_that_is_too_large_for_a_task(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark.bronze import range_reader
    from spark.errors import LeftToSparkError

    broker = Broker(kafka)
    topic = broker.topic()
    broker.transaction(topic, [a_change(1)])
    monkeypatch.setattr(range_reader, "MOST_BYTES", 10)
    asked = TopicRange("t", topic, "id-1", 0, {0: (0, broker.last_stable(topic))})
    with pytest.raises(LeftToSparkError, match="more than 0 MiB"):
        append_job.write_ranges(BronzeSpec(str(tmp_path / "bronze"), kafka, (asked,), "large"), 0, 1)


def test_rows_of_a_temporary_connector_stand_at_their_anchor() -> None:
    """The header tells it, the first of two; a change's own, and one that is no number, count for nothing."""
    source = {"lsn": 9, "sequence": '[null,"9"]'}
    headers = [[], ["5"], ["5", "6"], ["x"], ["5"], None]
    values = [{"op": op, "source": source} for op in "rrrr"] + [{"op": "c", "source": {**source, "sequence": '["7","9"]'}}]
    records = [
        {
            **{"topic": "t", "partition": 0, "offset": number},
            "value": json.dumps(values[number]).encode() if number < len(values) else None,
            "headers": None if own is None else [{"key": ANCHOR_HEADER, "value": text.encode()} for text in own],
        }
        for number, own in enumerate(headers)
    ]
    told = narrow(pa.Table.from_pylist(records, schema=SCHEMA), "postgresql")
    assert [place and place[:18] for place in told["place"].to_pylist()] == [
        *(f"{anchor:016x}.{kind}" for anchor, kind in [(9, 0), (5, 0), (5, 0), (9, 0), (7, 1)]),
        None,
    ]
    assert told["initial"].to_pylist() == [9, None, None, 9, None, None]


def test_what_is_gone_from_kafka_is_named(session: SparkSession, kafka: str, tmp_path: Path) -> None:
    from spark.errors import JobRefusedError

    broker, path = Broker(kafka), str(tmp_path / "bronze")
    topic = broker.topic()
    source = '{"op":"c","source":{"lsn":1,"sequence":"[\\"1\\",\\"1\\"]"}}'
    broker.transaction(topic, [source] * 4)
    append_job.append_by_spark(session, BronzeSpec(path, kafka, (TopicRange("t", topic, "id-1", 0, {0: (0, 1)}),), "first"))
    broker.delete_before(topic, 3)
    asked = TopicRange("t", topic, "id-1", 0, {0: (1, broker.last_stable(topic))})
    with pytest.raises(JobRefusedError, match="Kafka does not hand out every record"):
        append_job.run(session, BronzeSpec(path, kafka, (asked,), "second"))
    assert len(rows(path)) == 1


@pytest.mark.parametrize("span", [(0, 0), (0, 2)])
def test_ranges_without_records_are_a_commit(tmp_path: Path, span: tuple[int, int]) -> None:
    """An epoch begins where its topic is empty, and a range may hold nothing but control records."""
    avro = TopicRange("a", "avro", "id-a", 1, {0: (0, 0)}, "debezium-avro", schema_registry="http://none")
    spec = BronzeSpec(str(tmp_path / "bronze"), "none:1", (TopicRange("t", "json", "id-t", 1, {0: span}), avro), "empty")
    assert append_job.can_append_by_tasks(spec)
    done = append_here(spec, lambda _, topics: [])
    assert (done.version, done.rows_inserted) == (0, 0)
    committed = bronze_committed(spec.path)
    assert committed is not None
    assert {topic: state.positions for topic, state in committed.topics.items()} == {"json": {0: span[1]}, "avro": {0: 0}}
    assert rows(spec.path) == []
    later = replace(spec, topics=(replace(spec.topics[0], ranges={0: (span[1], 9)}),), operation_id="later")
    assert append_here(later, lambda _, topics: []).version == 1


@pytest.mark.parametrize(("offsets", "parts"), [(49_999, 1), (60_000, 2), (500_000, 4), (5_000_000, 40)])
def test_no_batch_is_too_long_for_tasks(offsets: int, parts: int) -> None:
    """More of them read a longer one: each holds all that it reads."""
    spec = BronzeSpec("/lake/bronze", "none:1", (TopicRange("t", "t", "id-1", 0, {0: (0, offsets)}),), "long")
    session: Any = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "4"})
    assert append_job.can_append_by_tasks(spec)
    assert append_job.count_parts(session, spec) == parts
    largest = max(
        end - start for part in part_files.divide_ranges(spec.topics, parts) for r in part for start, end in r.ranges.values()
    )
    assert largest <= append_job.MOST_OFFSETS_A_PART
