"""Many changes of a key to one: the newest wins, and what it does not hold comes from the changes before it.

`newest_per_key` (`newest_rows_in_arrow` for Arrow) is one aggregation, right for every key whose newest event holds
its whole row; `fold_per_key` looks at the order of a key's events, for all other keys and for those folded again from
all of bronze. In that order a *base* is the newest event that says everything (a whole row, or a delete), a *hole* an
event in quarantine, and a *part* an event with absent columns: it can be folded when its base is a row and no hole
lies between. Which parts cannot depends on the key's events and their order only, never on how they were cut into
batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from spark.events.arrow_records import sort_rows
from spark.events.positions import without_offset
from spark.silver.typed_changes import AFTER_PROBLEM, NO_ROW, key_slots, problem_value, slot
from spark.specs import META, SilverSpec

FACTS = ("late", "problems", "moved", "truncated")
POSITION = "_cdc_position"


def rest_slots(spec: SilverSpec) -> list[str]:
    """Internal names of the columns that are not of the key."""
    keys = key_slots(spec)
    return [slot(i) for i in range(len(spec.columns)) if slot(i) not in keys]


def lacking() -> Expression:
    """Whether an event is a create that does not hold its whole row: only a change of the key sends one."""
    return (sf.col("_cdc_op") == "c") & sf.col("absent").isNotNull() & sf.col("problem").isNull()


def newest_per_key(changes: DataFrame, spec: SilverSpec, late: Expression) -> DataFrame:
    """One row per key: its newest event that can be folded (all null where there is none), and four facts.

    `late` counts the events that came late, `problems` those that cannot be folded, `moved` the creates that do not hold
    their whole row (spark.silver.key_changes); `truncated` is the position of the
    newest TRUNCATE, which has no key and so stands in a group of its own or with the key of only NULLs.
    """
    keys, carried_ = key_slots(spec), [*rest_slots(spec), *META, "absent"]
    fit = sf.col("problem").isNull() & (sf.col("_cdc_op") != "t")
    newest = sf.max_by(sf.when(fit, sf.struct(*carried_)), sf.when(fit, sf.col(POSITION))).alias("newest")
    truncate = sf.col("problem").isNull() & (sf.col("_cdc_op") == "t")
    folded = changes.groupBy(*keys).agg(
        newest,
        sf.count_if(late).alias("late"),
        sf.count_if(sf.col("problem").isNotNull()).alias("problems"),
        sf.count_if(lacking()).alias("moved"),
        sf.max(sf.when(truncate, sf.col(POSITION))).alias("truncated"),
    )
    return folded.select(*keys, *[sf.col("newest").getField(name).alias(name) for name in carried_], *FACTS)


def after_truncate(changes: DataFrame, truncated: str | None) -> DataFrame:
    """The events that a TRUNCATE has not made obsolete; those without a position are kept, to be reported."""
    rows = changes.where(sf.col("_cdc_op").isNull() | (sf.col("_cdc_op") != "t") | sf.col("problem").isNotNull())
    if truncated is None:
        return rows
    return rows.where(sf.col(POSITION).isNull() | (sf.col(POSITION) > truncated))


def behind(position: Expression) -> Expression:
    """Above every delivery of the event at this position, below the next event."""
    return sf.concat(without_offset(position), sf.lit("~"))


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


def add_places(changes: DataFrame, spec: SilverSpec) -> DataFrame:
    """The events with `place`, their position; a record whose position cannot be read comes right behind what its
    partition held of the key before it, and behind a replay of that as well."""
    arrival = Window.partitionBy(*key_slots(spec), "topic", "partition").orderBy("offset")
    before = sf.max(POSITION).over(arrival.rowsBetween(Window.unboundedPreceding, -1))
    return changes.withColumn("place", sf.coalesce(sf.col(POSITION), behind(before), sf.lit("")))


def holds(name: str, spec: SilverSpec) -> Expression:
    """Whether an event says what the column is; a soft delete keeps the row as it was and says nothing."""
    is_held = sf.col("absent").isNull() | ~sf.array_contains("absent", int(name[1:]))
    return is_held & (sf.col("_cdc_op") != "d") if spec.deletes == "soft" else is_held


def mark_problems(changes: DataFrame, spec: SilverSpec, *, from_start: bool) -> DataFrame:
    """The events, with the problem of those parts of rows that have nothing to be completed from.

    `from_start` says that `changes` is all there is of its keys, so that no row can be in the table beforehand.

    Words used here and in `fold_per_key`, per key and in position order:

        base    the newest event at or before this one that says everything: a whole row, or a delete
        hole    an event before this one that is in quarantine
        part    an event with absent columns. It can be folded when its base is a row and no hole lies between; when there
                is no base in what is looked at, the rest of the row must come from the table.
    """
    keys = key_slots(spec)
    order = Window.partitionBy(*keys).orderBy("place", sf.col(POSITION).isNull(), "offset")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    fit = sf.col("problem").isNull()
    says_all = fit & sf.col("absent").isNull()
    base = sf.last(sf.when(says_all, sf.struct(POSITION, "_cdc_op")), ignorenulls=True).over(so_far)
    hole = sf.last(sf.when(~fit, sf.col("place")), ignorenulls=True).over(so_far)
    if spec.partial:
        return _begin_rows(changes, spec, from_start=from_start)
    seen = add_places(changes, spec).withColumns({"base": base, "hole": hole})
    is_part = fit & sf.col("absent").isNotNull()
    behind_hole = sf.col("hole").isNotNull() & (sf.col("base").isNull() | (sf.col("hole") >= sf.col("base")[POSITION]))
    no_row = sf.col("base")["_cdc_op"] == "d"
    if from_start:
        no_row = no_row | sf.col("base").isNull()
    problem = (
        sf.when(is_part & behind_hole, problem_value(AFTER_PROBLEM, _names(spec)))
        .when(is_part & sf.coalesce(no_row, sf.lit(False)), problem_value(NO_ROW, _names(spec)))
        .otherwise(sf.col("problem"))
    )
    return seen.withColumn("problem", problem).drop("base", "hole", "place")


def _begin_rows(changes: DataFrame, spec: SilverSpec, *, from_start: bool) -> DataFrame:
    """The events; a part that finds no row, because it is the first of its key or comes behind a delete, is the whole row.

    What an event says of its columns holds whatever stands in quarantine before it.
    """
    order = Window.partitionBy(*key_slots(spec)).orderBy("place", sf.col(POSITION).isNull(), "offset")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    before = sf.last(sf.when(sf.col("problem").isNull(), sf.col("_cdc_op")), ignorenulls=True).over(earlier)
    first = sf.coalesce(before == "d", sf.lit(from_start))
    seen = add_places(changes, spec)
    return seen.withColumn("absent", sf.when(~first, sf.col("absent"))).drop("place")


def _names(spec: SilverSpec) -> Expression:
    names = sf.array(*[sf.lit(c.name) for c in spec.columns])
    listed = sf.array_join(sf.transform(sf.col("absent"), lambda i: sf.element_at(names, i + 1)), ", ")
    hint = "; ALTER TABLE ... REPLICA IDENTITY FULL sends whole rows"
    return sf.concat(sf.lit("the event has no value for "), listed, sf.lit(hint))


def fold_per_key(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """One row per key of judged events: each column from the newest event that holds it.

    `absent` lists the columns that none of them holds.
    """
    keys, rest = key_slots(spec), rest_slots(spec)
    fit = events.where(sf.col("problem").isNull())

    def newest(value: Expression, holds: Expression | None = None) -> Expression:
        position = sf.col(POSITION) if holds is None else sf.when(holds, sf.col(POSITION))
        return sf.max_by(value if holds is None else sf.when(holds, value), position)

    folded = fit.groupBy(*keys).agg(
        newest(sf.struct(*META)).alias("meta"),
        *[newest(sf.struct(sf.col(name).alias("value")), holds(name, spec)).alias(name) for name in rest],
    )
    gaps = sf.array_compact(sf.array(*[sf.when(sf.col(name).isNull(), sf.lit(int(name[1:]))) for name in rest]))
    return folded.select(
        *keys,
        *[sf.col(name)["value"].alias(name) for name in rest],
        *[sf.col("meta").getField(name).alias(name) for name in META],
        (sf.when(sf.size(gaps) > 0, gaps) if rest else sf.lit(None).cast("array<int>")).alias("absent"),
    )


def newest_rows_in_arrow(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row per key, that of the highest position; `changes` has no NULL in a key and none in its positions."""
    changes = sort_rows(changes, [POSITION])
    ranked = changes.select(list(keys)).append_column("_cdc_rank", pa.array(np.arange(changes.num_rows)))
    last = ranked.group_by(list(keys), use_threads=False).aggregate([("_cdc_rank", "max")])
    return changes if last.num_rows == changes.num_rows else changes.take(last["_cdc_rank_max"].combine_chunks())
