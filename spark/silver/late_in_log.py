"""Late events of a table whose oldest records are with the backup: folded from what the log holds, where that says it all.

A key is folded again from its lowest late event on. That is enough if this event says the whole row (or that it is gone), and if
the log still has every event above it, of all keys: rows that were moved from the key lie above it too. What is gone has to lie
below the lowest late event, then. Where anything found so cannot be folded, or a late event is no such one, all is asked for.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.bronze.held import highest_gone
from spark.bronze.slice import events_from
from spark.delta.cluster import compute_once
from spark.silver import key_changes
from spark.silver.batch import SilverRun
from spark.silver.changes import key_slots
from spark.silver.fold import POSITION, after_truncate, mark_problems, of_keys
from spark.silver.late import late
from spark.silver.table import soft


def fold_events_in_log(work: SilverRun, keys: DataFrame, truncated: str | None) -> tuple[DataFrame, DataFrame] | None:
    """The keys to be folded again, and their events, completed and without a problem; None: the log does not say it all."""
    spec = work.spec
    if work.before is None or soft(spec) or not spec.envelope.startswith("debezium"):
        return None
    if work.before.quarantined:
        return None  # one of these may leave a row in doubt without a position that says where
    gone = highest_gone(work.session, spec)
    lowest = None if gone is None else _lowest_of_whole(work)
    if gone is None or lowest is None or lowest <= gone:
        return None
    rows = work.decode(events_from(work.session, spec, work.committed.version, lowest))
    changes = work.less_dropped(after_truncate(rows, truncated))
    keys = key_changes.follow_moves(keys.distinct().transform(compute_once), changes, spec)
    own = of_keys(changes, keys, spec).transform(compute_once)
    seen = mark_problems(key_changes.complete_creates(own, changes, spec), spec, from_start=True).transform(compute_once)
    return (keys, seen) if seen.where(sf.col("problem").isNotNull()).isEmpty() else None


def _lowest_of_whole(work: SilverRun) -> str | None:
    """The lowest position of a late event; None where the lowest of a key does not say all of its row."""
    rows = work.changes.where(late(work.before))
    first = sf.min_by(sf.col("absent").isNotNull(), POSITION).alias("part")
    odd = sf.count_if(sf.col("problem").isNotNull() | (sf.col("_cdc_op") == "t")).alias("odd")
    by_key = rows.groupBy(*key_slots(work.spec)).agg(sf.min(POSITION).alias("lowest"), first, odd)
    found = by_key.agg(sf.min("lowest").alias("lowest"), sf.count_if("part").alias("parts"), sf.sum("odd").alias("odd")).first()
    return None if found is None or found.parts or found.odd else found.lowest
