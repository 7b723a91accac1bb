"""Bronze rows to typed changes: one row per event, with the key, the after-image and its place in the order.

Columns travel as c0, c1, ... in the order of the spec, so that no identifier of the source meets a SQL expression
before the very end. An event that cannot be folded says so in its column `problem`, and one that holds only a part of
its row in `absent` (spark.silver.problems): both cost no extra pass over the data.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.leaves import leaf, leaves
from spark.silver.problems import absent, gap, problem
from spark.silver.row_filter import is_outside
from spark.specs import SilverSpec
from spark.types.rule import LakeType
from spark.types.type_rules import lake_type


def slot(index: int) -> str:
    """The internal name of the spec's column number `index`."""
    return f"c{index}"


def key_slots(spec: SilverSpec) -> list[str]:
    """Internal names of the key columns, in key order."""
    names = [c.name for c in spec.columns]
    return [slot(names.index(k)) for k in spec.keys]


def lake_types(spec: SilverSpec) -> list[LakeType]:
    """The lake type of each column of the spec."""
    return [lake_type(column) for column in spec.columns]


def decode_changes(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """Typed changes of bronze rows (tombstones must be gone): c0.., the meta columns, topic, partition, offset."""
    image = leaves(events, spec)
    keys = set(spec.keys)
    gaps = [gap(column, i, spec) if column.name not in keys else None for i, column in enumerate(spec.columns)]
    marked = image.select("*", *[g.alias(f"g{i}") for i, g in enumerate(gaps) if g is not None])
    known = [None if g is None else sf.col(f"g{i}") for i, g in enumerate(gaps)]
    values = [kind.convert(sf.col(leaf(i))) for i, kind in enumerate(lake_types(spec))]
    held = [value if g is None else sf.when(~g, value) for value, g in zip(values, known, strict=True)]
    typed = marked.select("*", *[value.alias(slot(i)) for i, value in enumerate(held)])
    outside = is_outside(spec, known)
    op = sf.col("op") if outside is None else sf.when(outside, "d").otherwise(sf.col("op"))
    part = sf.when(op != "d", absent(known))
    # A row that arrives in parts is no create that lost values on its way (spark.silver.key_changes).
    op = sf.when((sf.col("op") == "c") & part.isNotNull(), "u").otherwise(sf.col("op")) if spec.partial else op
    return typed.select(
        *("topic", "partition", "offset", "snapshot"),
        *[slot(i) for i in range(len(spec.columns))],
        sf.col("position").alias("_cdc_position"),
        op.alias("_cdc_op"),
        sf.col("source_ts").alias("_cdc_source_ts"),
        sf.col("tx_id").alias("_cdc_tx_id"),
        part.alias("absent"),
        problem(spec, gaps=known).alias("problem"),
    )
