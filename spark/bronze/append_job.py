"""Bronze: the committed records of offset ranges of many topics, appended to one change log by one commit.

One Kafka read is kept in memory, counted, then written; the counts and the number of the append's turn are part of
the commit, so of two appends that have seen the same log Delta refuses the second. A job that dies before the commit
leaves orphan files only, one that dies behind it finds its ranges committed and adds nothing. Nothing is committed
where records are gone from Kafka (JobRefusedError), a range does not continue what is committed (JobRefusedError) or the
topic is another one (JobRefusedError); what two appends of earlier versions both hold is taken out here.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze import batch_records
from spark.bronze.batch_records import Group, count_groups
from spark.events import kafka_source as kafka_ranges
from spark.events.envelope import kind
from spark.specs import BRONZE_NAMES, BRONZE_SCHEMA, BronzeSpec, JobResult, TopicRange
from spark.table import spark_plans
from spark.table.commit_metadata import Committed, Overlap, TopicCommit, bronze_metadata, fold
from spark.table.delta_table import table_of
from spark.table.identifiers import literal
from spark.table.spark_failures import MAY_PASS, is_conflict, run_again
from spark.table.write_lease import lend_to_spark

APPEND_APP = "cdc_assets.bronze"
RECORD_IDENTITY = ("topic", "partition", "offset", "timestamp", "position", "key", "value", "epoch")


def remove_copies(session: SparkSession, path: str) -> tuple[Overlap, ...]:
    """Take out all copies; which ranges were there twice.

    Earlier versions' appends passed each other. Both commits say what they hold, so the fold sees the overlap. Whoever
    meets it (the next append, the check, silver, the backup) removes the second copies (rows equal in every column) in
    one commit of its own. Until then they harm no fold: silver orders by position and takes each offset once.
    """

    def heal_once() -> tuple[Overlap, ...]:
        committed = table_of(path).fold(fold)
        if committed.overlaps:
            remove_overlaps(session, path, committed)
        return committed.overlaps

    with lend_to_spark(path):
        return run_again(heal_once)


def remove_overlaps(session: SparkSession, path: str, committed: Committed) -> Committed:
    """The log without the second copies, and what is committed then."""
    rows = session.read.format("delta").option("versionAsOf", committed.version).load(path).where(_span(committed.overlaps))
    counted_as = kind(sf.col("op"), sf.col("value"))
    copies = rows.groupBy(*RECORD_IDENTITY, counted_as.alias("kind")).agg((sf.count("*") - 1).alias("copies"))
    surplus = copies.groupBy("topic", "kind").agg(sf.sum("copies").alias("copies")).collect()
    removed: dict[str, Counter[str]] = {}
    for row in surplus:
        removed.setdefault(row.topic, Counter())[row.kind] += row.copies
    topics = dict(committed.topics)
    for topic, counts in removed.items():
        state = topics[topic]
        by_op = dict(Counter(state.by_op) - counts)
        topics[topic] = replace(state, records=sum(by_op.values()), by_op=by_op)
    clean = replace(committed, topics=topics, overlaps=(), appends=())
    operation_id = f"overlap-{uuid.uuid4().hex}"
    kept = rows.dropDuplicates(list(RECORD_IDENTITY)).coalesce(1).sortWithinPartitions("table", "partition", "offset")
    writer = kept.write.format("delta").mode("overwrite").option("replaceWhere", _span(committed.overlaps))
    writer = writer.option("txnAppId", APPEND_APP).option("txnVersion", committed.turn)
    writer.option("userMetadata", bronze_metadata(operation_id, clean, {})).save(path)
    commit = table_of(path).find_commit(operation_id)
    return replace(clean, version=commit.version, turn=commit.version + 1)


def _span(overlaps: Sequence[Overlap]) -> str:
    return " OR ".join(
        f"(topic = {literal(o.topic)} AND partition = {o.partition} AND offset >= {o.start} AND offset < {o.end})"
        for o in overlaps
    )


TABLE_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "table,topic,partition,offset,timestamp,position",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
}
ONE_FILE_UP_TO = 200_000
ReadRecords = Callable[[Sequence[TopicRange]], DataFrame]


def run(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""

    def read(topics: Sequence[TopicRange]) -> DataFrame:
        return kafka_ranges.read(session, spec, topics)

    with lend_to_spark(spec.path), kafka_ranges.refusals_named((spec.bootstrap, spec.login)):
        return run_again(lambda: append(session, spec, read))


def append(session: SparkSession, spec: BronzeSpec, read: ReadRecords) -> JobResult:
    """Append the records that `read` gives for the ranges not committed yet, in the columns of Spark's Kafka source.

    The counts are part of the commit, so that no reader ever has to guess what a commit holds. The append is
    conditional: each carries the number of its turn (Committed.turn) as a Delta transaction. The one that is refused
    looks at the log again, and appends what it has read where the other one concerned other topics, else begins anew.
    """
    started = time.monotonic()
    committed = table_of(spec.path).fold(fold)
    if committed.version >= 0 and not committed.topics:
        table_of(spec.path).refuse_foreign()
    if committed.overlaps:
        committed = remove_overlaps(session, spec.path, committed)
    todo = [left for topic in spec.topics if (left := kafka_ranges.remaining(topic, committed)) is not None]
    if not todo:
        return append_result(None, {}, [], started)
    filled = [topic for topic in todo if topic.has_offsets]
    if not filled:
        shares = batch_records.shares(todo, [])
        empty = session.createDataFrame([], BRONZE_SCHEMA)
        return append_result(_commit(spec, committed, empty, shares), shares, todo, started)
    spark_plans.suit(session, events=sum(end - start for t in filled for start, end in t.ranges.values()))
    drafts, groups = _draft_and_count(read(filled), filled, committed)
    try:
        # Log positions of other incarnations of a topic mean nothing here.
        epochs = {t.topic: t.epoch for t in filled}
        same = replace(committed, topics={n: s for n, s in committed.topics.items() if s.epoch == epochs.get(n)})
        placed, openings = batch_records.assign_positions(drafts, groups, same)
        events = batch_records.reposition_reloads(placed, groups, filled, same)
        shares = batch_records.shares(todo, groups, None if events is drafts else events, openings)
        return append_result(_commit(spec, committed, events, shares), shares, todo, started)
    finally:
        drafts.unpersist()


def _draft_and_count(records: DataFrame, topics: Sequence[TopicRange], committed: Committed) -> tuple[DataFrame, list[Group]]:
    """The records as drafts, kept in memory, and what they are in numbers; looked at twice where one has a new schema."""
    schema_ids = {name: state.schema_ids for name, state in committed.topics.items()}
    with kafka_ranges.losses_named(topics):
        drafts, groups = _persist_and_count(batch_records.drafts(records, topics, schema_ids), topics)
        if batch_records.unknown_schemas(groups, topics, schema_ids):
            drafts.unpersist()
            drafts, groups = _persist_and_count(batch_records.drafts(records, topics), topics)
    return drafts, groups


def _persist_and_count(drafts: DataFrame, topics: Sequence[TopicRange]) -> tuple[DataFrame, list[Group]]:
    persisted = drafts.persist()
    try:
        return persisted, count_groups(persisted, topics)
    except BaseException:
        persisted.unpersist()
        raise


def _commit(spec: BronzeSpec, committed: Committed, events: DataFrame, shares: Mapping[str, TopicCommit]) -> int:
    """The commit's version: the next one where others have appended meanwhile, but nothing of our topics."""
    while True:
        try:
            return _write(spec, committed, events, shares)
        except MAY_PASS as error:
            newer = _newer(spec.path, committed, shares) if is_conflict(error) else None
            if newer is None:
                raise
            committed = newer


def _newer(path: str, committed: Committed, shares: Mapping[str, TopicCommit]) -> Committed | None:
    """The log as it is now, where others have appended since, but nothing of our topics; else None."""
    now = table_of(path).fold(fold)
    same = all(now.topics.get(topic) == committed.topics.get(topic) for topic in shares)
    return now if same and not now.overlaps and now.turn > committed.turn else None


def _write(spec: BronzeSpec, committed: Committed, events: DataFrame, shares: Mapping[str, TopicCommit]) -> int:
    records = sum(share.records for share in shares.values())
    rows = events.select(*BRONZE_NAMES)
    if records <= ONE_FILE_UP_TO:
        rows = rows.coalesce(1).sortWithinPartitions("table", "partition", "offset")
    # A larger batch has one partition's records in each task, in their order: sorting them cost a third of the write.
    writer = rows.write.format("delta").mode("append")
    writer = writer.option("userMetadata", bronze_metadata(spec.operation_id, committed, shares))
    writer = writer.option("txnAppId", APPEND_APP).option("txnVersion", committed.turn)
    if committed.version < 0:
        writer = writer.options(**TABLE_PROPERTIES)
    writer.save(spec.path)
    return table_of(spec.path).find_commit(spec.operation_id, rows=records).version


def append_result(
    version: int | None, shares: Mapping[str, TopicCommit], todo: Sequence[TopicRange], started: float
) -> JobResult:
    """What a run tells; `started` is of time.monotonic()."""
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
        ranges={t.topic: dict(t.ranges) for t in todo},
        seconds=round(time.monotonic() - started, 3),
        detail={"tables": tables},
    )
