"""Parts of rows against the table: which of them find the row that they are to be completed from.

A row cannot complete a change when there is none, when a TRUNCATE or a soft delete came after it, or when a record of
the same key between the row and the change is in quarantine: that record may have changed the very value.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.delta.identifiers import quote
from spark.silver import quarantine
from spark.silver.batch import SilverRun
from spark.silver.changes import key_slots
from spark.silver.fold import of_keys
from spark.silver.problems import AFTER_PROBLEM, NO_ROW, problem_value
from spark.silver.table import soft
from spark.specs import DELETED


def without_row(work: SilverRun, completed: DataFrame, seen: DataFrame, *, truncated: str | None) -> tuple[DataFrame, DataFrame]:
    """`complete_creates` less the parts that find no row, and the events of those with their problem."""
    session, spec, target = work.session, work.spec, work.silver
    keys = key_slots(spec)
    gone = sf.coalesce(sf.col(DELETED), sf.lit(False)) if soft(spec) else sf.lit(False)
    if truncated is not None and spec.truncate == "apply":
        gone = gone | (sf.col("_cdc_position") < truncated)
    rows = target.select(
        *[sf.col(quote(name)).alias(f"t_{k}") for name, k in zip(spec.keys, keys, strict=True)],
        sf.when(~gone, sf.col("_cdc_position")).alias("row_position"),
    )
    same = [sf.col(k).eqNullSafe(sf.col(f"t_{k}")) for k in keys]
    parts = completed.where(sf.col("absent").isNotNull())
    compared = parts.join(rows, same, "left").drop(*[f"t_{k}" for k in keys]).withColumn("row_key", quarantine.row_key(spec))
    if quarantine.exists(session, spec):
        compared = compared.join(sf.broadcast(quarantine.holes(session, spec)), "row_key", "left")
    else:
        compared = compared.withColumn("hole", sf.lit(None).cast("string"))
    behind = sf.col("hole").isNotNull() & (sf.col("row_position").isNull() | (sf.col("hole") >= sf.col("row_position")))
    lost = compared.where(sf.col("row_position").isNull() | (behind & (sf.col("_cdc_op") != "d"))).transform(compute_once)
    kept = completed.join(lost.select(*[sf.col(k).alias(f"l_{k}") for k in keys]), _same(keys), "left_anti")
    # A delete of a row that is not there needs nothing; any other change of it is a part without the rest.
    changed = lost.where(sf.col("_cdc_op") != "d").select(*keys, "hole")
    events = of_keys(seen.where(sf.col("problem").isNull()), changed, spec)
    blocked = of_keys(events, changed.where(sf.col("hole").isNotNull()), spec)
    orphans = of_keys(events, changed.where(sf.col("hole").isNull()), spec)
    why = sf.lit("the event holds a part of its row, {}; ALTER TABLE ... REPLICA IDENTITY FULL sends whole rows")
    no_row = sf.replace(why, sf.lit("{}"), sf.lit("and the table has no such row"))
    hole = sf.replace(why, sf.lit("{}"), sf.lit("and an earlier record of its key is in quarantine"))
    return kept, orphans.withColumn("problem", problem_value(NO_ROW, no_row)).unionByName(
        blocked.withColumn("problem", problem_value(AFTER_PROBLEM, hole))
    )


def _same(keys: list[str]) -> list:
    return [sf.col(k).eqNullSafe(sf.col(f"l_{k}")) for k in keys]
