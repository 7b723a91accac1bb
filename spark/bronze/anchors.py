"""The snapshots at which PostgreSQL's changes without a last commit are anchored (spark.positions.postgresql).

Such a change is of the first transaction that its connector streamed behind an initial snapshot, and stands behind the newest one
before it in its partition. A stretch that is delivered again may bring it behind a later snapshot, above which it must not rise:
so which transactions these were, and the snapshot before each, goes on in bronze's commits. They are few, one per start of a
connector without offsets; a source whose events do not name their transaction has only the order of the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from spark.delta.commits import Committed
from spark.positions import layout, postgresql

Place = tuple[str, int]
Snapshots = dict[Place, list[tuple[int, int]]]
"""By topic and partition: the first offset and the LSN of each."""
Openings = dict[Place, dict[str, int]]
"""By topic and partition: the LSN of the newest snapshot before each such transaction, 0 where there was none."""


def assign_positions(drafts: DataFrame, groups: Sequence[Row], committed: Committed) -> tuple[DataFrame, Openings]:
    """The batch with every event's final position, and what its commit must say for the next ones."""
    snapshots = _snapshots(groups, committed)
    openings = _openings(groups, snapshots, committed)
    if not snapshots:
        return drafts, openings
    of = postgresql.RecordPlace(sf.col("topic"), sf.col("partition"), sf.col("offset"), sf.col("tx_id"))
    lsn = sf.col("lsn")
    own = postgresql.anchor(lsn, of, snapshots=snapshots, openings=openings)
    final = postgresql.place(anchor=sf.coalesce(sf.col("last_commit"), own), op=sf.col("op"), lsn=lsn)
    position = layout.position(epoch=sf.col("epoch"), place=final, offset=sf.col("offset"))
    # A snapshot's row stands where it was taken, wherever it is delivered again.
    changed = lsn.isNotNull() & ~sf.col("op").eqNullSafe("r")
    return drafts.withColumn("position", sf.when(changed, position).otherwise(sf.col("position"))), openings


def _openings(groups: Sequence[Row], snapshots: Snapshots, committed: Committed) -> Openings:
    """Of the batch; what earlier commits know of a transaction holds."""
    begun: dict[Place, dict[str, int]] = defaultdict(dict)
    for group in groups:
        if group.unanchored and group.opening is not None:
            known = begun[group.topic, group.partition]
            known[group.opening] = min(group.first_offset, known.get(group.opening, group.first_offset))
    return {place: _anchors(place, firsts, snapshots, committed) for place, firsts in begun.items()}


def _anchors(place: Place, firsts: dict[str, int], snapshots: Snapshots, committed: Committed) -> dict[str, int]:
    topic, partition = place
    state = committed.topics.get(topic)
    known = state.openings.get(partition, {}) if state is not None else {}

    def before(offset: int) -> int:
        return max((lsn for first, lsn in snapshots.get(place, ()) if first < offset), default=0)

    return {tx: known.get(tx, before(first)) for tx, first in firsts.items()}


def _snapshots(groups: Sequence[Row], committed: Committed) -> Snapshots:
    """Initial snapshots, where a change needs one as its anchor; empty in nearly every batch."""
    needing = {(g.topic, g.partition) for g in groups if g.unanchored}
    found: Snapshots = defaultdict(list)
    for topic, partition in needing:
        state = committed.topics.get(topic)
        if state is not None and partition in state.snapshots:
            found[topic, partition].append((-1, state.snapshots[partition]))
    for group in groups:
        if group.initial is not None and (group.topic, group.partition) in needing:
            found[group.topic, group.partition].append((group.first_offset, group.initial))
    return dict(found)
