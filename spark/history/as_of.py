"""A table as it was at a point of its source's log, or at a time, read from its history (SCD2).

    from spark.history.as_of import position_at, rows_at
    at = position_at(session, bronze, "orders", datetime(2026, 11, 1, tzinfo=timezone.utc))
    rows_at(session, history, at).show()

Two times are told apart: when a change happened at the source (its position, and the commit's time that Debezium sends), which is
asked for here, and when the lake knew of it, which is Delta's own time travel of the history: VERSION or TIMESTAMP AS OF.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.identifiers import table_at


def rows_at(session: SparkSession, history: str, position: str | None, *, version: int | None = None) -> DataFrame:
    """The rows that held once the event at `position` had happened.

    Args:
        session: with Delta.
        history: path of the history table.
        position: as `_valid_from` has it; None is before everything.
        version: of the Delta table: what the lake knew then.
    """
    reader = session.read.format("delta")
    versions = (reader if version is None else reader.option("versionAsOf", version)).load(history)
    begun = sf.col("_valid_from") <= sf.lit(position).cast("string")
    holds = sf.col("_valid_to").isNull() | (sf.col("_valid_to") > sf.lit(position).cast("string"))
    return versions.where(begun & holds).drop("_is_current")


def position_at(session: SparkSession, bronze: str, table: str, time: datetime) -> str | None:
    """The highest position of the table's events that were committed at the source up to `time`; None before the first.

    Times of commits are the source's clock, in milliseconds or microseconds as its connector sends them.
    """
    until = sf.lit(time)
    events = session.table(table_at(bronze)).where((sf.col("table") == table) & (sf.col("source_ts") <= until))
    row = events.agg(sf.max("position").alias("at")).first()
    return row.at if row is not None else None
