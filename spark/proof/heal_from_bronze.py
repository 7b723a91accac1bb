"""Damaged keys put right from bronze, in silver and in a history: folded again from everything that bronze has of them,
as `reconcile --heal` asks.

In silver the result replaces rows at their own position; a key that bronze says is gone, or that is there twice, is
deleted first. In a history the versions of the damaged keys are replaced in one commit, and its place in the log
stays; where it has gone on meanwhile, or bronze no longer holds it all, nothing is touched (JobRefusedError).
Killed anywhere, both can be run again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.change_log import fold_at_last_run, table_events
from spark.errors import JobRefusedError
from spark.proof import history_proof
from spark.proof.history_proof import Again, as_folded, versions_again
from spark.proof.row_text import RowText
from spark.proof.table_at_cut import rows_of_keys
from spark.silver import quarantine_table, spark_merge
from spark.silver.history_versions import VersionMerge
from spark.silver.key_changes import complete_creates
from spark.silver.newest_event import after_truncate, fold_per_key, mark_problems, not_of_keys, of_keys
from spark.silver.row_completion import deletes_of
from spark.silver.schema_evolution import align_columns
from spark.silver.typed_changes import decode_changes, key_slots, slot
from spark.specs import SilverSpec
from spark.table.commit_metadata import Folded, silver_metadata
from spark.table.delta_table import table_of
from spark.table.identifiers import quote, table_at
from spark.table.spark_failures import run_again
from spark.table.spark_session import compute_once, execute
from spark.table.write_lease import lend_to_spark


@dataclass(frozen=True)
class Refold:
    """Which keys (texts of spark.proof.row_text) of which table."""

    spec: SilverSpec
    keys: Sequence[str]


def refold_keys(session: SparkSession, refold: Refold) -> int:
    """How many keys silver has been given anew.

    As with a re-drive, the result replaces silver's rows at their own position. A key that bronze says is gone is
    deleted, and one that silver holds more than once is deleted first. The events after what silver has folded come by
    its next run.
    """
    with lend_to_spark(refold.spec.path):
        return run_again(lambda: _refold_keys(session, refold))


def _refold_keys(session: SparkSession, refold: Refold) -> int:
    before = table_of(refold.spec.path).silver_folded()
    if before is None or not refold.keys or not refold.spec.keys:
        return 0
    spec = align_columns(session, refold.spec, after=before.highest)
    text = RowText(spec)
    key_frame = session.createDataFrame([(k,) for k in refold.keys], "key string")
    everything = table_events(session, spec, fold_at_last_run(spec, before).version)
    events = _changes(session, spec, before, rows_of_keys(everything, text, refold.keys))
    own = (
        events.withColumn("key", text.key()).join(sf.broadcast(key_frame), "key", "left_semi").drop("key").transform(compute_once)
    )
    # The rest of a row that was moved is among the events of another key.
    own = complete_creates(own, _changes(session, spec, before, everything), spec)
    folded = fold_per_key(mark_problems(own, spec), spec)
    there = _rows_in_silver(session, spec, text, key_frame)
    gone = not_of_keys(there, folded, spec).where("copies >= 1")
    twice = there.where("copies > 1")
    away = gone.unionByName(twice).drop("copies").distinct().transform(compute_once)
    if not away.isEmpty():
        _merge(session, spec, before, deletes_of(away, folded, spec))
    _merge(session, spec, before, folded)
    return len(refold.keys)


def _changes(session: SparkSession, spec: SilverSpec, before: Folded, events: DataFrame) -> DataFrame:
    """The bronze rows, decoded, less what was given up or lies below a TRUNCATE."""
    changes = decode_changes(events, spec)
    if before.quarantined:
        changes = quarantine_table.without_dropped(session, spec, changes)
    return after_truncate(changes, before.truncated) if spec.truncate == "apply" else changes


def _rows_in_silver(session: SparkSession, spec: SilverSpec, text: RowText, key_frame: DataFrame) -> DataFrame:
    """The keys that silver holds, and how often."""
    order = {c.name: i for i, c in enumerate(spec.columns)}
    table = session.read.format("delta").load(spec.path)
    keys = table.select(*[sf.col(quote(k)).alias(slot(order[k])) for k in spec.keys])
    chosen = keys.withColumn("key", text.key()).join(sf.broadcast(key_frame), "key", "left_semi").drop("key")
    return chosen.groupBy(*key_slots(spec)).agg(sf.count("*").alias("copies")).transform(compute_once)


def _merge(session: SparkSession, spec: SilverSpec, before: Folded, rows: DataFrame) -> None:
    operation_id = uuid.uuid4().hex
    forced = rows.withColumn("forced", sf.lit(True)).transform(compute_once)
    metadata = silver_metadata(operation_id, before, {"refolded": forced.count()})
    spark_merge.execute(session, spec, forced, metadata, operation_id, truncated=None)


def mend_history(session: SparkSession, again: Again) -> int:
    """How many keys were folded again, of all keys; `again.folded` is what the history was seen to have folded.

    Before the commit nothing has changed, and behind it everything has: killed anywhere, it can be run again. The
    history's place in the log stays as it was. What bronze does not hold any more cannot be made again, so nothing is
    touched then.

    Raises:
        JobRefusedError: bronze does not hold all that the history was made of, or the history has gone on since.
    """
    with lend_to_spark(again.spec.path):
        return run_again(lambda: _mend_history(session, replace(again, part=0, parts=1)))


def _mend_history(session: SparkSession, damaged: Again) -> int:
    before = table_of(damaged.spec.path).silver_folded()
    if before is None or before.topics != damaged.folded.topics:
        raise JobRefusedError(f"{damaged.spec.path} has gone on since it was looked at: run it again")
    spec, _ = as_folded(session, damaged.spec)
    again = replace(damaged, spec=spec, folded=before)
    if why := history_proof.why_not_folded(session, again):
        raise JobRefusedError(f"{why}; what is left of the history is kept as it is")
    newest = session.sql(f"DESCRIBE HISTORY {table_at(spec.path)} LIMIT 1").first()
    assert newest is not None
    there = history_proof.versions_there(session, again, newest.version).transform(compute_once)
    made = versions_again(session, again).transform(compute_once)
    keys = history_proof.wrong_keys(session, again, there, made).transform(compute_once)
    count = keys.count()
    if count:
        metadata = silver_metadata(uuid.uuid4().hex, before, {"refolded": count})
        _replace(session, spec, keys, of_keys(made, keys, spec), metadata)
    return count


def _replace(session: SparkSession, spec: SilverSpec, keys: DataFrame, made: DataFrame, metadata: str) -> None:
    """All that the history has of these keys goes, and what was made comes: one MERGE."""
    merge, view = VersionMerge(spec), f"cdc_mended_{uuid.uuid4().hex}"
    on = f"s.gone AND {merge.same_key}"
    sql = f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {on} WHEN MATCHED THEN DELETE {merge.insert}"
    execute(session, sql, view=view, rows=merge.rows(made, keys).transform(compute_once), metadata=metadata)
