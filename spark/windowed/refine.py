"""Results of windows brought up to silver: what has changed is computed again, said anew, and what was said before taken back.

    silver, two versions ─▶ windows with other rows ─▶ their results, from all of silver's rows in them
                                                         ├─▶ panes: each old result with −1, each new one with +1 (appended)
                                                         └─▶ results: MERGE

A result is a function of silver at one version alone. So it does not matter in how many runs the rows came, nor in which order:
the table equals what one batch over all of silver's rows computes (`compare_with_batch`). Late rows refine a window however late
they are: silver keeps all rows, so nothing has to be given up. What is late is said: by the pane of each change, and by
`is_final`, which a window is once watermark and allowed lateness have passed it.
"""

from __future__ import annotations

import time
import uuid
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.delta.conflicts import run_again
from spark.delta.failures import SPARK_FAILURES, is_closed_session, is_lost_work
from spark.delta.identifiers import quote
from spark.delta.lease import lend_to_spark
from spark.delta.log import Commit, history
from spark.specs import JobResult
from spark.windowed import aggregate
from spark.windowed.changed_rows import file_changes, silver_rows, version_mark, window_changes
from spark.windowed.declared_windows import END, FINAL, START, WindowedSpec
from spark.windowed.kept_state import KeptResults, state_of_results
from spark.windowed.written_results import begin_tables, write_changes

Figures = dict[str, int]


def run(session: SparkSession, spec: WindowedSpec) -> JobResult:
    """Bring the results up to silver's newest version, or to `silver_limit`."""
    with lend_to_spark(spec.path), lend_to_spark(spec.panes_path):
        return run_again(lambda: _run(session, spec))


def _run(session: SparkSession, spec: WindowedSpec) -> JobResult:
    started = time.monotonic()
    newest, before = history(session, spec.silver_path, 1), state_of_results(session, spec)
    if not newest:
        return _result(spec, before, None, {}, started)
    upto = newest[0].version if spec.silver_limit is None else min(spec.silver_limit, newest[0].version)
    mark = version_mark(spec, upto)
    if before is not None and (before.silver_version, before.mark, before.digest) == (upto, mark, spec.digest):
        return _result(spec, before, None, {}, started)
    rows = silver_rows(session, spec, upto)
    watermark, without_time = aggregate.watermark_of(rows, spec)
    now = KeptResults(upto, mark, watermark, spec.digest, uuid.uuid4().hex)
    if before is None or before.digest != spec.digest:
        found = aggregate.final_results(rows, spec, now.watermark).transform(compute_once)
        commit, figures = begin_tables(session, spec, found, now), {"inserted": found.count()}
    else:
        commit, figures = _go_on(session, spec, rows, before, now)
    return _result(spec, now, commit, {**figures, "rows_without_time": without_time}, started)


def compare_with_batch(session: SparkSession, spec: WindowedSpec) -> tuple[KeptResults | None, int, int]:
    """The table's state, how many results it has, and how many differ from those of one batch over the same version of silver.

    The state is None where there is no table yet.
    """
    kept = state_of_results(session, spec)
    if kept is None:
        return None, 0, 0
    found = session.read.format("delta").load(spec.path)
    whole = aggregate.final_results(silver_rows(session, spec, kept.silver_version), spec, kept.watermark)
    here = found.select(*map(quote, whole.columns))
    either = here.exceptAll(whole).unionByName(whole.exceptAll(here))
    return kept, found.count(), either.select(*map(quote, spec.keys)).distinct().count()


def _go_on(
    session: SparkSession, spec: WindowedSpec, rows: DataFrame, before: KeptResults, now: KeptResults
) -> tuple[Commit, Figures]:
    held = session.read.format("delta").load(spec.path)
    affected = _windows_to_compute(session, spec, before, now)
    if affected is None:
        old, new = held, aggregate.final_results(rows, spec, now.watermark)
    else:
        # What has become final, or is so no longer, has the same figures and another flag.
        turned = held.where(sf.col(FINAL) != aggregate.is_final(spec, now.watermark)).select(*map(quote, spec.keys))
        wanted = affected.unionByName(turned).distinct().transform(compute_once)
        old = _of(held, wanted, spec)
        within = _of(aggregate.with_windows(rows, spec), wanted, spec, start=aggregate.WINDOW)
        new = aggregate.results(within, spec).withColumn(FINAL, aggregate.is_final(spec, now.watermark))
    changes = _changes(old, new, spec).transform(compute_once)
    commit, panes = write_changes(session, spec, changes, before, now)
    sides = changes.agg(
        sf.count_if(sf.col("_cdc_said").isNull()).alias("inserted"),
        sf.count_if(sf.col("_cdc_said").isNotNull() & sf.col("_cdc_says").isNotNull()).alias("updated"),
        sf.count_if(sf.col("_cdc_says").isNull()).alias("deleted"),
    ).collect()[0]
    return commit, {**sides.asDict(), **panes, "computed_whole": int(affected is None)}


def _windows_to_compute(session: SparkSession, spec: WindowedSpec, before: KeptResults, now: KeptResults) -> DataFrame | None:
    """Keys and starts of windows with other rows; None where nothing tells which, so that all are computed again."""
    if not before.mark or version_mark(spec, before.silver_version) != before.mark:
        return None
    files = file_changes(spec, before.silver_version, now.silver_version)
    if files is None:
        return None
    try:
        found = window_changes(session, spec, files, after=before.silver_version, upto=now.silver_version)
        return found.transform(compute_once)
    except SPARK_FAILURES as error:
        if is_closed_session(error) or is_lost_work(error):
            raise
        # VACUUM has taken files of the older version. Whatever else is wrong is met again where all rows are read.
        return None


def _of(rows: DataFrame, wanted: DataFrame, spec: WindowedSpec, *, start: str = START) -> DataFrame:
    """The rows of these windows, whose begin is in `start`; keys may be NULL."""
    pairs = zip((*spec.by, start), spec.keys, strict=True)
    same = [sf.col(f"l.{quote(own)}").eqNullSafe(sf.col(f"r.{quote(name)}")) for own, name in pairs]
    return rows.alias("l").join(wanted.alias("r"), reduce(lambda a, b: a & b, same), "left_semi")


def _changes(old: DataFrame, new: DataFrame, spec: WindowedSpec) -> DataFrame:
    """Keys, `_cdc_said` (the result before) and `_cdc_says` (that of now), structs or null, of the results that differ."""
    keys = [quote(name) for name in spec.keys]
    values = [quote(name) for name in (END, *[measure.name for measure in spec.measures], FINAL)]

    def in_struct(rows: DataFrame, name: str) -> DataFrame:
        return rows.select(*keys, sf.struct(*values).alias(name))

    both = in_struct(old, "_cdc_said").unionByName(in_struct(new, "_cdc_says"), allowMissingColumns=True)
    # Of each side there is one row at most.
    sides = [sf.first(name, ignorenulls=True).alias(name) for name in ("_cdc_said", "_cdc_says")]
    return both.groupBy(*keys).agg(*sides).where(~sf.col("_cdc_said").eqNullSafe(sf.col("_cdc_says")))


def _result(spec: WindowedSpec, state: KeptResults | None, commit: Commit | None, figures: Figures, started: float) -> JobResult:
    shown = ("inserted", "updated", "deleted")
    detail = {name: value for name, value in figures.items() if name not in shown}
    told = {} if state is None else {"silver_version": state.silver_version, "watermark": state.watermark}
    return JobResult(
        job="windowed",
        table=f"{spec.table}__{spec.name}",
        version=commit.version if commit else None,
        rows_read=0,
        rows_inserted=figures.get("inserted", 0),
        rows_updated=figures.get("updated", 0),
        rows_deleted=figures.get("deleted", 0),
        by_op={},
        ranges={},
        seconds=round(time.monotonic() - started, 3),
        detail={**detail, **told},
    )
