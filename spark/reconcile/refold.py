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

from spark.bronze.slice import fold_at_last_run, table_events
from spark.delta.cluster import compute_once
from spark.delta.commits import Folded, silver_metadata
from spark.delta.conflicts import run_again
from spark.delta.identifiers import quote
from spark.delta.lease import lend_to_spark
from spark.delta.log import silver_folded
from spark.reconcile.of_keys import of_keys
from spark.reconcile.row_text import RowText
from spark.schema.evolution import align_columns
from spark.silver import merge, quarantine
from spark.silver.changes import decode_changes, key_slots, slot
from spark.silver.completion import deletes_of
from spark.silver.fold import after_truncate, fold_per_key, mark_problems, not_of_keys
from spark.silver.key_changes import complete_creates
from spark.specs import SilverSpec


@dataclass(frozen=True)
class Refold:
    """Which keys (texts of spark.reconcile.row_text) of which table."""

    spec: SilverSpec
    keys: Sequence[str]


def run(session: SparkSession, asked: Refold) -> int:
    """How many keys silver has been given anew."""
    with lend_to_spark(asked.spec.path):
        return run_again(lambda: _run(session, asked))


def _run(session: SparkSession, asked: Refold) -> int:
    before = silver_folded(session, asked.spec.path)
    if before is None or not asked.keys or not asked.spec.keys:
        return 0
    spec = align_columns(session, asked.spec, after=before.highest)
    text = RowText(spec)
    wanted = session.createDataFrame([(k,) for k in asked.keys], "key string")
    everything = table_events(session, spec, fold_at_last_run(session, spec, before).version)
    events = _changes(session, spec, before, of_keys(everything, text, asked.keys))
    own = events.withColumn("key", text.key()).join(sf.broadcast(wanted), "key", "left_semi").drop("key").transform(compute_once)
    # The rest of a row that was moved is among the events of another key.
    own = complete_creates(own, _changes(session, spec, before, everything), spec)
    folded = fold_per_key(mark_problems(own, spec, from_start=True), spec).drop("absent").transform(compute_once)
    there = _there(session, spec, text, wanted)
    gone = not_of_keys(there, folded, spec).where("copies >= 1")
    twice = there.where("copies > 1")
    away = gone.unionByName(twice).drop("copies").distinct().transform(compute_once)
    if not away.isEmpty():
        _merge(session, spec, before, deletes_of(away, folded, spec))
    _merge(session, spec, before, folded)
    return len(asked.keys)


def _changes(session: SparkSession, spec: SilverSpec, before: Folded, events: DataFrame) -> DataFrame:
    """The bronze rows, decoded, less what was given up or lies below a TRUNCATE."""
    changes = decode_changes(events, spec)
    if before.quarantined:
        changes = quarantine.without_dropped(session, spec, changes)
    return after_truncate(changes, before.truncated) if spec.truncate == "apply" else changes


def _there(session: SparkSession, spec: SilverSpec, text: RowText, wanted: DataFrame) -> DataFrame:
    """The keys that silver holds, and how often."""
    order = {c.name: i for i, c in enumerate(spec.columns)}
    table = session.read.format("delta").load(spec.path)
    keys = table.select(*[sf.col(quote(k)).alias(slot(order[k])) for k in spec.keys])
    held = keys.withColumn("key", text.key()).join(sf.broadcast(wanted), "key", "left_semi").drop("key")
    return held.groupBy(*key_slots(spec)).agg(sf.count("*").alias("copies")).transform(compute_once)


def _merge(session: SparkSession, spec: SilverSpec, before: Folded, rows: DataFrame) -> None:
    operation_id = uuid.uuid4().hex
    forced = rows.withColumn("forced", sf.lit(True)).transform(compute_once)
    metadata = silver_metadata(operation_id, before, {"refolded": forced.count()})
    merge.execute(session, spec, forced, metadata, operation_id, truncated=None)
