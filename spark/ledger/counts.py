"""A slice of bronze as counts: records by window and kind, how long each hop took, and the fates."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.held import all_rows, highest_gone, row_epoch, rows_in_log, table_floors
from spark.delta.conditions import any_of
from spark.delta.floor import Floor
from spark.envelopes.envelope import TOMBSTONE, UNKNOWN, kind
from spark.ledger.fates import with_fate
from spark.ledger.folds import FoldsToCount, by_fold, ends, epochs, number
from spark.ledger.terms import WINDOW
from spark.ledger.windows import event_time, window
from spark.positions.layout import epoch_prefix
from spark.specs import SilverSpec


def slice_rows(session: SparkSession, spec: SilverSpec, cut: FoldsToCount) -> tuple[DataFrame, DataFrame]:
    """Every bronze row of the slice, and every row before it, with `epoch, fold, window, kind, event_at`.

    Raises:
        BronzeExpiredError: rows are asked for that bronze has no more.
    """
    rows = _rows(session, spec, cut)
    rows = rows.withColumn("epoch", _epoch(rows, cut))
    found = rows.withColumns(
        {"fold": number(cut), "window": window(), "kind": kind(sf.col("op"), sf.col("value")), "event_at": event_time()}
    )
    return found.where(_newer(cut) & (sf.col("fold") >= 0)), found.where(sf.col("fold") == -1)


def _rows(session: SparkSession, spec: SilverSpec, cut: FoldsToCount) -> DataFrame:
    """Those of the table: rows before the slice are looked at only where events of keys came late."""
    version = cut.last.bronze_version
    if not has_rows_of(table_floors(session, spec), cut):
        return all_rows(session, spec, version)
    rows = rows_in_log(session, spec, version)
    if not (spec.keys and any(fold.late_events for fold in cut.folds)):
        return rows
    return rows if _is_above_gone(session, spec, cut, rows) else all_rows(session, spec, version)


def _is_above_gone(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame) -> bool:
    """Whether no record of the slice is as old as what is gone: whatever decides that one is older then is in the log."""
    gone = highest_gone(session, spec)
    if gone is None:
        return False
    counted = rows.withColumn("epoch", _epoch(rows, cut)).where(_newer(cut) & (number(cut) >= 0))
    return counted.where(sf.col("position") <= gone).isEmpty()


def has_rows_of(floors: Mapping[str, Floor], cut: FoldsToCount) -> bool:
    """Whether bronze still holds what is to be counted: all that is gone was counted before."""
    told = cut.start.folded if cut.start else {}
    return all(topic in told and floor.is_within(told[topic].epoch, told[topic].positions) for topic, floor in floors.items())


def _newer(cut: FoldsToCount) -> Expression:
    """Something that the statistics of files can be compared with: the lowest offset of each topic."""
    if cut.start is None:
        return sf.lit(True)
    lowest: dict[str, int] = {}
    for key, offsets in ends(cut).items():
        topic = key.rsplit("/", 2)[0]
        lowest[topic] = min(offsets[0], lowest.get(topic, offsets[0]))
    return any_of([(sf.col("topic") == t) & (sf.col("offset") >= o) for t, o in lowest.items()])


def _epoch(rows: DataFrame, cut: FoldsToCount) -> Expression:
    """A row's incarnation of its topic. Records that do not say it are told by time: the newer one began later."""
    known = sf.lit(None).cast("int")
    for topic, numbers in epochs(cut).items():
        here = sf.lit(numbers[0])
        for epoch in numbers[1:]:
            first = rows.where((sf.col("topic") == topic) & sf.col("position").startswith(epoch_prefix(epoch)))
            began = first.agg(sf.min("timestamp")).collect()[0][0]
            if began is not None:
                here = sf.when(sf.col("timestamp") >= sf.lit(began), epoch).otherwise(here)
        known = sf.when(sf.col("topic") == topic, here).otherwise(known)
    return sf.coalesce(row_epoch(rows), known)


def count_windows(rows: DataFrame, cut: FoldsToCount, appended: Expression) -> DataFrame:
    """Records by window and kind: `bronze`, and sums and maxima of milliseconds in each hop."""
    folded_at = by_fold([f.at for f in cut.folds], sf.col("fold"))
    hops = {
        "capture": _ms(sf.col("source_ts"), sf.col("timestamp")),
        "bronze": _ms(sf.col("timestamp"), appended),
        "silver": _ms(appended, folded_at),
    }
    after_end = sf.unix_millis("timestamp") - (sf.col("window") + WINDOW) * 1000
    return rows.groupBy("window", "kind").agg(
        sf.count("*").alias("bronze"),
        # A record without an event time has Kafka's, which must not close windows of events.
        sf.max(sf.when(~sf.col("kind").isin(TOMBSTONE, UNKNOWN), sf.unix_micros("event_at"))).alias("newest"),
        sf.max(sf.greatest(after_end, sf.lit(0))).alias("late_by_ms_max"),
        *[e for hop, ms in hops.items() for e in (sf.count(ms).alias(f"{hop}_n"), sf.sum(ms).alias(f"{hop}_ms_sum"))],
        *[sf.max(ms).alias(f"{hop}_ms_max") for hop, ms in hops.items()],
    )


def _ms(start: Expression, end: Expression) -> Expression:
    return sf.unix_millis(end) - sf.unix_millis(start)


def fates(session: SparkSession, spec: SilverSpec, cut: FoldsToCount, rows: DataFrame, earlier: DataFrame) -> DataFrame:
    """Records by window, kind and fate, in `n`."""
    told = with_fate(session, spec, cut, rows, earlier)
    return told.groupBy("window", "kind", "fate").agg(sf.count("*").alias("n"))
