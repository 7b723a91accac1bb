"""From the events of keys to the versions of their rows: what each was, from which position on, and until which."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf

from spark.delta.conditions import any_of
from spark.delta.identifiers import quote
from spark.schema.column_ledger import DROPPED
from spark.silver.changes import key_slots, slot
from spark.silver.fold import POSITION, mark_problems, rest_slots
from spark.specs import META, VALID, SilverSpec


def versions(changes: DataFrame, spec: SilverSpec, truncates: list[str]) -> DataFrame:
    """The versions that these changes make: all there are of their keys, or those from a row of the history on, which has the
    position where its version began in `began`."""
    keys, rest = key_slots(spec), rest_slots(spec)
    events = mark_problems(changes.where(sf.col("_cdc_op").isNull() | (sf.col("_cdc_op") != "t")), spec, from_start=True)
    # A replay is the same event again: it makes no version.
    order = Window.partitionBy(*keys).orderBy(POSITION)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    fit = events.where(sf.col("problem").isNull())
    filled = fit.withColumns({name: _newest_value(name).over(so_far)["value"] for name in rest})
    ended = _end_versions(filled.withColumn("next", sf.lead(POSITION).over(order)), truncates)
    alive = ended.where(sf.col("_cdc_op") != "d")
    last = Window.partitionBy(*keys).orderBy(POSITION)
    starts = _starts(spec, rest, last)
    numbered = alive.withColumn("starts", starts.cast("int")).withColumn("number", sf.sum("starts").over(last))
    carried = [*rest, *META, "next"]
    began = sf.coalesce(sf.col("began"), sf.col(POSITION)) if "began" in changes.columns else sf.col(POSITION)
    made = numbered.groupBy(*keys, "number").agg(
        sf.min(began).alias("_valid_from"), sf.max_by(sf.struct(*carried), POSITION).alias("newest")
    )
    return made.select(
        *keys,
        *[sf.col("newest").getField(name).alias(name) for name in (*rest, *META)],
        "_valid_from",
        sf.col("newest")["next"].alias("_valid_to"),
        sf.col("newest")["next"].isNull().alias("_is_current"),
    )


def _newest_value(name: str) -> Expression:
    """The column's newest value so far."""
    holds = sf.col("absent").isNull() | ~sf.array_contains("absent", int(name[1:]))
    return sf.last(sf.when(holds, sf.struct(sf.col(name).alias("value"))), ignorenulls=True)


def _end_versions(events: DataFrame, truncates: list[str]) -> DataFrame:
    """`next` is the position that ends what each event made: the next event of its key, or a TRUNCATE before that."""
    if not truncates:
        return events
    later = sf.filter(sf.array(*map(sf.lit, truncates)), lambda t: t > sf.col(POSITION))
    return events.withColumn("next", sf.least("next", sf.array_min(later)))


def _starts(spec: SilverSpec, rest: list[str], order: WindowSpec) -> Expression:
    """Whether the event makes a version of its own, rather than changing the one that holds."""
    # What a renamed column leaves behind says nothing of its own.
    told = [(slot(i), c.name) for i, c in enumerate(spec.columns) if slot(i) in rest and not c.event_field.startswith(DROPPED)]
    tracked = [name for name, column in told if column in spec.track_history] or [name for name, _ in told]
    # The version before it has ended by something else: a delete or a TRUNCATE came between.
    follows = sf.lag("next").over(order).eqNullSafe(sf.col(POSITION))
    changed = any_of([~sf.col(n).eqNullSafe(sf.lag(n).over(order)) for n in tracked])
    return ~follows | changed


def name_versions(made: DataFrame, spec: SilverSpec) -> DataFrame:
    """Versions under the names that the table's columns have, with the source's types as comments."""
    names = [sf.col(slot(i)).alias(c.name, metadata={"comment": c.source_type}) for i, c in enumerate(spec.columns)]
    return made.select(*names, *META, *VALID)


class VersionMerge:
    """The pieces of a MERGE of versions `s` into a history `t`; rows of `s` with `gone` take away."""

    def __init__(self, spec: SilverSpec) -> None:
        self.targets = [(quote(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in (*META, *VALID)]
        self.same_key = " AND ".join(f"t.{quote(k)} <=> s.{s}" for k, s in zip(spec.keys, key_slots(spec), strict=True))
        names, values = ", ".join(n for n, _ in self.targets), ", ".join(f"s.{v}" for _, v in self.targets)
        self.insert = f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({names}) VALUES ({values})"

    @staticmethod
    def rows(made: DataFrame, gone: DataFrame | None) -> DataFrame:
        """What is made and what goes."""
        kept = made.withColumn("gone", sf.lit(False))
        return kept if gone is None else kept.unionByName(gone.withColumn("gone", sf.lit(True)), allowMissingColumns=True)
