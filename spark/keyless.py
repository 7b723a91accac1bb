"""Tables without a key: after-images are appended, each exactly once, by the offsets in the same commit.

Without a key there is nothing to match a replayed event with, except its place in the source's log. A partition
carries events in log order, so an event below the highest place seen before it has been delivered before: it is
dropped and counted (`late_events`). A new full snapshot contains everything up to its own place, so it replaces all
rows below it in the same commit (an interrupted initial snapshot starts again, and its first part must not stay).

Not decidable: a replay that begins exactly with the last delivered place, when several rows share that place (COPY).
Exactly-once delivery (transactional Connect workers) does not replay.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark import silver_table
from spark.bronze_slice import by_partition, new_events, table_events
from spark.changes import decoded
from spark.commits import Committed, Folded, TopicState, silver_metadata
from spark.delta_log import Commit, commit_of
from spark.identifiers import literal
from spark.positions.layout import snapshot_of, without_offset
from spark.specs import SilverSpec

CONSTRAINT_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


def append(
    session: SparkSession,
    spec: SilverSpec,
    committed: Committed,
    before: Folded | None,
    folded: Folded,
    operation_id: str,
) -> tuple[Commit, dict[str, int]]:
    """One commit: the new after-images, less what was delivered before, and less what a newer snapshot replaces."""
    events = table_events(session, spec, committed.version) if before is None else new_events(session, spec, committed, before)
    # An offset is one record, however often bronze holds it (spark.bronze_overlap).
    events = events.dropDuplicates(["topic", "partition", "offset", "position"])
    changes = _first_deliveries(decoded(events, spec), before.topics if before else {}).persist()
    try:
        facts = changes.agg(
            sf.count_if("replayed").alias("replayed"),
            sf.max(sf.when(_full_snapshot(), snapshot_of(sf.col("_cdc_position")))).alias("snapshot"),
        ).collect()[0]
        snapshot = max(filter(None, (facts.snapshot, folded.snapshot)), default=None)
        rows = changes.where(~sf.col("replayed"))
        if snapshot is not None:
            rows = rows.where(sf.col("_cdc_position") >= snapshot)
        late = {"late_events": int(facts.replayed or 0)}
        done = Folded(bronze_version=folded.bronze_version, topics=folded.topics, snapshot=snapshot)
        commit = _write(session, spec, rows, before, done, operation_id, late)
    finally:
        changes.unpersist()
    counts = {"inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}
    return commit, {**late, **counts}


def _full_snapshot() -> Expression:
    """Initial and blocking snapshots hold the whole table; incremental ones mend rows of it."""
    return (sf.col("_cdc_op") == "r") & (sf.col("snapshot") != "incremental")


def _first_deliveries(changes: DataFrame, known: Mapping[str, TopicState]) -> DataFrame:
    """Marks what was delivered before: below the highest place so far, or at it while still repeating."""
    order = Window.partitionBy("topic", "partition").orderBy("offset")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    place = without_offset(sf.col("_cdc_position"))
    folded = sf.coalesce(without_offset(by_partition({t: s.max_position for t, s in known.items()})), sf.lit(""))
    last = without_offset(by_partition({t: s.last_position for t, s in known.items()}))
    marked = changes.withColumn("place", place).withColumn(
        "highest", sf.greatest(folded, sf.coalesce(sf.max("place").over(earlier), sf.lit("")))
    )
    repeating = sf.coalesce(sf.lag(sf.col("place") < sf.col("highest")).over(order), last < folded, sf.lit(False))
    replayed = (sf.col("place") < sf.col("highest")) | ((sf.col("place") == sf.col("highest")) & repeating)
    return marked.withColumn("replayed", replayed).drop("place", "highest")


def _write(
    session: SparkSession,
    spec: SilverSpec,
    rows: DataFrame,
    before: Folded | None,
    folded: Folded,
    operation_id: str,
    figures: Mapping[str, int],
) -> Commit:
    writer = silver_table.named(rows.coalesce(1), spec).write.format("delta")
    writer = writer.option("userMetadata", silver_metadata(operation_id, folded, figures))
    if before is None:
        writer.mode("error").options(**silver_table.properties(spec)).save(spec.path)
    elif folded.snapshot is not None and folded.snapshot != before.snapshot:
        # What is written lies above what is replaced: the check that both are the same range must be off.
        session.conf.set(CONSTRAINT_CHECK, "false")
        try:
            replaced = f"_cdc_position < {literal(folded.snapshot)}"
            writer.mode("overwrite").option("replaceWhere", replaced).save(spec.path)
        finally:
            session.conf.unset(CONSTRAINT_CHECK)
    else:
        writer.mode("append").save(spec.path)
    return commit_of(session, spec.path, operation_id)
