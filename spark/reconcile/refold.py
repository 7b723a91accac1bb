"""Keys of silver put right from bronze: folded again from everything that bronze has of them, whatever silver holds.

As with a re-drive, the result replaces silver's rows at their own position. A key that bronze says is gone is deleted, and
one that silver holds more than once is deleted first. The events after what silver has folded come by its next run.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.slice import table_events
from spark.delta.commits import Folded, silver_metadata
from spark.delta.conflicts import run_again
from spark.delta.identifiers import quote
from spark.delta.log import silver_folded
from spark.reconcile.of_keys import of_keys
from spark.reconcile.row_text import RowText
from spark.schema.evolution import align_columns
from spark.silver import merge, quarantine
from spark.silver.changes import decode_changes, key_slots, slot
from spark.silver.fold import after_truncate, fold_per_key, mark_problems
from spark.specs import META, SilverSpec


@dataclass(frozen=True)
class Refold:
    """Which keys (texts of spark.reconcile.row_text) of which table."""

    spec: SilverSpec
    keys: Sequence[str]


def run(session: SparkSession, asked: Refold) -> int:
    """How many keys silver has been given anew."""
    return run_again(lambda: _run(session, asked))


def _run(session: SparkSession, asked: Refold) -> int:
    before = silver_folded(session, asked.spec.path)
    if before is None or not asked.keys or not asked.spec.keys:
        return 0
    spec = align_columns(session, asked.spec, after=before.highest)
    text = RowText(spec)
    wanted = session.createDataFrame([(k,) for k in asked.keys], "key string")
    events = decode_changes(of_keys(table_events(session, spec, before.bronze_version), text, asked.keys), spec)
    if before.quarantined:
        events = quarantine.without_dropped(session, spec, events)
    if spec.truncate == "apply":
        events = after_truncate(events, before.truncated)
    own = events.withColumn("key", text.key()).join(sf.broadcast(wanted), "key", "left_semi").drop("key")
    folded = fold_per_key(mark_problems(own, spec, from_start=True), spec).drop("absent").localCheckpoint()
    there = _there(session, spec, text, wanted)
    gone = there.join(folded.select(*key_slots(spec)), key_slots(spec), "left_anti").where("copies >= 1")
    twice = there.where("copies > 1")
    away = gone.unionByName(twice).drop("copies").distinct().localCheckpoint()
    if not away.isEmpty():
        _merge(session, spec, before, _deletes(away, folded, spec))
    _merge(session, spec, before, folded)
    return len(asked.keys)


def _there(session: SparkSession, spec: SilverSpec, text: RowText, wanted: DataFrame) -> DataFrame:
    """The keys that silver holds, and how often."""
    order = {c.name: i for i, c in enumerate(spec.columns)}
    table = session.read.format("delta").load(spec.path)
    keys = table.select(*[sf.col(quote(k)).alias(slot(order[k])) for k in spec.keys])
    held = keys.withColumn("key", text.key()).join(sf.broadcast(wanted), "key", "left_semi").drop("key")
    return held.groupBy(*key_slots(spec)).agg(sf.count("*").alias("copies")).localCheckpoint()


def _deletes(keys: DataFrame, like: DataFrame, spec: SilverSpec) -> DataFrame:
    """A delete of each key, in the columns of changes."""
    types = {f.name: f.dataType for f in like.schema.fields}
    own = key_slots(spec)
    empty = [sf.lit(None).cast(types[n]).alias(n) for n in like.columns if n not in (*own, *META)]
    facts = [
        sf.lit("").alias("_cdc_position"),
        sf.lit("d").alias("_cdc_op"),
        sf.lit(None).cast(types["_cdc_source_ts"]).alias("_cdc_source_ts"),
        sf.lit(None).cast(types["_cdc_tx_id"]).alias("_cdc_tx_id"),
    ]
    return keys.select(*own, *empty, *facts).select(*like.columns)


def _merge(session: SparkSession, spec: SilverSpec, before: Folded, rows: DataFrame) -> None:
    operation_id = uuid.uuid4().hex
    forced = rows.withColumn("forced", sf.lit(True)).localCheckpoint()
    metadata = silver_metadata(operation_id, before, {"refolded": forced.count()})
    merge.execute(session, spec, forced, metadata, operation_id, truncated=None)
