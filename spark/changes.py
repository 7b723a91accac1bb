"""Bronze rows to typed changes: one row per event, with the key, the after-image and its place in the order.

Columns travel as c0, c1, ... in the order of the spec, so that no identifier of the source meets a SQL expression
before the very end. A record that cannot be folded stops the job from inside the query, before anything is committed,
with an error that names it (`raise_error`, read back by `record_error`): no extra pass over the data, and the outcome
does not depend on how the records were cut into batches.
"""

from __future__ import annotations

import json

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.leaves import leaf, leaves
from spark.errors import RecordError, UnsupportedEventError
from spark.specs import SilverSpec
from spark.types.registry import lake_type
from spark.types.rule import LakeType
from spark.unavailable import forms, null_may_mean_unchanged

MARK = "CDC_RECORD:"
META = ("_cdc_position", "_cdc_op", "_cdc_source_ts", "_cdc_tx_id")
META_TYPES = {
    "_cdc_position": "string",
    "_cdc_op": "string",
    "_cdc_source_ts": "timestamp",
    "_cdc_tx_id": "string",
}


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


def decoded(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """Typed changes of bronze rows (tombstones must be gone): c0.., the meta columns, topic, partition, offset."""
    image = leaves(events, spec)
    typed = image.select("*", *[kind.convert(sf.col(leaf(i))).alias(slot(i)) for i, kind in enumerate(lake_types(spec))])
    return typed.select(
        *("topic", "partition", "offset", "snapshot"),
        *[slot(i) for i in range(len(spec.columns))],
        sf.col("position").alias("_cdc_position"),
        _checked_op(spec).alias("_cdc_op"),
        sf.col("source_ts").alias("_cdc_source_ts"),
        sf.col("tx_id").alias("_cdc_tx_id"),
    )


def _checked_op(spec: SilverSpec) -> Expression:
    """The op, or the job's end. It hangs on the op because every plan needs the op."""
    problems = [sf.when(sf.col("unreadable").isNotNull(), _problem(sf.col("unreadable")))]
    unchanged = forms(spec.unavailable)
    for i, column in enumerate(spec.columns):
        text, typed = sf.col(leaf(i)), sf.col(slot(i))
        kind = {"column": column.name, "type": column.source_type}
        unavailable = "the value is not in the event (unchanged TOAST): ALTER TABLE ... REPLICA IDENTITY FULL"
        missing = text.isin(*unchanged) | ~sf.coalesce(sf.get("present", sf.lit(i)), sf.lit(True))
        if null_may_mean_unchanged(column):
            missing = missing | (text.isNull() & (sf.col("op") == "u") & ~sf.col("has_before"))
        problems.append(sf.when(missing, _problem(sf.lit(unavailable), **kind, value=sf.lit(None))))
        unfit = sf.lit("the value does not fit the column's type")
        problems.append(sf.when(text.isNotNull() & typed.isNull(), _problem(unfit, **kind, value=sf.left(text, sf.lit(200)))))
    problem = sf.coalesce(*problems)
    return sf.when(problem.isNull(), sf.col("op")).otherwise(sf.raise_error(sf.concat(sf.lit(MARK), problem)).cast("string"))


def _problem(reason: Expression, **facts: Expression | str | None) -> Expression:
    named = [sf.lit(v).alias(k) if not isinstance(v, Expression) else v.alias(k) for k, v in facts.items()]
    return sf.to_json(sf.struct("topic", "partition", "offset", "op", reason.alias("reason"), *named))


def record_error(error: Exception, spec: SilverSpec) -> RecordError | None:
    """The error of a record that stopped the job from inside the query, or None."""
    text = str(error)
    start = text.find(MARK + "{")
    if start < 0:
        return None
    facts, _ = json.JSONDecoder().raw_decode(text[start + len(MARK) :])
    place = f"table {spec.table}: topic {facts['topic']} partition {facts['partition']} offset {facts['offset']}"
    what = facts["reason"]
    if "column" in facts:
        value = f", value {facts['value']!r}" if facts.get("value") is not None else ""
        what = f"column {facts['column']!r} of type {facts['type']}{value}: {what}"
    kind = UnsupportedEventError if facts.get("op") in ("t", "u", "d") and "column" not in facts else RecordError
    return kind(f"{place}: {what}")
