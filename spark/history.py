"""History (SCD2): every version of every row, in position order, from the same bronze as silver.

    _valid_from  the position of the event that made the version
    _valid_to    the position of the event that ended it (the next version, a delete, a TRUNCATE); null while it holds
    _is_current  whether it holds now

The keys of a batch are folded again from everything that bronze has of them, and their versions replace those that are
there: a late event splits a version, a delete closes it, an insert after it opens another, in whatever order they
came. With `track_history` only changes of those columns make a version; others change the version that holds.
The table keeps its own position in the log, so it can be added to a table later, or be taken away and made again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as sf

from spark import silver_table
from spark.batch import Work
from spark.changes import META, key_slots, slot
from spark.commits import Folded, TopicState, fold, silver_metadata
from spark.conditions import any_of
from spark.conflicts import retried
from spark.delta_log import Commit, commit_of, folded_history, silver_folded
from spark.fold import POSITION, judged, of_keys, rest_slots
from spark.identifiers import quoted, table_at
from spark.moves import completed, followed
from spark.positions.layout import epoch_prefix
from spark.schema import generation
from spark.schema.evolution import aligned, at_birth, record_birth
from spark.silver_table import VALID
from spark.specs import JobResult, SilverSpec
from spark.statement import execute


def run(session: SparkSession, spec: SilverSpec) -> JobResult:
    """Bring the history up to what bronze has committed; `spec.path` is the history's own."""
    return retried(lambda: _run(session, spec))


def _run(session: SparkSession, spec: SilverSpec) -> JobResult:
    started = time.monotonic()
    committed = folded_history(session, spec.bronze_path, fold, up_to=spec.folded_limit)
    before = silver_folded(session, spec.path)
    topics = committed.of_table(spec.table)
    if not topics or (before is not None and before.topics == topics):
        return _result(spec, None, before, topics, started)
    spec = at_birth(spec) if before is None else aligned(session, spec, after=before.highest)
    silver_table.check_names(spec)
    work = Work(session, spec, committed, before, uuid.uuid4().hex)
    known = before.truncated if before else None
    begun = generation.begun(work.events, spec, known) if before else None
    metadata = silver_metadata(work.operation_id, work.folded(truncated=begun or known, quarantined=0), {})
    changes = work.all_changes
    counted = any(state.by_op.get("t") for state in topics.values())
    truncates = _truncates(changes) if counted and spec.truncate in ("apply", "soft") else []
    # With an epoch the whole table is read again: what has no event in it has ended.
    truncates += [epoch_prefix(epoch) for state in topics.values() for epoch in range(1, state.epoch + 1)]
    # The commit keeps the newest place at which the source's table became another one.
    truncates += filter(None, (known, begun))
    if before is None:
        made = versions(completed(changes, changes, spec), spec, truncates)
        writer = _named(made, spec).write.format("delta").mode("error").options(**silver_table.properties(spec))
        writer.option("userMetadata", metadata).save(spec.path)
        commit = commit_of(session, spec.path, work.operation_id)
        record_birth(session, spec)
    else:
        new = work.changes
        # A TRUNCATE ends versions of keys that no event names.
        ended = begun is not None or (work.floor or "") > (known or "")
        all_keys = ended or not new.where(sf.col("_cdc_op") == "t").isEmpty()
        wanted = changes if all_keys else new
        keys = wanted.where(sf.col("_cdc_op") != "t").select(*key_slots(spec)).distinct().localCheckpoint()
        keys = followed(keys, changes, spec)
        made = versions(completed(of_keys(changes, keys, spec), changes, spec), spec, truncates)
        commit = _replace(work, keys, made, metadata)
    return _result(spec, commit, before, topics, started)


def _truncates(changes: DataFrame) -> list[str]:
    rows = changes.where((sf.col("_cdc_op") == "t") & sf.col("problem").isNull()).select(POSITION).distinct().collect()
    return sorted(row[0] for row in rows)


def versions(changes: DataFrame, spec: SilverSpec, truncates: list[str]) -> DataFrame:
    """The versions of all rows that these changes, all there are of their keys, have made."""
    keys, rest = key_slots(spec), rest_slots(spec)
    events = judged(changes.where(sf.col("_cdc_op").isNull() | (sf.col("_cdc_op") != "t")), spec, from_start=True)
    # A replay is the same event again: it makes no version.
    order = Window.partitionBy(*keys).orderBy(POSITION)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    fit = events.where(sf.col("problem").isNull())
    filled = fit.withColumns({name: _held(name).over(so_far)["value"] for name in rest})
    ended = _ended(filled.withColumn("next", sf.lead(POSITION).over(order)), truncates)
    alive = ended.where(sf.col("_cdc_op") != "d")
    last = Window.partitionBy(*keys).orderBy(POSITION)
    starts = _starts(spec, rest, last)
    numbered = alive.withColumn("starts", starts.cast("int")).withColumn("number", sf.sum("starts").over(last))
    carried = [*rest, *META, "next"]
    made = numbered.groupBy(*keys, "number").agg(
        sf.min(POSITION).alias("_valid_from"), sf.max_by(sf.struct(*carried), POSITION).alias("newest")
    )
    return made.select(
        *keys,
        *[sf.col("newest").getField(name).alias(name) for name in (*rest, *META)],
        "_valid_from",
        sf.col("newest")["next"].alias("_valid_to"),
        sf.col("newest")["next"].isNull().alias("_is_current"),
    )


def _held(name: str) -> Expression:
    """The column's newest value so far."""
    holds = sf.col("absent").isNull() | ~sf.array_contains("absent", int(name[1:]))
    return sf.last(sf.when(holds, sf.struct(sf.col(name).alias("value"))), ignorenulls=True)


def _ended(events: DataFrame, truncates: list[str]) -> DataFrame:
    """`next` is the position that ends what each event made: the next event of its key, or a TRUNCATE before that."""
    if not truncates:
        return events
    later = sf.filter(sf.array(*map(sf.lit, truncates)), lambda t: t > sf.col(POSITION))
    return events.withColumn("next", sf.least("next", sf.array_min(later)))


def _starts(spec: SilverSpec, rest: list[str], order: WindowSpec) -> Expression:
    """Whether the event makes a version of its own, rather than changing the one that holds."""
    tracked = [slot(i) for i, c in enumerate(spec.columns) if c.name in spec.track_history and slot(i) in rest]
    # The version before it has ended by something else: a delete or a TRUNCATE came between.
    follows = sf.lag("next").over(order).eqNullSafe(sf.col(POSITION))
    if not tracked:
        tracked = rest
    changed = any_of([~sf.col(n).eqNullSafe(sf.lag(n).over(order)) for n in tracked])
    return ~follows | changed


def _named(made: DataFrame, spec: SilverSpec) -> DataFrame:
    names = [sf.col(slot(i)).alias(c.name, metadata={"comment": c.source_type}) for i, c in enumerate(spec.columns)]
    return made.select(*names, *META, *VALID)


def _replace(work: Work, keys: DataFrame, made: DataFrame, metadata: str) -> Commit:
    """The versions of these keys in place of those that are there: only what differs is written."""
    session, spec, view = work.session, work.spec, f"cdc_history_{work.operation_id}"
    slots = key_slots(spec)
    there = session.read.format("delta").load(spec.path)
    old = there.select(*[sf.col(quoted(k)).alias(s) for k, s in zip(spec.keys, slots, strict=True)], "_valid_from")
    gone = of_keys(old, keys, spec).join(made.select(*slots, "_valid_from"), [*slots, "_valid_from"], "left_anti")
    source = made.withColumn("gone", sf.lit(False)).unionByName(gone.withColumn("gone", sf.lit(True)), allowMissingColumns=True)
    targets = [(quoted(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in (*META, *VALID)]
    same = " AND ".join(f"t.{quoted(k)} <=> s.{s}" for k, s in zip(spec.keys, slots, strict=True))
    names, values = ", ".join(n for n, _ in targets), ", ".join(f"s.{v}" for _, v in targets)
    differs = "NOT (t._valid_to <=> s._valid_to AND t._cdc_position <=> s._cdc_position)"
    sql = (
        f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {same} AND t._valid_from = s._valid_from "
        "WHEN MATCHED AND s.gone THEN DELETE "
        f"WHEN MATCHED AND {differs} THEN UPDATE SET {', '.join(f't.{n} = s.{v}' for n, v in targets)} "
        f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({names}) VALUES ({values})"
    )
    execute(session, sql, view=view, rows=source.localCheckpoint(), metadata=metadata)
    return commit_of(session, spec.path, work.operation_id)


def _result(
    spec: SilverSpec, commit: Commit | None, before: Folded | None, topics: Mapping[str, TopicState], started: float
) -> JobResult:
    count = commit.count if commit else (lambda _: 0)
    return JobResult(
        job="history",
        table=spec.table,
        version=commit.version if commit else None,
        rows_read=0,
        rows_inserted=count("numTargetRowsInserted") or count("numOutputRows"),
        rows_updated=count("numTargetRowsUpdated"),
        rows_deleted=count("numTargetRowsDeleted"),
        by_op={},
        ranges={name: {p: (0, end) for p, end in state.positions.items()} for name, state in topics.items()} if commit else {},
        seconds=round(time.monotonic() - started, 3),
        detail={"from_version": before.version if before else -1},
    )
