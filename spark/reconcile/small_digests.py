"""Sums of several small tables by one query: planned once, and run as one job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta import plans
from spark.delta.conflicts import restartable
from spark.reconcile import job
from spark.reconcile.job import Digest, Task


@restartable
def digests(session: SparkSession, tasks: Sequence[Task]) -> list[Digest | None]:
    """Rows, and the sum of their hashes, by bucket, of each table; None: a row shows what the cut does not see, and the table has
    to be looked at alone (`job.digest`)."""
    plans.suit(session, events=0)
    job.suit_wide_rows(session)
    numbered = [_rows_of(session, number, task) for number, task in enumerate(tasks)]
    found: list[Digest | None] = [{} for _ in tasks]
    for row in job.sum_buckets(reduce(DataFrame.unionAll, numbered), "task"):
        digest = found[row.task]
        if row.hidden:
            found[row.task] = None
        elif digest is not None:
            digest[row.bucket] = job.sum_of(row)
    return found


def _rows_of(session: SparkSession, number: int, task: Task) -> DataFrame:
    at = job.at_cut(session, task)
    rows = at.rows().where(at.row_text.within(task.part))
    return rows.select(sf.lit(number).alias("task"), *job.row_columns(at), "hidden")
