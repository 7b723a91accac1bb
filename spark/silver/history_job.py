"""History (SCD2): every version of every row, in position order, from the same bronze as silver.

    _valid_from  the position of the event that made the version
    _valid_to    the position of the event that ended it (the next version, a delete, a TRUNCATE); null while it holds
    _is_current  whether it holds now

A run reads what bronze has new, and of the history the newest version of each key in it: the new events go on from there
(spark.silver.history_versions). A key with an event that came late is folded again from everything that bronze has of it, and its
versions replace those that are there: a late event splits a version, a delete closes it, an insert after it opens
another, in whatever order they came. With `track_history` only changes of those columns make a version; others change the
version that holds. The table keeps its own position in the log, so it can be added to a table later, or be taken away and
made again.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.events.positions import epoch_prefix
from spark.silver import history_versions as history_tail
from spark.silver import quarantine_table, silver_table, table_generation
from spark.silver.column_ledger import TRACKED
from spark.silver.history_versions import VersionMerge, name_versions, track_dropped, versions
from spark.silver.key_changes import complete_creates, follow_moves, waiting_writes
from spark.silver.keyed_batch import SilverRun
from spark.silver.newest_event import not_of_keys, of_keys
from spark.silver.schema_evolution import align_columns, at_birth, read_ledger, record_birth, set_properties
from spark.silver.typed_changes import key_slots
from spark.specs import JobResult, SilverSpec
from spark.table import spark_plans
from spark.table.commit_metadata import CommittedTopic, Folded, fold, silver_metadata
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import literal, quote, table_at
from spark.table.spark_failures import run_again
from spark.table.spark_session import compute_once, execute
from spark.table.write_lease import lend_to_spark


def run(session: SparkSession, spec: SilverSpec) -> JobResult:
    """Bring the history up to what bronze has committed; `spec.path` is the history's own."""
    with lend_to_spark(spec.path):
        return run_again(lambda: _run(session, spec))


def _run(session: SparkSession, spec: SilverSpec) -> JobResult:
    started = time.monotonic()
    committed = table_of(spec.bronze_path).fold(fold, up_to=spec.folded_limit)
    before = table_of(spec.path).silver_folded()
    topics = committed.of_table(spec.table)
    settled = quarantine_table.last_settlement(session, spec)
    if not topics or (before is not None and before.topics == topics and before.settled >= settled):
        return _result(spec, None, before, topics, {}, started)
    spec = at_birth(spec) if before is None else align_columns(session, spec, after=before.highest)
    silver_table.check_names(spec)
    events = sum(state.records for state in topics.values())
    events_before = sum(state.records for state in before.topics.values()) if before else 0
    spark_plans.suit(session, events=events - events_before, rows=events)
    silver_run = SilverRun(session, spec, committed, before, uuid.uuid4().hex)
    if before is not None and before.topics:
        commit, figures = _go_on(silver_run, before, history_tail.read_tail(silver_run, before), settled)
    else:
        commit, figures = _begin(silver_run, settled), {}
    return _result(spec, commit, before, topics, figures, started)


def _begin(silver_run: SilverRun, settled: int) -> Commit:
    """All versions that bronze tells of, into a new table, or into one that a restore has begun
    (spark.silver.history_versions).
    """
    seeded = silver_run.before is not None
    spec = track_dropped(silver_run.session, silver_run.spec) if seeded else silver_run.spec
    silver_run = replace(silver_run, spec=spec, before=None)
    session, changes = silver_run.session, _all_changes(silver_run)
    truncates = _truncates(changes, spec, silver_run.committed.of_table(spec.table))
    if seeded and (ledger := read_ledger(session, spec)):
        truncates = sorted({*truncates, *table_generation.first_snapshots(silver_run.events, spec, ledger)})
    done = complete_creates(changes, changes, spec)
    made, waiting = versions(done, spec, truncates), waiting_writes(changes, done, (), spec)
    metadata, tracked = _metadata(silver_run, truncates, settled, {}, waiting), {TRACKED: json.dumps(spec.track_history)}
    if seeded:
        set_properties(session, spec.path, tracked)
        # A MERGE, of which Delta refuses a second one at the same time: both would append.
        return _replace(silver_run, made, None, [], metadata)
    writer = name_versions(made, spec).write.format("delta").mode("error").options(**silver_table.table_properties(spec))
    writer.option("userMetadata", metadata).save(spec.path)
    commit = table_of(spec.path).find_commit(silver_run.operation_id)
    record_birth(session, spec, tracked)
    return commit


def _go_on(silver_run: SilverRun, before: Folded, tail: history_tail.Tail, settled: int) -> tuple[Commit, dict[str, int]]:
    """The versions that new events make; the keys that need it, and after a TRUNCATE that came late all, from bronze."""
    spec = silver_run.spec
    truncates = [*filter(None, [before.truncated]), *tail.truncates]
    figures = {"refolded_keys": tail.refolded}
    made = versions(tail.events, spec, tail.truncates)
    if tail.again is None:
        metadata = _metadata(silver_run, truncates, settled, figures, before.waiting)
        return _replace(silver_run, made, None, tail.truncates, metadata), figures
    changes = _all_changes(silver_run)
    every = sorted({*_truncates(changes, spec, silver_run.committed.of_table(spec.table)), *truncates})
    keys = changes.where("_cdc_op IS DISTINCT FROM 't'").select(*key_slots(spec)).distinct() if tail.all_keys else tail.again
    keys = follow_moves(keys.transform(compute_once), changes, spec)
    own = of_keys(changes, keys, spec)
    done = complete_creates(own, changes, spec)
    refolded = versions(done, spec, every).transform(compute_once)
    waiting = waiting_writes(own, done, before.waiting, spec)
    gone, metadata = _obsolete_versions(silver_run, keys, refolded), _metadata(silver_run, every, settled, figures, waiting)
    if tail.all_keys:
        return _replace(silver_run, refolded, gone, [], metadata), figures
    made = not_of_keys(made, keys, spec).unionByName(refolded)
    return _replace(silver_run, made, gone, tail.truncates, metadata), figures


def _all_changes(silver_run: SilverRun) -> DataFrame:
    """Everything of the table but what was given up, decoded once."""
    changes = silver_run.all_changes
    if quarantine_table.exists(silver_run.session, silver_run.spec):
        changes = quarantine_table.without_dropped(silver_run.session, silver_run.spec, changes)
    return changes.transform(compute_once)


def _metadata(
    silver_run: SilverRun, truncates: Sequence[str], settled: int, figures: Mapping[str, int], waiting: tuple[str, ...]
) -> str:
    done = silver_run.fold_state(truncated=max(truncates, default=None), quarantined=0)
    return silver_metadata(silver_run.operation_id, replace(done, settled=settled, waiting=waiting), figures)


def _truncates(changes: DataFrame, spec: SilverSpec, topics: Mapping[str, CommittedTopic]) -> list[str]:
    """The positions of all TRUNCATEs that the table obeys, and the begins of epochs and of later tables of its name."""
    # With an epoch the whole table is read again: what has no event in it has ended.
    begins = [epoch_prefix(epoch) for state in topics.values() for epoch in range(1, state.epoch + 1)]
    begins += table_generation.drops(spec)
    return sorted({*begins, *(history_tail.truncate_positions(changes) if history_tail.may_have_truncates(spec, topics) else ())})


def _obsolete_versions(silver_run: SilverRun, keys: DataFrame, made: DataFrame) -> DataFrame:
    """The versions of these keys that are there and not among those made."""
    spec, slots = silver_run.spec, key_slots(silver_run.spec)
    there = silver_run.session.read.format("delta").load(spec.path)
    old = there.select(*[sf.col(quote(k)).alias(s) for k, s in zip(spec.keys, slots, strict=True)], "_valid_from")
    made_keys = made.select(*[sf.col(s).alias(f"m_{s}") for s in slots], sf.col("_valid_from").alias("m_from"))
    same = [sf.col(s).eqNullSafe(sf.col(f"m_{s}")) for s in slots] + [sf.col("_valid_from") == sf.col("m_from")]
    return of_keys(old, keys, spec).join(made_keys, same, "left_anti")


def _replace(silver_run: SilverRun, made: DataFrame, gone: DataFrame | None, truncates: Sequence[str], metadata: str) -> Commit:
    """Write the versions that are new or differ; a TRUNCATE ends those of keys that no event names."""
    session, spec, view = silver_run.session, silver_run.spec, f"cdc_history_{silver_run.operation_id}"
    merge = VersionMerge(spec)
    differs = f"NOT ({' AND '.join(f't.{n} <=> s.{v}' for n, v in merge.targets)})"
    sql = (
        f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {merge.same_key} AND t._valid_from = s._valid_from "
        "WHEN MATCHED AND s.gone THEN DELETE "
        f"WHEN MATCHED AND {differs} THEN UPDATE SET {', '.join(f't.{n} = s.{v}' for n, v in merge.targets)} "
        f"{merge.insert}"
    )
    if truncates:
        ended = " ".join(f"WHEN t._cdc_position < {literal(t)} THEN {literal(t)}" for t in truncates)
        sql += (
            f" WHEN NOT MATCHED BY SOURCE AND t._is_current AND t._cdc_position < {literal(truncates[-1])} "
            f"THEN UPDATE SET t._valid_to = CASE {ended} END, t._is_current = false"
        )
    execute(session, sql, view=view, rows=merge.rows(made, gone).transform(compute_once), metadata=metadata)
    return table_of(spec.path).find_commit(silver_run.operation_id)


def _result(
    spec: SilverSpec,
    commit: Commit | None,
    before: Folded | None,
    topics: Mapping[str, CommittedTopic],
    figures: dict[str, int],
    started: float,
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
        detail={"from_version": before.version if before else -1, **figures},
    )
