"""Exact offset ranges of many topics as one DataFrame, and what is left of a range once bronze has part of it.

A range ends at the last stable offset, so that every record in it is decided: committed or aborted. Records that
Kafka no longer has are an error here and never a shorter answer (`failOnDataLoss` stays true).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError, SparkJobError, quantity
from spark.events.kafka_login import read_login
from spark.events.kafka_messages import Place, kafka_spans
from spark.events.large_records import LargeRecord, find_large_records
from spark.events.moved_offsets import kafka_ranges
from spark.specs import KAFKA_SCHEMA, BronzeSpec, TopicRange
from spark.table.commit_metadata import Committed
from spark.table.spark_failures import SPARK_FAILURES, error_text, is_lost_work

RESERVED = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
)
RESERVED_LOWER = frozenset(name.lower() for name in (*RESERVED, "kafka.isolation.level", "kafka.bootstrap.servers"))
MOST_LARGE = 50
"""Of one partition in one batch: each is a read of Kafka more."""
_SMALLER = "let a batch have fewer records: batching: {max_records: 1000}, then cdc apply"
SECRET = re.compile(r"jaas|password|ssl\.keystore\.key")
# Of one partition is read by one core, unless the range is split.
SPLIT_ABOVE, SPLIT_INTO = 50_000, 500_000
REFUSAL = re.compile(
    r"((Sasl|Ssl)AuthenticationException|Could not read (properties|directory|file)|(Topic|Group)AuthorizationException"
    r"|Failed to (construct kafka consumer|create new KafkaAdminClient))[^\n]*"
)
LOSS = re.compile(
    r"(Cannot fetch offset|Cannot fetch record|OffsetOutOfRange|data may have been lost|DATA_LOSS|KAFKA_DATA_LOSS"
    r"|UnknownTopicOrPartition|does not host this topic|Partitions? .*(deleted|lost|not found)|offset.* out of range)",
    re.IGNORECASE,
)


def remaining(topic: TopicRange, committed: Committed) -> TopicRange | None:
    """What of the ranges bronze does not have yet; None when it has everything. A hole before a range is an error."""
    state = committed.topics.get(topic.topic)
    if state is None or topic.epoch > state.epoch:
        return topic
    if topic.epoch < state.epoch:
        raise JobRefusedError(
            f"topic {topic.topic}: epoch {topic.epoch} is asked for, bronze has already committed epoch {state.epoch}"
        )
    if topic.topic_id != state.topic_id:
        raise JobRefusedError(
            f"topic {topic.topic} was recreated: its id is {topic.topic_id}, bronze has committed {state.topic_id} in "
            f"epoch {state.epoch}; its offsets start again, so read it under a higher epoch after checking what is missing"
        )
    left = {}
    for partition, (start, end) in topic.ranges.items():
        done = state.positions.get(partition, 0)
        if start > done:
            raise JobRefusedError(
                f"topic {topic.topic} partition {partition}: the range starts at offset {start}, bronze has committed up "
                f"to {done}; offsets {done}..{start - 1} would be lost"
            )
        if end > done:
            left[partition] = (done, end)
    return replace(topic, ranges=left) if left else None


def read(session: SparkSession, spec: BronzeSpec, topics: Sequence[TopicRange]) -> DataFrame:
    """The committed records of the ranges, headers included; a sentence where one is too large (spark.events.large_records)."""
    large = find_large_records(spec, topics)
    if not large:
        return _with_our_offsets(_load(session, spec, topics), topics)
    return _with_our_offsets(_read_around(session, spec, topics, large), topics)


def _load(session: SparkSession, spec: BronzeSpec, topics: Sequence[TopicRange], **options: str) -> DataFrame:
    return session.read.format("kafka").options(**{**read_options(spec, topics), **options}).load()


def _read_around(
    session: SparkSession, spec: BronzeSpec, topics: Sequence[TopicRange], large: Sequence[LargeRecord]
) -> DataFrame:
    """What lies between large records, by Kafka's offsets, and their sentences.

    Kafka's client unpacks a batch record by record, as many as a poll asks for, also beyond the range's end: in front of a large
    one it asks for single ones. One read has one range of a partition.
    """
    rounds: list[dict[Place, tuple[int, int]]] = [{}]
    for place, (start, end) in kafka_spans(topics).items():
        for number, each in enumerate([e for e in large if (e.topic, e.partition) == place], start=1):
            if number == len(rounds):
                rounds.append({})
            rounds[number][place], start = (start, each.behind), each.offset + 1
        rounds[0][place] = (start, end)
    if len(rounds) > MOST_LARGE:
        raise JobRefusedError(
            f"{describe(topics)}: a partition has {quantity(len(rounds) - 1, 'record')} too large to be read; {_SMALLER}"
        )
    rows = session.createDataFrame([each.row() for each in large], KAFKA_SCHEMA)
    for number, ranges in enumerate(rounds):
        filled = {place: span for place, span in ranges.items() if span[1] > span[0]}
        parts = [replace(t, ranges={p: r for (name, p), r in filled.items() if name == t.topic}, moved={}) for t in topics]
        if parts := [part for part in parts if part.ranges]:
            options = {"kafka.max.poll.records": "1"} if number else {}
            rows = rows.unionByName(_load(session, spec, parts, **options).select(*rows.columns))
    return rows


def _with_our_offsets(records: DataFrame, topics: Sequence[TopicRange]) -> DataFrame:
    """Kafka's records with our offsets; as they are where no topic was made again."""
    moved = {f"{t.topic}/{p}": moves for t in topics for p, moves in t.moved.items() if moves and p in t.ranges}
    if not moved:
        return records
    topic_partition = sf.concat_ws("/", "topic", "partition")
    begins = _by_place(topic_partition, {at: [kafkas for kafkas, _ in moves] for at, moves in moved.items()})
    shifts = _by_place(topic_partition, {at: [ours - kafkas for kafkas, ours in moves] for at, moves in moved.items()})
    reached = sf.size(sf.filter(begins, lambda begin: begin <= sf.col("offset")))
    shift = sf.coalesce(sf.try_element_at(shifts, reached), sf.lit(0))
    return records.withColumn("offset", sf.col("offset") + shift)


def _by_place(place: Column, values: Mapping[str, Sequence[int]]) -> Column:
    pairs: list[Any] = [x for at, numbers in values.items() for x in (sf.lit(at), sf.array(*(sf.lit(n) for n in numbers)))]
    return sf.create_map(*pairs)[place]


def read_options(spec: BronzeSpec, topics: Sequence[TopicRange]) -> dict[str, str]:
    """What Spark's Kafka source is told; `kafka_options` may tune, but not change what is read, nor hold a secret."""
    refused = sorted(k for k in spec.kafka_options if k.lower() in RESERVED_LOWER)
    if refused:
        raise JobRefusedError(f"kafka_options {refused} are the job's own: exactly the committed records of the ranges are read")
    secret = sorted(k for k, value in spec.kafka_options.items() if SECRET.search(k.lower()) and not value.startswith("${"))
    if secret:
        raise JobRefusedError(
            f"kafka_options {secret} hold a secret: write it to a client.properties, and its path as the spec's login"
        )
    total = sum(end - start for t in topics for start, end in t.ranges.values())
    options = {
        "kafka.bootstrap.servers": spec.bootstrap,
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "5000",
        "kafka.max.partition.fetch.bytes": str(8 << 20),
        "kafkaConsumer.pollTimeoutMs": "60000",
        **spec.kafka_options,
        **(read_login(spec.login).spark_options() if spec.login else {}),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "assign": json.dumps({t.topic: sorted(t.ranges) for t in topics}),
        "startingOffsets": _offsets(topics, 0),
        "endingOffsets": _offsets(topics, 1),
    }
    if total > SPLIT_ABOVE:
        options.setdefault("minPartitions", str(max(2, total // SPLIT_INTO)))
    return options


def _offsets(topics: Sequence[TopicRange], end: int) -> str:
    return json.dumps({t.topic: {str(p): r[end] for p, r in sorted(kafka_ranges(t).items())} for t in topics})


def describe(topics: Sequence[TopicRange]) -> str:
    """Topics, partitions and offsets as a sentence."""
    parts = [f"{t.topic} partition {p} offsets {s}..{e - 1}" for t in topics for p, (s, e) in sorted(t.ranges.items())]
    return ", ".join(parts)


@contextmanager
def losses_named(topics: Sequence[TopicRange]) -> Iterator[None]:
    """Around whatever reads Kafka. Raises JobRefusedError: when Spark says that records of a range are not to be had."""
    try:
        yield
    except SPARK_FAILURES as error:
        lost = None if is_lost_work(error) else lost_range(error, topics)
        if lost is None:
            raise
        raise lost from error


@contextmanager
def refusals_named(*clusters: tuple[str, str]) -> Iterator[None]:
    """Around whatever reads Kafka; `clusters` are the addresses and the logins' paths.

    Raises:
        JobRefusedError: when Kafka does not let Spark in.
    """
    try:
        yield
    except SPARK_FAILURES as error:
        refusal = REFUSAL.search(error_text(error))
        if refusal is None:
            raise
        places = " or ".join(
            f"Kafka at {address} does not let Spark in by {login or 'no login'}" for address, login in clusters if address
        )
        mend = "correct that file on Spark's machines, or its user's rights (docs/how-to/kafka-login.md), and run it again"
        raise JobRefusedError(f"{places}: {refusal[0].strip()[:300]}; {mend}") from error


def lost_range(error: Exception, topics: Sequence[TopicRange]) -> SparkJobError | None:
    """The error to raise instead, when Spark says that records of a range are not to be had."""
    text = str(error)
    if not LOSS.search(text):
        return None
    named = _range_in_message(text, topics)
    reason = next((line.strip() for line in text.splitlines() if LOSS.search(line)), text.splitlines()[0])[:300]
    return JobRefusedError(
        f"Kafka does not hand out every record of {describe(named)}: {reason}. Retention or delete_records removed "
        "them, or the range ends above the last stable offset (an open transaction); nothing was committed"
    )


def _range_in_message(text: str, topics: Sequence[TopicRange]) -> Sequence[TopicRange]:
    """The partition that Spark's message speaks of; all of them when it does not say."""
    for topic in topics:
        for partition, span in topic.ranges.items():
            if re.search(rf"(?<![\w.-]){re.escape(topic.topic)}-{partition}(?!\d)", text):
                return [replace(topic, ranges={partition: span})]
    return topics
