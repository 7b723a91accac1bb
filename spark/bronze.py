"""Bronze: the committed records of offset ranges of many topics, appended to one change log by one commit.

One Kafka read, kept in memory, counted, then written: the counts are part of the commit, so that no reader ever has
to guess what a commit holds. What can go wrong: the job dies before the commit (orphan files, nothing else) or after
it (the next run finds the ranges committed and adds nothing); records are gone from Kafka (RangeLostError, nothing
committed); a range does not continue what is committed (RangeGapError) or comes from another topic (TopicChangedError).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from spark import envelope, kafka_ranges, positions
from spark.commits import Committed, TopicCommit, bronze_metadata, fold
from spark.conflicts import retried
from spark.delta_log import commit_of, folded_history
from spark.specs import BronzeSpec, JobResult, TopicRange

SCHEMA = (
    "table string, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>, key binary, value binary, "
    "op string, position string, tx_id string, source_ts timestamp, snapshot string"
)
COLUMNS = tuple(part.split()[0] for part in SCHEMA.split(", ") if not part.startswith("value: "))
TABLE_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "table,topic,partition,offset,timestamp,position",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
}
ONE_FILE_UP_TO = 200_000
Read = Callable[[Sequence[TopicRange]], DataFrame]
Snapshots = dict[tuple[str, int], list[tuple[int, int]]]


def run(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""

    def read(topics: Sequence[TopicRange]) -> DataFrame:
        return kafka_ranges.read(session, spec, topics)

    return retried(lambda: append(session, spec, read))


def append(session: SparkSession, spec: BronzeSpec, read: Read) -> JobResult:
    """Append the records that `read` gives for the ranges not committed yet, in the columns of Spark's Kafka source."""
    started = time.monotonic()
    committed = folded_history(session, spec.path, fold)
    todo = [left for topic in spec.topics if (left := kafka_ranges.remaining(topic, committed)) is not None]
    if not todo:
        return _result(None, {}, [], started)
    filled = [t for t in todo if any(end > start for start, end in t.ranges.values())]
    if not filled:
        shares = _shares(todo, [], {})
        empty = session.createDataFrame([], SCHEMA)
        return _commit(session, spec, committed, empty, shares, todo, started)
    drafts = _drafts(read(filled), filled).persist()
    try:
        groups = _counted(drafts, filled)
        snapshots = _snapshots(groups, committed)
        events = _positioned(drafts, snapshots)
        highest = _highest_positions(events, groups)
        shares = _shares(todo, groups, highest)
        return _commit(session, spec, committed, events, shares, todo, started)
    finally:
        drafts.unpersist()


def _drafts(records: DataFrame, topics: Sequence[TopicRange]) -> DataFrame:
    """The records with what their envelope says, before their position is final."""
    parsed = records.withColumn("envelope", envelope.narrow(sf.col("value")))
    source, op = sf.col("envelope")["source"], sf.col("envelope")["op"]
    last_commit = positions.last_commit(source["sequence"])
    return parsed.select(
        _by_topic({t.topic: t.table for t in topics}).alias("table"),
        _by_topic({t.topic: t.epoch for t in topics}).alias("epoch"),
        *("topic", "partition", "offset", "timestamp", "headers", "key", "value"),
        op.alias("op"),
        envelope.kind(op, sf.col("value")).alias("kind"),
        last_commit.alias("last_commit"),
        sf.coalesce(source["lsn"], positions.change_lsn(source["sequence"]), last_commit).alias("lsn"),
        source["txId"].alias("tx_id"),
        envelope.source_time(sf.col("envelope")).alias("source_ts"),
        source["snapshot"].alias("snapshot"),
    )


def _by_topic(values: Mapping[str, object]) -> Column:
    return sf.create_map(*[sf.lit(x) for x in chain.from_iterable(values.items())])[sf.col("topic")]


def _counted(drafts: DataFrame, topics: Sequence[TopicRange]) -> list[Row]:
    """One row per topic, partition, kind and initial snapshot; this is where Kafka is really read."""
    initial = sf.when((sf.col("op") == "r") & sf.col("last_commit").isNull(), sf.col("lsn"))
    unanchored = (sf.col("op") != "r") & sf.col("last_commit").isNull() & sf.col("lsn").isNotNull()
    grouped = drafts.groupBy("topic", "partition", "kind", initial.alias("initial")).agg(
        sf.count("*").alias("records"),
        sf.min("offset").alias("first_offset"),
        sf.unix_micros(sf.min("timestamp")).alias("min_timestamp"),
        sf.count_if(unanchored).alias("unanchored"),
        sf.max(_position(sf.coalesce(sf.col("last_commit"), sf.col("lsn")))).alias("highest"),
    )
    try:
        return grouped.collect()
    except PySparkException as error:
        lost = kafka_ranges.lost_range(error, topics)
        if lost is None:
            raise
        raise lost from error


def _position(anchor: Column) -> Column:
    return positions.position(epoch=sf.col("epoch"), anchor=anchor, op=sf.col("op"), lsn=sf.col("lsn"), offset=sf.col("offset"))


def _snapshots(groups: Sequence[Row], committed: Committed) -> Snapshots:
    """Initial snapshots by partition, where a change needs one as its anchor; empty in nearly every batch."""
    needing = {(g.topic, g.partition) for g in groups if g.unanchored}
    found: Snapshots = defaultdict(list)
    for topic, partition in needing:
        state = committed.topics.get(topic)
        if state is not None and partition in state.snapshots:
            found[topic, partition].append((-1, state.snapshots[partition]))
    for group in groups:
        if group.initial is not None and (group.topic, group.partition) in needing:
            found[group.topic, group.partition].append((group.first_offset, group.initial))
    return dict(found)


def _positioned(drafts: DataFrame, snapshots: Snapshots) -> DataFrame:
    own = positions.anchored(
        sf.col("lsn"),
        topic=sf.col("topic"),
        partition=sf.col("partition"),
        offset=sf.col("offset"),
        snapshots=snapshots,
    )
    return drafts.withColumn("position", _position(sf.coalesce(sf.col("last_commit"), own)))


def _highest_positions(events: DataFrame, groups: Sequence[Row]) -> dict[tuple[str, int], str]:
    rows: Sequence[Row] = groups
    if any(g.unanchored for g in groups):
        rows = events.groupBy("topic", "partition").agg(sf.max("position").alias("highest")).collect()
    highest: dict[tuple[str, int], str] = {}
    for row in rows:
        if row.highest is not None:
            place = (row.topic, row.partition)
            highest[place] = max(highest.get(place, ""), row.highest)
    return highest


def _shares(todo: Sequence[TopicRange], groups: Sequence[Row], highest: Mapping[tuple[str, int], str]) -> dict[str, TopicCommit]:
    shares = {}
    for topic in todo:
        own = [g for g in groups if g.topic == topic.topic]
        by_op: Counter[str] = Counter()
        snapshots: dict[int, int] = {}
        for group in own:
            by_op[group.kind] += group.records
            if group.initial is not None:
                snapshots[group.partition] = max(group.initial, snapshots.get(group.partition, 0))
        shares[topic.topic] = TopicCommit(
            table=topic.table,
            topic_id=topic.topic_id,
            epoch=topic.epoch,
            ranges=dict(topic.ranges),
            records=sum(by_op.values()),
            by_op=dict(by_op),
            max_position={p: highest[topic.topic, p] for p in topic.ranges if (topic.topic, p) in highest},
            snapshots=snapshots,
            min_timestamp=min((g.min_timestamp for g in own), default=None),
        )
    return shares


def _commit(
    session: SparkSession,
    spec: BronzeSpec,
    committed: Committed,
    events: DataFrame,
    shares: Mapping[str, TopicCommit],
    todo: Sequence[TopicRange],
    started: float,
) -> JobResult:
    records = sum(share.records for share in shares.values())
    rows = events.select(*COLUMNS)
    if records <= ONE_FILE_UP_TO:
        rows = rows.coalesce(1)
    writer = rows.sortWithinPartitions("table", "partition", "offset").write.format("delta").mode("append")
    writer = writer.option("userMetadata", bronze_metadata(spec.operation_id, committed, shares))
    if committed.version < 0:
        writer = writer.options(**TABLE_PROPERTIES)
    writer.save(spec.path)
    commit = commit_of(session, spec.path, spec.operation_id, rows=records)
    return _result(commit.version, shares, todo, started)


def _result(version: int | None, shares: Mapping[str, TopicCommit], todo: Sequence[TopicRange], started: float) -> JobResult:
    by_op: Counter[str] = Counter()
    tables: dict[str, dict[str, object]] = {}
    for topic, share in shares.items():
        by_op.update(share.by_op)
        tables[share.table] = {
            "topic": topic,
            "records": share.records,
            "by_op": share.by_op,
            "ranges": {str(p): list(r) for p, r in share.ranges.items()},
        }
    records = sum(by_op.values())
    return JobResult(
        job="bronze",
        table=None,
        version=version,
        rows_read=records,
        rows_inserted=records,
        rows_updated=0,
        rows_deleted=0,
        by_op=dict(by_op),
        ranges=dict(kafka_ranges.merged_ranges(todo)),
        seconds=round(time.monotonic() - started, 3),
        detail={"tables": tables},
    )
