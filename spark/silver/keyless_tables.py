"""Tables without a key: after-images are appended, each exactly once, by the offsets in the same commit.

There is nothing to match a replayed event with, except its place in the source's log. A partition carries events in
log order, so an event below the highest place seen before it has been delivered before: it is dropped and counted
(`late_events`). A new full snapshot contains everything up to its own place, so it replaces all rows below it in the
same commit (an interrupted initial snapshot starts again, and its first part must not stay). Not decidable: a replay
that begins exactly with the last delivered place, when several rows share that place (COPY). Exactly-once delivery
(transactional Connect workers) does not replay.

With `without_key: multiset` the table is the source's as a multiset:

    insert   one row more
    delete   one of the equal rows less (the oldest: equal rows differ in their position only)
    update   a delete and an insert

Sums do not care for order, so neither the cut into batches nor the partition of a record matters. A TRUNCATE or a full
snapshot may come behind later events of other partitions. A delete from before it may by then have taken an equal row
from after it, or the other way around, and a row does not tell which: what stands above it is folded anew from bronze.
A delete whose row is not there (yet: its insert is in another partition) is owed: it waits in quarantine as `no_row`
and takes the first equal row that comes. What an update leaves is there meanwhile, as it is in the source.

What is owed and what was paid must not be counted twice when a job is killed between quarantine and silver: a record
set aside or paid in an attempt from silver version v has `built_on` = v, and until silver has a later version neither
holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.bronze.change_log import by_partition, fold_at_last_run
from spark.events.positions import EPOCH_WIDTH, snapshot_of, without_offset
from spark.silver import quarantine_table, silver_table
from spark.silver.keyed_batch import SilverRun, position_of_truncate, set_aside
from spark.silver.newest_event import POSITION
from spark.silver.schema_difference import holders, is_of_source, newest_value
from spark.silver.typed_changes import FOUND_NO_ROW, NO_ROW, UNCLEAR, problem_value, slot
from spark.specs import META, SilverSpec
from spark.table.commit_metadata import CommittedTopic, Folded, silver_metadata
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import literal, quote, table_at
from spark.table.spark_plans import all_of
from spark.table.spark_session import compute_once, execute
from spark.values.lake_types import lake_type

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
def fresh_rows(silver_run: SilverRun) -> Iterator[Fresh]:
    """The batch less what was delivered before, and less what a newer snapshot or TRUNCATE replaces."""
    before, spec = silver_run.before, silver_run.spec
    # An offset is one record, however often bronze holds it (spark.bronze.append_job).
    events = silver_run.events.dropDuplicates(["topic", "partition", "offset", "position"])
    decoded = silver_run.decode(events)
    if before is None and not spec.multiset:
        decoded = silver_run.less_dropped(decoded)
    changes = _first_deliveries(only_whole_records(decoded, spec), before.topics if before else {}).persist()
    try:
        fit = sf.col("problem").isNull()
        # Initial and blocking snapshots hold the whole table; incremental ones mend rows of it.
        full_snapshot = (sf.col("_cdc_op") == "r") & (sf.col("snapshot") != "incremental")
        facts = changes.agg(
            sf.count_if("replayed").alias("replayed"),
            sf.count_if(~fit & ~sf.col("replayed")).alias("problems"),
            sf.max(sf.when(fit & full_snapshot, snapshot_of(sf.col("_cdc_position")))).alias("snapshot"),
            sf.max(sf.when(fit & (sf.col("_cdc_op") == "t"), sf.col("_cdc_position"))).alias("truncated"),
        ).collect()[0]
        late = int(facts.replayed or 0)
        truncate = position_of_truncate(silver_run, facts.truncated)
        floors = (before.snapshot, before.truncated) if before else (None, None)
        snapshot = max(filter(None, (facts.snapshot, floors[0])), default=None)
        floor = max(filter(None, (snapshot, truncate)), default=None)
        rows = changes.where(~sf.col("replayed") & fit & (sf.col("_cdc_op") != "t"))
        if floor is not None:
            rows = rows.where(sf.col("_cdc_position") >= floor)
        risen = before is not None and floor is not None and floor != max(filter(None, floors), default=None)
        # What was delivered before is in quarantine since then: held twice, it would be re-driven twice.
        problems = changes.where(~sf.col("replayed")) if facts.problems else None
        yield Fresh(rows, problems, floor, risen, late, truncate, snapshot)
    finally:
        changes.unpersist()


def append_rows(silver_run: SilverRun) -> tuple[Commit, dict[str, int]]:
    """One commit: the new after-images, in place of what a newer snapshot or TRUNCATE replaces."""
    with fresh_rows(silver_run) as fresh:
        quarantined = set_aside(silver_run, [fresh.problems], silver_run.events) if fresh.problems is not None else 0
        figures = {"late_events": fresh.late_events, "quarantined": quarantined}
        done = silver_run.fold_state(truncated=fresh.truncated, quarantined=quarantined, snapshot=fresh.snapshot)
        metadata = silver_metadata(silver_run.operation_id, done, figures)
        commit = write_rows(silver_run, fresh.rows, metadata, floor=fresh.floor if fresh.risen else None)
    counts = {"inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}
    return commit, {**figures, **counts}


def only_whole_records(changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """The changes; a row known by all of its values is known only whole, and both halves of a record fold, or none."""
    if not spec.multiset:
        return changes
    hint = "the event does not hold the whole row; ALTER TABLE ... REPLICA IDENTITY FULL"
    own = sf.coalesce("problem", sf.when(sf.col("absent").isNotNull(), problem_value(UNCLEAR, sf.lit(hint))))
    record = Window.partitionBy("topic", "partition", "offset", "_cdc_position")
    return changes.withColumn("problem", own).withColumn("problem", sf.max("problem").over(record))


def _first_deliveries(changes: DataFrame, topics_before: Mapping[str, CommittedTopic]) -> DataFrame:
    """Marks what was delivered before: below the highest place so far, or at it while still repeating."""
    # By offset, not by row: both halves of one record (apply_multiset) are told alike. Offsets of another epoch are of another
    # topic: between two of its own a row behind a control record took one for its predecessor, and was dropped.
    epoch = sf.substring("_cdc_position", 1, EPOCH_WIDTH)
    order = Window.partitionBy("topic", "partition", epoch).orderBy("offset")
    earlier = order.rangeBetween(Window.unboundedPreceding, -1)
    position = without_offset(sf.col("_cdc_position"))
    folded = sf.coalesce(without_offset(by_partition({t: s.max_position for t, s in topics_before.items()})), sf.lit(""))
    last = without_offset(by_partition({t: s.last_position for t, s in topics_before.items()}))
    marked = changes.withColumn("place", position).withColumn(
        "highest", sf.greatest(folded, sf.coalesce(sf.max("place").over(earlier), sf.lit("")))
    )
    repeating = sf.coalesce(
        sf.last(sf.col("place") < sf.col("highest"), ignorenulls=True).over(earlier), last < folded, sf.lit(False)
    )
    replayed = (sf.col("place") < sf.col("highest")) | ((sf.col("place") == sf.col("highest")) & repeating)
    # A record without a place does not say whether it came before.
    return marked.withColumn("replayed", sf.coalesce(replayed, sf.lit(False))).drop("place", "highest")


def write_rows(silver_run: SilverRun, rows: DataFrame, metadata: str, *, floor: str | None) -> Commit:
    """Add rows; those below `floor` make way."""
    spec, session = silver_run.spec, silver_run.session
    writer = silver_table.name_columns(rows.coalesce(1), spec).write.format("delta").option("userMetadata", metadata)
    if silver_run.before is None:
        writer.mode("error").options(**silver_table.table_properties(spec)).save(spec.path)
    elif floor is not None:
        # What is written lies above what is replaced: the check that both are the same range must be off.
        session.conf.set(CONSTRAINT_CHECK, "false")
        try:
            writer.mode("overwrite").option("replaceWhere", f"_cdc_position < {literal(floor)}").save(spec.path)
        finally:
            session.conf.unset(CONSTRAINT_CHECK)
    else:
        writer.mode("append").save(spec.path)
    return table_of(spec.path).find_commit(silver_run.operation_id)


ABOVE_ALL = "~"
"""Positions are digits, letters below `g` and dots."""


def apply_multiset(silver_run: SilverRun) -> tuple[Commit, dict[str, int]]:
    """One commit: the rows that the batch adds, less those that it takes away."""
    with fresh_rows(silver_run) as fresh:
        # A TRUNCATE or a full snapshot may stand below events folded before.
        topics = silver_run.before.topics.values() if silver_run.before and fresh.risen else ()
        if any(position > str(fresh.floor) for state in topics for position in state.max_position.values()):
            return _fold_again(silver_run, fresh)
        owed = _waiting_deletes(silver_run, fresh.floor)
        rows = fresh.rows.withColumn("old", sf.lit(False))
        rows = rows if owed is None else rows.unionByName(owed.select(*rows.columns))
        more = rows.where("_cdc_op <> 'd'").drop("old")
        less = rows.where("_cdc_op = 'd'").transform(compute_once)
        gone, unpaid = None, None
        if not less.isEmpty():
            # How events are decoded is up to forty levels deep, and Spark Connect sends plans of up to 100.
            more, gone, unpaid = _settle(silver_run, less, more.transform(compute_once), fresh.floor)
        news = None if unpaid is None else unpaid.where("NOT old").drop("old")
        problems = [p for p in (fresh.problems, news) if p is not None]
        quarantined = set_aside(silver_run, problems, silver_run.events)
        if owed is not None:
            still = owed.limit(0) if unpaid is None else unpaid.where("old")
            quarantine_table.paid(silver_run.session, silver_run.spec, owed, still, built_on=silver_run.built_on)
        done = silver_run.fold_state(truncated=fresh.truncated, quarantined=quarantined, snapshot=fresh.snapshot)
        figures = {"late_events": fresh.late_events, "quarantined": quarantined}
        metadata = silver_metadata(silver_run.operation_id, done, figures)
        floor = fresh.floor if fresh.risen else None
        if floor is not None and silver_run.before and silver_run.before.quarantined:
            quarantine_table.obsolete(silver_run.session, silver_run.spec, floor)
        if gone is None:
            commit = write_rows(silver_run, more, metadata, floor=floor)
            return commit, {**figures, "inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}
        commit = _replace(silver_run, gone, more, metadata, floor)
    counts = {"inserted": "Inserted", "deleted": "Deleted"}
    return commit, {**figures, **{k: commit.count(f"numTargetRows{v}") for k, v in counts.items()}}


def _fold_again(silver_run: SilverRun, fresh: Fresh) -> tuple[Commit, dict[str, int]]:
    """One commit: the table as all of bronze makes it from the floor on, and in quarantine what finds no row so."""
    session, spec, floor, anew = silver_run.session, silver_run.spec, str(fresh.floor), replace(silver_run, before=None)
    looks = silver_run.before is not None and bool(silver_run.before.quarantined) and quarantine_table.exists(session, spec)
    with fresh_rows(anew) as whole:
        rows = whole.rows.where(sf.col(POSITION) >= floor)
        rows = quarantine_table.without_set_aside(session, spec, rows) if looks else rows
        more, less = rows.where("_cdc_op <> 'd'").transform(compute_once), rows.where("_cdc_op = 'd'").transform(compute_once)
        left, _, unpaid = _settle(anew, less, more, floor)
    owed = _waiting_deletes(silver_run, floor) if looks else None
    news, still = unpaid, None
    if owed is not None:
        at = owed.select(*quarantine_table.PLACE, sf.col(POSITION).alias("position")).distinct().transform(compute_once)
        news, still = quarantine_table.at(unpaid, at, how="left_anti"), quarantine_table.at(unpaid, at)
    quarantined = set_aside(silver_run, [p for p in (fresh.problems, news) if p is not None], silver_run.all_events)
    if owed is not None and still is not None:
        quarantine_table.paid(session, spec, owed, still, built_on=silver_run.built_on)
    if looks:
        quarantine_table.obsolete(session, spec, floor)
    figures = {"late_events": fresh.late_events, "quarantined": quarantined, "refolded_rows": left.count()}
    done = silver_run.fold_state(truncated=fresh.truncated, quarantined=quarantined, snapshot=fresh.snapshot)
    commit = write_rows(silver_run, left, silver_metadata(silver_run.operation_id, done, figures), floor=ABOVE_ALL)
    return commit, {**figures, "inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}


def redrive_multiset(session: SparkSession, spec: SilverSpec, before: Folded, chosen: DataFrame) -> tuple[int, int | None]:
    """Fold these records of the quarantine in what silver has folded: how many could be, and silver's version."""
    committed = fold_at_last_run(spec, before)
    silver_run = SilverRun(session, spec, committed, before, uuid.uuid4().hex)
    seen = (
        quarantine_table.at(only_whole_records(silver_run.all_changes, spec), chosen)
        .where("problem IS NULL")
        .transform(compute_once)
    )
    if seen.isEmpty():
        return 0, None
    quarantine_table.paid(session, spec, seen, seen.limit(0), built_on=before.version)
    commit, _ = apply_multiset(silver_run)
    done = quarantine_table.table(session, spec).where(f"redriven_at IS NOT NULL AND built_on = {before.version}")
    return done.count(), commit.version


def _waiting_deletes(silver_run: SilverRun, floor: str | None) -> DataFrame | None:
    """The deletes that wait for their row, and what an attempt before this one meant to fold of the quarantine."""
    if (
        silver_run.before is None
        or not silver_run.before.quarantined
        or not quarantine_table.exists(silver_run.session, silver_run.spec)
    ):
        return None
    places = quarantine_table.waiting(silver_run.session, silver_run.spec, built_on=silver_run.built_on).transform(compute_once)
    if places.isEmpty():
        return None
    changes = only_whole_records(silver_run.all_changes, silver_run.spec).where("problem IS NULL")
    if floor is not None:
        changes = changes.where(sf.col(POSITION) >= floor)
    no_row = sf.col("error_class") == NO_ROW
    halves = quarantine_table.at(changes, places.where(no_row)).where("_cdc_op = 'd'")
    halves = halves.unionByName(quarantine_table.at(changes, places.where(~no_row)))
    halves = halves.dropDuplicates(["topic", "partition", "offset", POSITION, "_cdc_op"])
    return halves.withColumns({"old": sf.lit(True), "replayed": sf.lit(False)}).transform(compute_once)


def _settle(
    silver_run: SilverRun, less: DataFrame, more: DataFrame, floor: str | None
) -> tuple[DataFrame, DataFrame | None, DataFrame]:
    """What is left to add, the positions of rows of the table that go, and the deletes that found no row."""
    spec, columns = silver_run.spec, [*_slots(silver_run.spec), *META]
    news = more.select(*columns, sf.lit(False).alias("there"))
    rows = news if silver_run.before is None else news.unionByName(_table(silver_run, floor).withColumn("there", sf.lit(True)))
    others, touched, deletes = _number_equals(rows, less, spec)
    touched = touched.transform(compute_once)
    unpaid = _join_on_values(deletes, touched, "left_anti", "n").select(*less.columns)
    unpaid = unpaid.withColumn("problem", problem_value(NO_ROW, sf.lit(FOUND_NO_ROW))).transform(compute_once)
    taken = _join_on_values(touched, deletes, "left_semi", "n").transform(compute_once)
    kept = _join_on_values(touched, deletes, "left_anti", "n")
    left = others.where("NOT there").select(*columns).unionByName(kept.where("NOT there").select(*columns))
    gone = taken.where("there").select(*columns).transform(compute_once)
    if silver_run.before is None or gone.isEmpty():
        return left.transform(compute_once), None, unpaid
    if sum(len(state.positions) for state in silver_run.committed.of_table(spec.table).values()) > 1:
        # Rows of several partitions may share a position: those that stay are written again.
        at = _table(silver_run, floor).join(sf.broadcast(gone.select(POSITION).distinct()), POSITION, "left_semi")
        left = left.unionByName(at.select(*columns).exceptAll(gone))
    return left.transform(compute_once), gone.select(POSITION).distinct(), unpaid


def remaining_rows(rows: DataFrame, less: DataFrame, spec: SilverSpec) -> DataFrame:
    """The rows less one equal row for each of `less`, where there is one."""
    others, touched, deletes = _number_equals(rows, less, spec)
    return others.unionByName(_join_on_values(touched, deletes, "left_anti", "n").select(*others.columns)).select(*rows.columns)


def _number_equals(rows: DataFrame, less: DataFrame, spec: SilverSpec) -> tuple[DataFrame, DataFrame, DataFrame]:
    """The rows that no delete means, those that some may (numbered among equals, the oldest first), and the deletes, numbered."""
    values = _values(spec, less)
    order = Window.partitionBy(*[f"v{i}" for i in range(len(values))])
    values_of_deletes, valued = less.select(*values).distinct(), rows.select("*", *values)
    touched = _join_on_values(valued, values_of_deletes, "left_semi").withColumn(
        "n", sf.row_number().over(order.orderBy(POSITION))
    )
    deletes = less.select("*", *values).withColumn("n", sf.row_number().over(order.orderBy(POSITION, "offset")))
    return _join_on_values(valued, values_of_deletes, "left_anti").withColumn("n", sf.lit(0)), touched, deletes


def _slots(spec: SilverSpec) -> list[str]:
    return [slot(i) for i in range(len(spec.columns))]


def _values(spec: SilverSpec, rows: DataFrame) -> list[Expression]:
    """What equal rows have equal: v0, v1, ... Spark takes -0.0 for 0.0 there, which texts tell apart.

    An event does not say what its row had in a column that the source has dropped; silver's row still has it. Of a column whose
    type has changed, an event has a value of the new type alone, and a row from before one of the old.
    """
    slots = {column.name: slot(i) for i, column in enumerate(spec.columns)}
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    fields = dict.fromkeys(c.event_field for c in spec.columns if is_of_source(c, spec.columns))
    values = []
    for columns in (holders(spec.columns, field) for field in fields):
        kind = lake_type(columns[0]).name
        value = sf.expr(newest_value([(slots[c.name], types[slots[c.name]]) for c in columns], kind))
        values += [value, *([value.cast("string")] if "double" in kind or "float" in kind else [])]
    return [value.alias(f"v{i}") for i, value in enumerate(values)]


def _join_on_values(rows: DataFrame, keyed: DataFrame, how: str, *more: str) -> DataFrame:
    names = [n for n in rows.columns if n[0] == "v" and n[1:].isdigit()] + [*more]
    renamed = keyed.select(*[sf.col(n).alias(f"w_{n}") for n in names])
    same = [sf.col(n).eqNullSafe(sf.col(f"w_{n}")) for n in names]
    return rows.join(renamed, all_of(same), how)


def _table(silver_run: SilverRun, floor: str | None) -> DataFrame:
    spec = silver_run.spec
    rows = silver_run.session.read.format("delta").load(spec.path)
    if floor is not None:
        rows = rows.where(sf.col(POSITION) >= floor)
    return rows.select(*[sf.col(quote(c.name)).alias(slot(i)) for i, c in enumerate(spec.columns)], *META)


def _replace(silver_run: SilverRun, gone: DataFrame, more: DataFrame, metadata: str, floor: str | None) -> Commit:
    session, spec, view = silver_run.session, silver_run.spec, f"cdc_rows_{silver_run.operation_id}"
    source = more.withColumn("gone", sf.lit(False)).unionByName(gone.withColumn("gone", sf.lit(True)), allowMissingColumns=True)
    targets = [(quote(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in META]
    names, values = ", ".join(n for n, _ in targets), ", ".join(f"s.{v}" for _, v in targets)
    sql = (
        f"MERGE INTO {table_at(spec.path)} t USING {view} s ON t._cdc_position = s._cdc_position AND s.gone "
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({names}) VALUES ({values})"
    )
    if floor is not None:
        sql += f" WHEN NOT MATCHED BY SOURCE AND t._cdc_position < {literal(floor)} THEN DELETE"
    execute(session, sql, view=view, rows=source.transform(compute_once), metadata=metadata)
    return table_of(spec.path).find_commit(silver_run.operation_id)
