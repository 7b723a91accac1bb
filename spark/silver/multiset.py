"""Tables without a key whose deletes and updates say which row they mean: by the whole row as it was.

    insert   one row more
    delete   one of the equal rows less (the oldest: equal rows differ in their position only)
    update   a delete and an insert

The table is then the source's as a multiset. Sums do not care for order, so neither the cut into batches nor the
partition of a record matters; replays are told by their places (spark.silver.keyless), TRUNCATE and full snapshots by theirs.
One of these may come behind later events of other partitions. A delete from before it may by then have taken an equal row from
after it, or the other way around, and a row does not tell which: what stands above it is folded anew from bronze.
A delete whose row is not there (yet: its insert is in another partition) is owed: it waits in quarantine as `no_row` and takes
the first equal row that comes. What an update leaves is there meanwhile, as it is in the source.

What is owed and what was paid must not be counted twice when a job is killed between quarantine and silver: a record set
aside or paid in an attempt from silver version v has `built_on` = v, and until silver has a later version neither holds.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.bronze.slice import fold_at_last_run
from spark.delta.cluster import compute_once
from spark.delta.commits import Folded, silver_metadata
from spark.delta.conditions import all_of
from spark.delta.identifiers import literal, quote, table_at
from spark.delta.log import Commit, commit_of
from spark.delta.statement import execute
from spark.schema.difference import holders, is_of_source
from spark.schema.side_columns import newest_value
from spark.silver import keyless, quarantine
from spark.silver.batch import SilverRun, set_aside
from spark.silver.changes import slot
from spark.silver.fold import POSITION
from spark.silver.problems import FOUND_NO_ROW, NO_ROW, problem_value
from spark.specs import META, SilverSpec
from spark.types.type_rules import lake_type

ABOVE_ALL = "~"
"""Positions are digits, letters below `g` and dots."""


def apply(work: SilverRun) -> tuple[Commit, dict[str, int]]:
    """One commit: the rows that the batch adds, less those that it takes away."""
    with keyless.fresh(work) as found:
        if _comes_late(work, found):
            return _fold_again(work, found)
        owed = _waiting_deletes(work, found.floor)
        rows = found.rows.withColumn("old", sf.lit(False))
        rows = rows if owed is None else rows.unionByName(owed.select(*rows.columns))
        more = rows.where("_cdc_op <> 'd'").drop("old")
        less = rows.where("_cdc_op = 'd'").transform(compute_once)
        gone, unpaid = None, None
        if not less.isEmpty():
            # How events are decoded is up to forty levels deep, and Spark Connect sends plans of up to 100.
            more, gone, unpaid = _settle(work, less, more.transform(compute_once), found.floor)
        news = None if unpaid is None else unpaid.where("NOT old").drop("old")
        problems = [p for p in (found.problems, news) if p is not None]
        quarantined = set_aside(work, problems, work.events)
        if owed is not None:
            still = owed.limit(0) if unpaid is None else unpaid.where("old")
            quarantine.paid(work.session, work.spec, owed, still, built_on=work.built_on)
        done = work.fold_state(truncated=found.truncated, quarantined=quarantined, snapshot=found.snapshot)
        figures = {"late_events": found.late_events, "quarantined": quarantined}
        metadata = silver_metadata(work.operation_id, done, figures)
        floor = found.floor if found.risen else None
        if floor is not None and work.before and work.before.quarantined:
            quarantine.obsolete(work.session, work.spec, floor)
        if gone is None:
            commit = keyless.write(work, more, metadata, floor=floor)
            return commit, {**figures, "inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}
        commit = _replace(work, gone, more, metadata, floor)
    counts = {"inserted": "Inserted", "deleted": "Deleted"}
    return commit, {**figures, **{k: commit.count(f"numTargetRows{v}") for k, v in counts.items()}}


def _comes_late(work: SilverRun, found: keyless.Fresh) -> bool:
    """Whether the batch brings a TRUNCATE or a full snapshot that stands below events folded before."""
    known = work.before.topics.values() if work.before and found.risen else ()
    return any(position > str(found.floor) for state in known for position in state.max_position.values())


def _fold_again(work: SilverRun, found: keyless.Fresh) -> tuple[Commit, dict[str, int]]:
    """One commit: the table as all of bronze makes it from the floor on, and in quarantine what finds no row so."""
    session, spec, floor, anew = work.session, work.spec, str(found.floor), replace(work, before=None)
    held = work.before is not None and bool(work.before.quarantined) and quarantine.exists(session, spec)
    with keyless.fresh(anew) as whole:
        rows = whole.rows.where(sf.col(POSITION) >= floor)
        rows = quarantine.without_set_aside(session, spec, rows) if held else rows
        more, less = rows.where("_cdc_op <> 'd'").transform(compute_once), rows.where("_cdc_op = 'd'").transform(compute_once)
        left, _, unpaid = _settle(anew, less, more, floor)
    owed = _waiting_deletes(work, floor) if held else None
    news, still = unpaid, None
    if owed is not None:
        at = owed.select(*quarantine.PLACE, sf.col(POSITION).alias("position")).distinct().transform(compute_once)
        news, still = quarantine.at(unpaid, at, how="left_anti"), quarantine.at(unpaid, at)
    quarantined = set_aside(work, [p for p in (found.problems, news) if p is not None], work.all_events)
    if owed is not None and still is not None:
        quarantine.paid(session, spec, owed, still, built_on=work.built_on)
    if held:
        quarantine.obsolete(session, spec, floor)
    figures = {"late_events": found.late_events, "quarantined": quarantined, "refolded_rows": left.count()}
    done = work.fold_state(truncated=found.truncated, quarantined=quarantined, snapshot=found.snapshot)
    commit = keyless.write(work, left, silver_metadata(work.operation_id, done, figures), floor=ABOVE_ALL)
    return commit, {**figures, "inserted": commit.count("numOutputRows"), "deleted": commit.count("numDeletedRows")}


def redrive(session: SparkSession, spec: SilverSpec, before: Folded, chosen: DataFrame) -> tuple[int, int | None]:
    """Fold these records of the quarantine in what silver has folded: how many could be, and silver's version."""
    committed = fold_at_last_run(session, spec, before)
    work = SilverRun(session, spec, committed, before, uuid.uuid4().hex)
    seen = quarantine.at(keyless.whole(work.all_changes, spec), chosen).where("problem IS NULL").transform(compute_once)
    if seen.isEmpty():
        return 0, None
    quarantine.paid(session, spec, seen, seen.limit(0), built_on=before.version)
    commit, _ = apply(work)
    done = quarantine.table(session, spec).where(f"redriven_at IS NOT NULL AND built_on = {before.version}")
    return done.count(), commit.version


def _waiting_deletes(work: SilverRun, floor: str | None) -> DataFrame | None:
    """The deletes that wait for their row, and what an attempt before this one meant to fold of the quarantine."""
    if work.before is None or not work.before.quarantined or not quarantine.exists(work.session, work.spec):
        return None
    places = quarantine.waiting(work.session, work.spec, built_on=work.built_on).transform(compute_once)
    if places.isEmpty():
        return None
    changes = keyless.whole(work.all_changes, work.spec).where("problem IS NULL")
    if floor is not None:
        changes = changes.where(sf.col(POSITION) >= floor)
    no_row = sf.col("error_class") == NO_ROW
    halves = quarantine.at(changes, places.where(no_row)).where("_cdc_op = 'd'")
    halves = halves.unionByName(quarantine.at(changes, places.where(~no_row)))
    halves = halves.dropDuplicates(["topic", "partition", "offset", POSITION, "_cdc_op"])
    return halves.withColumns({"old": sf.lit(True), "replayed": sf.lit(False)}).transform(compute_once)


def _settle(
    work: SilverRun, less: DataFrame, more: DataFrame, floor: str | None
) -> tuple[DataFrame, DataFrame | None, DataFrame]:
    """What is left to add, the positions of rows of the table that go, and the deletes that found no row."""
    spec, columns = work.spec, [*_slots(work.spec), *META]
    news = more.select(*columns, sf.lit(False).alias("there"))
    rows = news if work.before is None else news.unionByName(_table(work, floor).withColumn("there", sf.lit(True)))
    others, touched, deletes = _number_equals(rows, less, spec)
    touched = touched.transform(compute_once)
    unpaid = _join_on_values(deletes, touched, "left_anti", "n").select(*less.columns)
    unpaid = unpaid.withColumn("problem", problem_value(NO_ROW, sf.lit(FOUND_NO_ROW))).transform(compute_once)
    taken = _join_on_values(touched, deletes, "left_semi", "n").transform(compute_once)
    kept = _join_on_values(touched, deletes, "left_anti", "n")
    left = others.where("NOT there").select(*columns).unionByName(kept.where("NOT there").select(*columns))
    gone = taken.where("there").select(*columns).transform(compute_once)
    if work.before is None or gone.isEmpty():
        return left.transform(compute_once), None, unpaid
    if sum(len(state.positions) for state in work.committed.of_table(spec.table).values()) > 1:
        # Rows of several partitions may share a position: those that stay are written again.
        at = _table(work, floor).join(sf.broadcast(gone.select(POSITION).distinct()), POSITION, "left_semi")
        left = left.unionByName(at.select(*columns).exceptAll(gone))
    return left.transform(compute_once), gone.select(POSITION).distinct(), unpaid


def remaining(rows: DataFrame, less: DataFrame, spec: SilverSpec) -> DataFrame:
    """The rows less one equal row for each of `less`, where there is one."""
    others, touched, deletes = _number_equals(rows, less, spec)
    return others.unionByName(_join_on_values(touched, deletes, "left_anti", "n").select(*others.columns)).select(*rows.columns)


def _number_equals(rows: DataFrame, less: DataFrame, spec: SilverSpec) -> tuple[DataFrame, DataFrame, DataFrame]:
    """The rows that no delete means, those that some may (numbered among equals, the oldest first), and the deletes, numbered."""
    values = _values(spec, less)
    order = Window.partitionBy(*[f"v{i}" for i in range(len(values))])
    known, valued = less.select(*values).distinct(), rows.select("*", *values)
    touched = _join_on_values(valued, known, "left_semi").withColumn("n", sf.row_number().over(order.orderBy(POSITION)))
    deletes = less.select("*", *values).withColumn("n", sf.row_number().over(order.orderBy(POSITION, "offset")))
    return _join_on_values(valued, known, "left_anti").withColumn("n", sf.lit(0)), touched, deletes


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
    found = []
    for columns in (holders(spec.columns, field) for field in fields):
        kind = lake_type(columns[0]).name
        value = sf.expr(newest_value([(slots[c.name], types[slots[c.name]]) for c in columns], kind))
        found += [value, *([value.cast("string")] if "double" in kind or "float" in kind else [])]
    return [value.alias(f"v{i}") for i, value in enumerate(found)]


def _join_on_values(rows: DataFrame, wanted: DataFrame, how: str, *more: str) -> DataFrame:
    names = [n for n in rows.columns if n[0] == "v" and n[1:].isdigit()] + [*more]
    renamed = wanted.select(*[sf.col(n).alias(f"w_{n}") for n in names])
    same = [sf.col(n).eqNullSafe(sf.col(f"w_{n}")) for n in names]
    return rows.join(renamed, all_of(same), how)


def _table(work: SilverRun, floor: str | None) -> DataFrame:
    spec = work.spec
    rows = work.session.read.format("delta").load(spec.path)
    if floor is not None:
        rows = rows.where(sf.col(POSITION) >= floor)
    return rows.select(*[sf.col(quote(c.name)).alias(slot(i)) for i, c in enumerate(spec.columns)], *META)


def _replace(work: SilverRun, gone: DataFrame, more: DataFrame, metadata: str, floor: str | None) -> Commit:
    session, spec, view = work.session, work.spec, f"cdc_rows_{work.operation_id}"
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
    return commit_of(session, spec.path, work.operation_id)
