"""Many changes of a key to one: the newest wins, and what it does not hold comes from the changes before it.

`newest_per_key` is right for every key whose newest event holds its whole row; `fold_per_key` looks at the order of a
key's events, for all other keys and for those folded again from all of bronze. The rules are in spark.silver.row_fold:
Spark reads the events and deals them by key. The newest of many is Spark's own aggregation, which is cheaper.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark.events.positions import without_offset
from spark.silver import row_fold
from spark.silver.key_slices import as_nullable, fold_slices
from spark.silver.row_fold import BEHIND, FACTS, POSITION, FoldPlan
from spark.silver.typed_changes import key_slots, slot
from spark.specs import META, SilverSpec
from spark.table.spark_session import compute_once


def rest_slots(spec: SilverSpec) -> list[str]:
    """Internal names of the columns that are not of the key."""
    keys = key_slots(spec)
    return [slot(i) for i in range(len(spec.columns)) if slot(i) not in keys]


def lacking() -> Expression:
    """Whether an event is a create that does not hold its whole row: only a change of the key sends one."""
    return (sf.col("_cdc_op") == "c") & sf.col("absent").isNotNull() & sf.col("problem").isNull()


def with_lateness(changes: DataFrame, spec: SilverSpec, late: Expression) -> DataFrame:
    """The events as `row_fold.newest_per_key` reads them."""
    names = [*key_slots(spec), *rest_slots(spec), *META, "absent", "problem"]
    return changes.select(*names, late.alias("is_late")).transform(as_nullable)


def newest_schema(events: DataFrame, spec: SilverSpec) -> StructType:
    """Of what `row_fold.newest_per_key` makes of these events."""
    kept = events.select(*key_slots(spec), *rest_slots(spec), *META, "absent").schema.fields
    counts = [StructField(name, LongType()) for name in FACTS[:-1]]
    return StructType([StructField(f.name, f.dataType) for f in kept] + counts + [StructField(FACTS[-1], StringType())])


def newest_per_key(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """row_fold.newest_per_key of many events `with_lateness`, by one aggregation of Spark.

    A first load of 300,000 events took 1.8 times its processor time where Python tasks did it: every row goes to Python and back
    (benchmarks.full_semantics). A test holds both against each other.
    """
    keys, carried = key_slots(spec), [*rest_slots(spec), *META, "absent"]
    has_problem, is_truncate = sf.col("problem").isNotNull(), sf.col("_cdc_op") == "t"
    fit = ~has_problem & ~sf.coalesce(is_truncate, sf.lit(False))
    folded = events.groupBy(*keys).agg(
        sf.max_by(sf.when(fit, sf.struct(*carried)), sf.when(fit, sf.col(POSITION))).alias("newest"),
        sf.count_if("is_late").alias("late"),
        sf.count_if(has_problem).alias("problems"),
        sf.count_if(lacking()).alias("moved"),
        sf.max(sf.when(~has_problem & is_truncate, sf.col(POSITION))).alias("truncated"),
    )
    return folded.select(*keys, *[sf.col("newest").getField(name).alias(name) for name in carried], *FACTS)


def after_truncate(changes: DataFrame, truncated: str | None) -> DataFrame:
    """The events that a TRUNCATE has not made obsolete; those without a position are kept, to be reported."""
    rows = changes.where(sf.col("_cdc_op").isNull() | (sf.col("_cdc_op") != "t") | sf.col("problem").isNotNull())
    if truncated is None:
        return rows
    return rows.where(sf.col(POSITION).isNull() | (sf.col(POSITION) > truncated))


def behind(position: Expression) -> Expression:
    """Above every delivery of the event at this position, below the next event."""
    return sf.concat(without_offset(position), sf.lit(BEHIND))


def of_keys(changes: DataFrame, chosen: DataFrame, spec: SilverSpec) -> DataFrame:
    """The events of these keys."""
    keys = key_slots(spec)
    renamed = chosen.select(*[sf.col(k).alias(f"w_{k}") for k in keys])
    same = [sf.col(k).eqNullSafe(sf.col(f"w_{k}")) for k in keys]
    return changes.join(sf.broadcast(renamed), same, "left_semi")


def not_of_keys(changes: DataFrame, chosen: DataFrame, spec: SilverSpec) -> DataFrame:
    """The rows of all other keys."""
    keys = key_slots(spec)
    renamed = chosen.select(*[sf.col(k).alias(f"w_{k}") for k in keys])
    return changes.join(sf.broadcast(renamed), [sf.col(k).eqNullSafe(sf.col(f"w_{k}")) for k in keys], "left_anti")


def mark_problems(changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """The events, with the problem of those parts of rows that have nothing to be completed from (row_fold.mark_problems).

    Only keys with a part are looked at: an event that says everything has no other problem than its own.
    """
    events = changes.transform(as_nullable).transform(compute_once)
    parts = events.where(sf.col("absent").isNotNull())
    if parts.isEmpty():
        return events
    slots = key_slots(spec)
    keys = parts.select(*slots).distinct().transform(compute_once)
    mark = partial(row_fold.mark_problems, plan=FoldPlan.of(spec))
    marked = fold_slices(of_keys(events, keys, spec), slots, mark, events.schema)
    return marked.unionByName(not_of_keys(events, keys, spec)).transform(compute_once)


def fold_per_key(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """One whole row per key of judged events (row_fold.fold_per_key)."""
    names = [*key_slots(spec), *rest_slots(spec), *META]
    rows = events.select("topic", *names, "absent", "problem").transform(as_nullable)
    fold = partial(row_fold.fold_per_key, plan=FoldPlan.of(spec))
    return fold_slices(rows, key_slots(spec), fold, rows.select(*names).schema).transform(compute_once)
