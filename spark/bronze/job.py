"""Bronze: the committed records of offset ranges of many topics, appended to one change log by one commit.

One Kafka read, kept in memory, counted, then written: the counts are part of the commit, so that no reader ever has
to guess what a commit holds. The append is conditional: each carries the number of its turn (Committed.turn) as a Delta
transaction, so of two that have seen the same log the second is refused. It looks at the log again, and appends what it has
read where the other one concerned other topics, else begins anew.

What can go wrong: the job dies before the commit (orphan files, nothing else) or after it (the next run finds the ranges
committed and adds nothing); records are gone from Kafka (RangeLostError, nothing committed); a range does not continue what
is committed (RangeGapError) or comes from another topic (TopicChangedError).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Row, SparkSession

from spark.bronze import anchors as bronze_anchors
from spark.bronze import counts as bronze_counts
from spark.bronze import drafts as bronze_drafts
from spark.bronze import overlap as bronze_overlap
from spark.bronze import reloads as bronze_reloads
from spark.bronze.counts import count_groups
from spark.delta import plans
from spark.delta.bronze_columns import NAMES, SCHEMA
from spark.delta.commits import Committed, TopicCommit, bronze_metadata, fold
from spark.delta.conflicts import MAY_PASS, is_conflict, run_again
from spark.delta.lease import lend_to_spark
from spark.delta.log import commit_of, fold_history, refuse_foreign
from spark.kafka import offset_ranges as kafka_ranges
from spark.specs import BronzeSpec, JobResult, TopicRange

TABLE_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "table,topic,partition,offset,timestamp,position",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
}
ONE_FILE_UP_TO = 200_000
Read = Callable[[Sequence[TopicRange]], DataFrame]


def run(session: SparkSession, spec: BronzeSpec) -> JobResult:
    """Append what of the ranges is not committed yet."""

    def read(topics: Sequence[TopicRange]) -> DataFrame:
        return kafka_ranges.read(session, spec, topics)

    with lend_to_spark(spec.path), kafka_ranges.refusals_named((spec.bootstrap, spec.login)):
        return run_again(lambda: append(session, spec, read))


def append(session: SparkSession, spec: BronzeSpec, read: Read) -> JobResult:
    """Append the records that `read` gives for the ranges not committed yet, in the columns of Spark's Kafka source."""
    started = time.monotonic()
    committed = fold_history(session, spec.path, fold)
    if committed.version >= 0 and not committed.topics:
        refuse_foreign(spec.path)
    if committed.overlaps:
        committed = bronze_overlap.heal(session, spec.path, committed)
    todo = [left for topic in spec.topics if (left := kafka_ranges.remaining(topic, committed)) is not None]
    if not todo:
        return result(None, {}, [], started)
    filled = [t for t in todo if any(end > start for start, end in t.ranges.values())]
    if not filled:
        shares = bronze_counts.shares(todo, [], None, {})
        empty = session.createDataFrame([], SCHEMA)
        return result(_commit(session, spec, committed, empty, shares), shares, todo, started)
    plans.suit(session, events=sum(end - start for t in filled for start, end in t.ranges.values()))
    drafts, groups = _draft_and_count(read(filled), filled, committed)
    try:
        same = _same_epochs(committed, filled)
        placed, openings = bronze_anchors.assign_positions(drafts, groups, same)
        events = bronze_reloads.reposition_reloads(placed, groups, filled, same)
        shares = bronze_counts.shares(todo, groups, None if events is drafts else events, openings)
        return result(_commit(session, spec, committed, events, shares), shares, todo, started)
    finally:
        drafts.unpersist()


def _draft_and_count(records: DataFrame, topics: Sequence[TopicRange], committed: Committed) -> tuple[DataFrame, list[Row]]:
    """The records as drafts, kept in memory, and what they are in numbers; looked at twice where one has a new schema."""
    known = {name: state.schema_ids for name, state in committed.topics.items()}
    with kafka_ranges.losses_named(topics):
        drafts, groups = _persist_and_count(bronze_drafts.drafts(records, topics, known), topics)
        if bronze_counts.unknown_schemas(groups, topics, known):
            drafts.unpersist()
            drafts, groups = _persist_and_count(bronze_drafts.drafts(records, topics), topics)
    return drafts, groups


def _persist_and_count(drafts: DataFrame, topics: Sequence[TopicRange]) -> tuple[DataFrame, list[Row]]:
    held = drafts.persist()
    try:
        return held, count_groups(held, topics)
    except BaseException:
        held.unpersist()
        raise


def _same_epochs(committed: Committed, topics: Sequence[TopicRange]) -> Committed:
    """What is committed of the incarnations that are being read; log positions of others mean nothing here."""
    epochs = {t.topic: t.epoch for t in topics}
    return replace(committed, topics={n: s for n, s in committed.topics.items() if s.epoch == epochs.get(n)})


def _commit(
    session: SparkSession, spec: BronzeSpec, committed: Committed, events: DataFrame, shares: Mapping[str, TopicCommit]
) -> int:
    """The commit's version: the next one where others have appended meanwhile, but nothing of our topics."""
    while True:
        try:
            return _write(session, spec, committed, events, shares)
        except MAY_PASS as error:
            newer = _newer(session, spec.path, committed, shares) if is_conflict(error) else None
            if newer is None:
                raise
            committed = newer


def _newer(session: SparkSession, path: str, committed: Committed, shares: Mapping[str, TopicCommit]) -> Committed | None:
    """The log as it is now, where others have appended since, but nothing of our topics; else None."""
    found = fold_history(session, path, fold)
    same = all(found.topics.get(topic) == committed.topics.get(topic) for topic in shares)
    return found if same and not found.overlaps and found.turn > committed.turn else None


def _write(
    session: SparkSession, spec: BronzeSpec, committed: Committed, events: DataFrame, shares: Mapping[str, TopicCommit]
) -> int:
    records = sum(share.records for share in shares.values())
    rows = events.select(*NAMES)
    if records <= ONE_FILE_UP_TO:
        rows = rows.coalesce(1).sortWithinPartitions("table", "partition", "offset")
    # A larger batch has one partition's records in each task, in their order: sorting them cost a third of the write.
    writer = rows.write.format("delta").mode("append")
    writer = writer.option("userMetadata", bronze_metadata(spec.operation_id, committed, shares))
    writer = writer.option("txnAppId", bronze_overlap.APP).option("txnVersion", committed.turn)
    # A log that was begun without the column `epoch` gets it.
    writer = writer.options(**TABLE_PROPERTIES) if committed.version < 0 else writer.option("mergeSchema", "true")
    writer.save(spec.path)
    return commit_of(session, spec.path, spec.operation_id, rows=records).version


def result(version: int | None, shares: Mapping[str, TopicCommit], todo: Sequence[TopicRange], started: float) -> JobResult:
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
        ranges=dict(kafka_ranges.ranges_by_topic(todo)),
        seconds=round(time.monotonic() - started, 3),
        detail={"tables": tables},
    )
