"""Event-time windows: one minute is what is kept, an hour and a day are sums of it."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.ledger.terms import EARLY, LATE, ON_TIME, TOO_LATE, WINDOW


def event_time() -> Expression:
    """When the source changed the row; where a record does not tell (tombstones), Kafka's time of it."""
    return sf.coalesce(sf.col("source_ts"), sf.col("timestamp"))


def window() -> Expression:
    """The start of the row's window, in seconds since 1970."""
    return (sf.floor(sf.unix_micros(event_time()) / (WINDOW * 1_000_000)) * WINDOW).cast("bigint").alias("window")


def pane(before: Expression, after: Expression, allowed_lateness: int) -> Expression:
    """Which trigger fired, by the table's watermark (microseconds) before and after this run (Akidau et al. 2015)."""
    end = (sf.col("window") + WINDOW) * 1_000_000
    return (
        sf.when(end > after, EARLY)
        .when(end > before, ON_TIME)
        .when(end + allowed_lateness * 1_000_000 > before, LATE)
        .otherwise(TOO_LATE)
    )
