"""Tables without a key: after-images are appended, each exactly once, by the offsets in the same commit. Where deletes and
updates say which row they mean (`without_key: multiset`), spark.silver.multiset takes those rows away again.

Without a key there is nothing to match a replayed event with, except its place in the source's log. A partition
carries events in log order, so an event below the highest place seen before it has been delivered before: it is
dropped and counted (`late_events`). A new full snapshot contains everything up to its own place, so it replaces all
rows below it in the same commit (an interrupted initial snapshot starts again, and its first part must not stay).

Not decidable: a replay that begins exactly with the last delivered place, when several rows share that place (COPY).
Exactly-once delivery (transactional Connect workers) does not replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from spark.bronze.slice import by_partition
from spark.delta.commits import CommittedTopic, silver_metadata
from spark.delta.identifiers import literal
from spark.delta.log import Commit, commit_of
from spark.positions.layout import EPOCH_WIDTH, snapshot_of, without_offset
from spark.silver import table as silver_table
from spark.silver.batch import BatchFacts, SilverRun, position_of_truncate, set_aside
from spark.silver.problems import UNCLEAR, problem_value
from spark.specs import SilverSpec

CONSTRAINT_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


@dataclass(frozen=True)
class Fresh:
    """What a batch adds: events that are no replay and can be folded, none of them below `floor`.

    `floor` is the position of the newest full snapshot or TRUNCATE; `risen`: the table has not seen it.
    """

    rows: DataFrame
    problems: DataFrame | None
    floor: str | None
    risen: bool
    late_events: int
    truncated: str | None
    snapshot: str | None


@contextmanager
def fresh(work: SilverRun) -> Iterator[Fresh]:
    """The batch less what was delivered before, and less what a newer snapshot or TRUNCATE replaces."""
    before, spec = work.before, work.spec
    # An offset is one record, however often bronze holds it (spark.bronze.overlap).
    events = work.events.dropDuplicates(["topic", "partition", "offset", "position"])
    decoded = work.decode(events)
    if before is None and not spec.multiset:
        decoded = work.less_dropped(decoded)
    changes = _first_deliveries(whole(decoded, spec), before.topics if before else {}).persist()
    try:
        fit = sf.col("problem").isNull()
        facts = changes.agg(
            sf.count_if("replayed").alias("replayed"),
            sf.count_if(~fit & ~sf.col("replayed")).alias("problems"),
            sf.max(sf.when(fit & _full_snapshot(), snapshot_of(sf.col("_cdc_position")))).alias("snapshot"),
            sf.max(sf.when(fit & (sf.col("_cdc_op") == "t"), sf.col("_cdc_position"))).alias("truncated"),
        ).collect()[0]
        late = int(facts.replayed or 0)
        truncate = position_of_truncate(work, BatchFacts(late, 0, facts.problems, 0, 0, facts.truncated))
        known = (before.snapshot, before.truncated) if before else (None, None)
        snapshot = max(filter(None, (facts.snapshot, known[0])), default=None)
        floor = max(filter(None, (snapshot, truncate)), default=None)
        rows = changes.where(~sf.col("replayed") & fit & (sf.col("_cdc_op") != "t"))
        if floor is not None:
            rows = rows.where(sf.col("_cdc_position") >= floor)
        risen = before is not None and floor is not None and floor != max(filter(None, known), default=None)
        # What was delivered before is in quarantine since then: held twice, it would be re-driven twice.
        problems = changes.where(~sf.col("replayed")) if facts.problems else None
        yield Fresh(rows, problems, floor, risen, late, truncate, snapshot)
    finally:
        changes.unpersist()


def append(work: SilverRun) -> tuple[Commit, dict[str, int]]:
    """One commit: the new after-images, in place of what a newer snapshot or TRUNCATE replaces."""
    with fresh(work) as found:
        quarantined = set_aside(work, [found.problems], work.events) if found.problems is not None else 0
        figures = {"late_events": found.late_events, "quarantined": quarantined}
        done = work.fold_state(truncated=found.truncated, quarantined=quarantined, snapshot=found.snapshot)
        metadata = silver_metadata(work.operation_id, done, figures)
        commit = write(work, found.rows, metadata, floor=found.floor if found.risen else None)
    counts = {"inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}
    return commit, {**figures, **counts}


def _full_snapshot() -> Expression:
    """Initial and blocking snapshots hold the whole table; incremental ones mend rows of it."""
    return (sf.col("_cdc_op") == "r") & (sf.col("snapshot") != "incremental")


def whole(changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """The changes; a row known by all of its values is known only whole, and both halves of a record fold, or none."""
    if not spec.multiset:
        return changes
    hint = "the event does not hold the whole row; ALTER TABLE ... REPLICA IDENTITY FULL"
    own = sf.coalesce("problem", sf.when(sf.col("absent").isNotNull(), problem_value(UNCLEAR, sf.lit(hint))))
    record = Window.partitionBy("topic", "partition", "offset", "_cdc_position")
    return changes.withColumn("problem", own).withColumn("problem", sf.max("problem").over(record))


def _first_deliveries(changes: DataFrame, known: Mapping[str, CommittedTopic]) -> DataFrame:
    """Marks what was delivered before: below the highest place so far, or at it while still repeating."""
    # By offset, not by row: both halves of one record (spark.silver.multiset) are told alike. Offsets of another epoch are of
    # another topic: between two of its own a row behind a control record took one for its predecessor, and was dropped.
    epoch = sf.substring("_cdc_position", 1, EPOCH_WIDTH)
    order = Window.partitionBy("topic", "partition", epoch).orderBy("offset")
    earlier = order.rangeBetween(Window.unboundedPreceding, -1)
    place = without_offset(sf.col("_cdc_position"))
    folded = sf.coalesce(without_offset(by_partition({t: s.max_position for t, s in known.items()})), sf.lit(""))
    last = without_offset(by_partition({t: s.last_position for t, s in known.items()}))
    marked = changes.withColumn("place", place).withColumn(
        "highest", sf.greatest(folded, sf.coalesce(sf.max("place").over(earlier), sf.lit("")))
    )
    repeating = sf.coalesce(
        sf.last(sf.col("place") < sf.col("highest"), ignorenulls=True).over(earlier), last < folded, sf.lit(False)
    )
    replayed = (sf.col("place") < sf.col("highest")) | ((sf.col("place") == sf.col("highest")) & repeating)
    # A record without a place does not say whether it came before.
    return marked.withColumn("replayed", sf.coalesce(replayed, sf.lit(False))).drop("place", "highest")


def write(work: SilverRun, rows: DataFrame, metadata: str, *, floor: str | None) -> Commit:
    """Add rows; those below `floor` make way."""
    spec, session = work.spec, work.session
    writer = silver_table.name_columns(rows.coalesce(1), spec).write.format("delta").option("userMetadata", metadata)
    if work.before is None:
        writer.mode("error").options(**silver_table.properties(spec)).save(spec.path)
    elif floor is not None:
        # What is written lies above what is replaced: the check that both are the same range must be off.
        session.conf.set(CONSTRAINT_CHECK, "false")
        try:
            writer.mode("overwrite").option("replaceWhere", f"_cdc_position < {literal(floor)}").save(spec.path)
        finally:
            session.conf.unset(CONSTRAINT_CHECK)
    else:
        writer.mode("append").save(spec.path)
    return commit_of(session, spec.path, work.operation_id)
