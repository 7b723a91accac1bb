"""Bronze rows of one table to text leaves: t0, t1, ... in the order of the spec's columns, and why a record is unfit.

The leaves are what the type stage converts; whatever the envelope, they look the same from here on.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.envelope import Envelope
from spark.envelopes.registry import envelope
from spark.positions.registry import connector
from spark.specs import Column, SilverSpec

CARRIED = ("topic", "partition", "offset", "position", "op", "source_ts", "tx_id", "snapshot")


def leaf(index: int) -> str:
    """The internal name of the text of the spec's column number `index`."""
    return f"t{index}"


def leaves(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """What CARRIED names, `unreadable` (the reason, or null), `has_before`, `present` (see Envelope.images), leaves."""
    form = envelope(spec.envelope).prepared(events, spec.schema_registry)
    images = form.images(events.select(*CARRIED, "key", "value", "headers"), spec)
    return images.select(
        *CARRIED,
        _unreadable(spec, form).alias("unreadable"),
        sf.col("row_before").isNotNull().alias("has_before"),
        "present",
        *[_text(column, spec).alias(leaf(i)) for i, column in enumerate(spec.columns)],
    )


def _text(column: Column, spec: SilverSpec) -> Expression:
    """The column's leaf. A key column of a delete comes from the record's key, or else from the before-image."""
    after = sf.col("row_after").getField(column.name)
    if column.name not in spec.keys:
        return after
    return sf.coalesce(sf.col("row_key").getField(column.name), after, sf.col("row_before").getField(column.name))


def _unreadable(spec: SilverSpec, form: Envelope) -> Expression:
    """Why the envelope cannot be folded, null where it can."""
    op, before, after = sf.col("op"), sf.col("row_before"), sf.col("row_after")
    needs = connector(spec.connector).needs
    reasons: list[tuple[Expression, str | Expression]] = [
        (op.isNull(), f"the value is not {form.form}"),
        (sf.col("unfit").isNotNull(), sf.col("unfit")),
        (op == "t", "TRUNCATE has no rule for this table yet: empty the table in the lake, then go on"),
        (~op.isin("c", "u", "d", "r"), "the op is none of c, u, d, r"),
        (sf.col("position").isNull(), f"the source block has no log position ({needs})"),
        (op.isin("c", "u", "r") & after.isNull(), "the event has no after-image"),
    ]
    if spec.keys:
        reasons.append((sf.col("key").isNull() & after.isNull() & before.isNull(), "the event has no key"))
    else:
        unkeyed = "the table has no key, so an update or delete has no row to go to: declare its keys"
        reasons.append((op.isin("u", "d"), unkeyed))
    answer = sf.lit(None).cast("string")
    for condition, reason in reversed(reasons):
        answer = sf.when(condition, reason).otherwise(answer)
    return answer
