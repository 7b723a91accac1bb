"""Takes out of bronze what two appends hold both.

Of two appends that have seen the same log, Delta refuses one (spark.bronze.job). Earlier versions' appends passed each other.
Both commits say what they hold, so the fold sees the overlap. Whoever meets it (the next append, the check, silver, the
backup) removes the second copies (rows equal in every column) in one commit of its own. Until then they harm no fold:
silver orders by position and takes each offset once.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.commits import Committed, Overlap, bronze_metadata, fold
from spark.delta.conflicts import run_again
from spark.delta.identifiers import literal
from spark.delta.lease import lend_to_spark
from spark.delta.log import commit_of, fold_history
from spark.envelopes.envelope import kind

APP = "cdc_assets.bronze"
IDENTITY = ("topic", "partition", "offset", "timestamp", "position", "key", "value", "epoch")


def run(session: SparkSession, path: str) -> tuple[Overlap, ...]:
    """Take out all copies; which ranges were there twice."""

    def heal_once() -> tuple[Overlap, ...]:
        committed = fold_history(session, path, fold)
        if committed.overlaps:
            heal(session, path, committed)
        return committed.overlaps

    with lend_to_spark(path):
        return run_again(heal_once)


def heal(session: SparkSession, path: str, committed: Committed) -> Committed:
    """The log without the second copies, and what is committed then."""
    rows = session.read.format("delta").option("versionAsOf", committed.version).load(path).where(_span(committed.overlaps))
    counted_as = kind(sf.col("op"), sf.col("value"))
    copies = rows.groupBy(*IDENTITY, counted_as.alias("kind")).agg((sf.count("*") - 1).alias("copies"))
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
    kept = rows.dropDuplicates(list(IDENTITY)).coalesce(1).sortWithinPartitions("table", "partition", "offset")
    writer = kept.write.format("delta").mode("overwrite").option("replaceWhere", _span(committed.overlaps))
    writer = writer.option("txnAppId", APP).option("txnVersion", committed.turn)
    writer.option("userMetadata", bronze_metadata(operation_id, clean, {})).save(path)
    commit = commit_of(session, path, operation_id)
    return replace(clean, version=commit.version, turn=commit.version + 1)


def _span(overlaps: Sequence[Overlap]) -> str:
    return " OR ".join(
        f"(topic = {literal(o.topic)} AND partition = {o.partition} AND offset >= {o.start} AND offset < {o.end})"
        for o in overlaps
    )
