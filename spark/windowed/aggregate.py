"""Rows to windows, and windows to results: pure functions of a DataFrame, the same for all rows as for a few windows of them.

Windows are aligned to 1970. Every figure is the same in whatever order the rows come: whole numbers and decimals are added as
decimals, floating-point numbers in their own order.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, DoubleType, FloatType

from spark.delta.identifiers import quote
from spark.windowed.declared_windows import END, FINAL, START, Measure, WindowedSpec

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


def results(rows: DataFrame, spec: WindowedSpec) -> DataFrame:
    """One row per key and window (`with_windows`): keys, start, end, measures."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    measures = [_figure(measure, types.get(measure.column)).alias(measure.name) for measure in spec.measures]
    by = [quote(name) for name in spec.by]
    found = rows.groupBy(*by, WINDOW).agg(*measures)
    end = sf.timestamp_micros(sf.unix_micros(WINDOW) + spec.size * _SECOND).alias(END)
    return found.select(*by, sf.col(WINDOW).alias(START), end, *[quote(measure.name) for measure in spec.measures])


def watermark_of(rows: DataFrame, spec: WindowedSpec) -> tuple[int | None, int]:
    """The newest event time among the rows less the delay (microseconds; None where no row has one), and rows without one."""
    at = sf.col(quote(spec.event_time))
    found = rows.agg(sf.max(sf.unix_micros(at.cast("timestamp"))).alias("newest"), sf.count_if(at.isNull()).alias("without"))
    [row] = found.collect()
    return None if row.newest is None else int(row.newest) - spec.delay * _SECOND, int(row.without)


def is_final(spec: WindowedSpec, watermark: int | None) -> Expression:
    """Whether a window's end and the lateness that it allows lie behind the watermark."""
    if watermark is None:
        return sf.lit(False)
    return sf.unix_micros(END) + spec.allowed_lateness * _SECOND <= watermark


def final_results(rows: DataFrame, spec: WindowedSpec, watermark: int | None) -> DataFrame:
    """All results of these rows, and whether each is final: what a table holds that follows silver batch by batch."""
    return results(with_windows(rows, spec), spec).withColumn(FINAL, is_final(spec, watermark))


def _figure(measure: Measure, kind: object) -> Expression:
    column = sf.col(quote(measure.column)) if measure.column else None
    if column is None:
        return sf.count("*")
    if measure.function == "sum":
        return _sum(column, kind)
    function = {"count": sf.count, "min": sf.min, "max": sf.max, "distinct": sf.count_distinct}[measure.function]
    return function(column)


def _sum(column: Expression, kind: object) -> Expression:
    """Of floating-point numbers in ascending order: added in another, the last digits would be others."""
    if isinstance(kind, DoubleType | FloatType):
        values = sf.array_sort(sf.collect_list(column.cast("double")))
        return sf.when(sf.size(values) > 0, sf.aggregate(values, sf.lit(0.0), lambda total, value: total + value))
    scale = kind.scale if isinstance(kind, DecimalType) else 0
    return sf.sum(column.cast(DecimalType(38, scale))).cast(DecimalType(38, scale))
