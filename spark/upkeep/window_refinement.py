"""Results of windows brought up to silver: windows whose rows have changed between two versions are computed again, said
anew, and what was said before taken back.

The files that came and went between the two versions tell which rows only one of them has, and so which windows. A
result is a function of silver at one version alone, so the table equals what one batch over all of silver's rows
computes (`compare_with_batch`), in however many runs the rows came. Late rows refine a window however late they are;
a pane and `is_final` say so.
"""

from __future__ import annotations

import time
import uuid
from functools import reduce
from urllib.parse import unquote

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, DoubleType, FloatType

from spark.errors import JobRefusedError
from spark.specs import DELETED, JobResult
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import quote
from spark.table.spark_failures import SPARK_FAILURES, is_closed_session, is_lost_work, run_again
from spark.table.spark_session import compute_once
from spark.table.write_lease import lend_to_spark
from spark.upkeep.declared_windows import END, FINAL, START, Measure, WindowedSpec
from spark.upkeep.window_results import KeptResults, begin_result_tables, state_of_results, write_changes

_SECOND = 1_000_000
_AT = "_cdc_event_micros"
WINDOW = "_cdc_window_start"
"""Where a row's window begins: a measure may be of a column `window_start`."""


def with_windows(rows: DataFrame, spec: WindowedSpec) -> DataFrame:
    """Each row once per window that it is in, with the begin of that in `WINDOW`; a row without an event time is in none."""
    micros = sf.unix_micros(sf.col(quote(spec.event_time)).cast("timestamp"))
    every, count = sf.lit(spec.every * _SECOND).cast("bigint"), spec.size // spec.every
    latest = sf.col(_AT) - sf.pmod(sf.col(_AT), every)
    starts = sf.transform(sf.sequence(sf.lit(0), sf.lit(count - 1)), lambda back: sf.timestamp_micros(latest - back * every))
    timed = rows.withColumn(_AT, micros).where(sf.col(_AT).isNotNull())
    return timed.withColumn(WINDOW, sf.explode(starts)).drop(_AT)


def window_results(rows: DataFrame, spec: WindowedSpec) -> DataFrame:
    """One row per key and window (`with_windows`): keys, start, end, measures.

    The same for all rows as for a few windows of them. Windows are aligned to 1970. Every figure is the same in
    whatever order the rows come: whole numbers and decimals are added as decimals, floating-point numbers in their own
    order.
    """
    types = {field.name: field.dataType for field in rows.schema.fields}
    measures = [_figure(measure, types.get(measure.column)).alias(measure.name) for measure in spec.measures]
    by = [quote(name) for name in spec.by]
    figures = rows.groupBy(*by, WINDOW).agg(*measures)
    end = sf.timestamp_micros(sf.unix_micros(WINDOW) + spec.size * _SECOND).alias(END)
    return figures.select(*by, sf.col(WINDOW).alias(START), end, *[quote(measure.name) for measure in spec.measures])


def watermark_of(rows: DataFrame, spec: WindowedSpec) -> tuple[int | None, int]:
    """The newest event time among the rows less the delay (microseconds; None where no row has one), and rows without one."""
    at = sf.col(quote(spec.event_time))
    facts = rows.agg(sf.max(sf.unix_micros(at.cast("timestamp"))).alias("newest"), sf.count_if(at.isNull()).alias("without"))
    [row] = facts.collect()
    return None if row.newest is None else int(row.newest) - spec.delay * _SECOND, int(row.without)


def is_final(spec: WindowedSpec, watermark: int | None) -> Expression:
    """Whether a window's end and the lateness that it allows lie behind the watermark."""
    if watermark is None:
        return sf.lit(False)
    return sf.unix_micros(END) + spec.allowed_lateness * _SECOND <= watermark


def final_results(rows: DataFrame, spec: WindowedSpec, watermark: int | None) -> DataFrame:
    """All results of these rows, and whether each is final: what a table holds that follows silver batch by batch."""
    return window_results(with_windows(rows, spec), spec).withColumn(FINAL, is_final(spec, watermark))


def _figure(measure: Measure, kind: object) -> Expression:
    column = sf.col(quote(measure.column)) if measure.column else None
    if column is None:
        return sf.count("*")
    if measure.function == "sum":
        return _sum(column, kind)
    function = {"count": sf.count, "min": sf.min, "max": sf.max, "distinct": sf.count_distinct}[measure.function]
    return function(column)


def _sum(column: Expression, kind: object) -> Expression:
    # Floating-point numbers are added in ascending order: in another the last digits would be others.
    if isinstance(kind, DoubleType | FloatType):
        values = sf.array_sort(sf.collect_list(column.cast("double")))
        return sf.when(sf.size(values) > 0, sf.aggregate(values, sf.lit(0.0), lambda total, value: total + value))
    scale = kind.scale if isinstance(kind, DecimalType) else 0
    return sf.sum(column.cast(DecimalType(38, scale))).cast(DecimalType(38, scale))


MOST_FILES = 5_000
"""Of more, all rows are looked at."""


def silver_rows(session: SparkSession, spec: WindowedSpec, version: int) -> DataFrame:
    """The rows of one version that are not marked as deleted, in the columns that results depend on, and their file.

    Raises:
        JobRefusedError: silver has not all of these columns.
    """
    rows = session.read.format("delta").option("versionAsOf", version).load(spec.silver_path)
    if missing := [name for name in spec.read if name not in rows.columns]:
        what = f"windows {spec.name} of {spec.source}/{spec.table}: silver has no column {', '.join(missing)}"
        raise JobRefusedError(f"{what}; it has {', '.join(rows.columns)}")
    if DELETED in rows.columns:
        rows = rows.where(~sf.coalesce(sf.col(DELETED), sf.lit(False)))
    # The table itself may have a column of that name.
    file = sf.element_at(sf.split(rows.metadataColumn("_metadata").getField("file_path"), "/"), -1)
    return rows.select(*[sf.col(quote(name)) for name in spec.read], file.alias("_cdc_file"))


def file_changes(spec: WindowedSpec, after: int, upto: int) -> list[str] | None:
    """The names of the files that came or went; None where the log does not tell, or tells of too many."""
    if upto < after:
        return None
    names = set[str]()
    try:
        for actions in table_of(spec.silver_path).changes(after, upto):
            for action in actions:
                for file in (action.get("add"), action.get("remove")):
                    if file is not None:
                        names.add(unquote(file["path"]).rpartition("/")[2])
    except FileNotFoundError:
        return None
    return sorted(names) if len(names) <= MOST_FILES else None


def window_changes(session: SparkSession, spec: WindowedSpec, files: list[str], *, after: int, upto: int) -> DataFrame:
    """Keys and starts of the windows whose rows are others: each once.

        rows in these files of the older version ─┐
        rows in these files of the newer version ─┴▶ what only one of them has ─▶ keys and windows

    A file that is in both versions as it was holds the same rows. Whoever has written (a fold, a MERGE with deletion
    vectors, OPTIMIZE, RESTORE), the log names the files. A row that was only written anew is in both, and takes itself
    out.
    """
    names = [quote(name) for name in spec.read]

    def of(version: int) -> DataFrame:
        rows = silver_rows(session, spec, version)
        return rows.where(sf.col("_cdc_file").isin(files)).select(*names)

    before, now = of(after), of(upto)
    either = before.exceptAll(now).unionByName(now.exceptAll(before))
    begins = sf.col(WINDOW).alias(START)
    return with_windows(either, spec).select(*[quote(name) for name in spec.by], begins).distinct()


def refine_windows(session: SparkSession, spec: WindowedSpec) -> JobResult:
    """Bring the results up to silver's newest version, or to `silver_limit`.

        silver, two versions ─▶ windows with other rows ─▶ their results, from all of silver's rows in them
                                                             ├─▶ panes: each old result with −1, each new one with +1 (appended)
                                                             └─▶ results: MERGE

    Silver keeps all rows, so nothing has to be given up, however late rows are. What is late is said: by the pane of
    each change, and by `is_final`, which a window is once watermark and allowed lateness have passed it.
    """
    with lend_to_spark(spec.path), lend_to_spark(spec.panes_path):
        return run_again(lambda: _run(session, spec))


def _run(session: SparkSession, spec: WindowedSpec) -> JobResult:
    started = time.monotonic()
    newest, before = table_of(spec.silver_path).history(1), state_of_results(session, spec)
    if not newest:
        return _result(spec, before, None, {}, started)
    upto = newest[0].version if spec.silver_limit is None else min(spec.silver_limit, newest[0].version)
    mark = table_of(spec.silver_path).mark(upto)
    if before is not None and (before.silver_version, before.mark, before.digest) == (upto, mark, spec.digest):
        return _result(spec, before, None, {}, started)
    rows = silver_rows(session, spec, upto)
    watermark, without_time = watermark_of(rows, spec)
    now = KeptResults(upto, mark, watermark, spec.digest, uuid.uuid4().hex)
    if before is None or before.digest != spec.digest:
        results = final_results(rows, spec, now.watermark).transform(compute_once)
        commit, figures = begin_result_tables(session, spec, results, now), {"inserted": results.count()}
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
    results = session.read.format("delta").load(spec.path)
    whole = final_results(silver_rows(session, spec, kept.silver_version), spec, kept.watermark)
    here = results.select(*map(quote, whole.columns))
    either = here.exceptAll(whole).unionByName(whole.exceptAll(here))
    return kept, results.count(), either.select(*map(quote, spec.keys)).distinct().count()


def _go_on(
    session: SparkSession, spec: WindowedSpec, rows: DataFrame, before: KeptResults, now: KeptResults
) -> tuple[Commit, dict[str, int]]:
    results = session.read.format("delta").load(spec.path)
    affected = _windows_to_compute(session, spec, before, now)
    if affected is None:
        old, new = results, final_results(rows, spec, now.watermark)
    else:
        # What has become final, or is so no longer, has the same figures and another flag.
        turned = results.where(sf.col(FINAL) != is_final(spec, now.watermark)).select(*map(quote, spec.keys))
        keys = affected.unionByName(turned).distinct().transform(compute_once)
        old = _of(results, keys, spec)
        within = _of(with_windows(rows, spec), keys, spec, start=WINDOW)
        new = window_results(within, spec).withColumn(FINAL, is_final(spec, now.watermark))
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
    if not before.mark or table_of(spec.silver_path).mark(before.silver_version) != before.mark:
        return None
    files = file_changes(spec, before.silver_version, now.silver_version)
    if files is None:
        return None
    try:
        changes = window_changes(session, spec, files, after=before.silver_version, upto=now.silver_version)
        return changes.transform(compute_once)
    except SPARK_FAILURES as error:
        if is_closed_session(error) or is_lost_work(error):
            raise
        # VACUUM has taken files of the older version. Whatever else is wrong is met again where all rows are read.
        return None


def _of(rows: DataFrame, windows: DataFrame, spec: WindowedSpec, *, start: str = START) -> DataFrame:
    """The rows of these windows, whose begin is in `start`; keys may be NULL."""
    pairs = zip((*spec.by, start), spec.keys, strict=True)
    same = [sf.col(f"l.{quote(own)}").eqNullSafe(sf.col(f"r.{quote(name)}")) for own, name in pairs]
    return rows.alias("l").join(windows.alias("r"), reduce(lambda a, b: a & b, same), "left_semi")


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


def _result(
    spec: WindowedSpec, state: KeptResults | None, commit: Commit | None, figures: dict[str, int], started: float
) -> JobResult:
    shown = ("inserted", "updated", "deleted")
    detail = {name: value for name, value in figures.items() if name not in shown}
    state_facts = {} if state is None else {"silver_version": state.silver_version, "watermark": state.watermark}
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
        detail={**detail, **state_facts},
    )
