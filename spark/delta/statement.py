"""A SQL statement over the rows of a DataFrame: the view for it, and the commit's metadata, for just as long as it runs."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark.delta.session import USER_METADATA


def execute(session: SparkSession, statement: str, *, view: str, rows: DataFrame, metadata: str | None = None) -> None:
    """Run `statement`, which names the rows `view`; `metadata` becomes the commit's userMetadata."""
    rows.createOrReplaceTempView(view)
    if metadata is not None:
        session.conf.set(USER_METADATA, metadata)
    try:
        # A command runs at once; to collect would only fetch its metrics, by a job of their own.
        session.sql(statement)
    finally:
        if metadata is not None:
            session.conf.unset(USER_METADATA)
        session.catalog.dropTempView(view)
