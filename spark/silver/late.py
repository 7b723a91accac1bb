"""Events that come late, and why silver need not remember deletes to tell them.

A delete leaves no row behind, so an older event of its key that comes after it would make the row anew. A late event is
known by its position instead, and its key is folded again from everything that bronze has of it:

- at or below the highest position folded in its topic partition. A key is always in the same partition;
- unless partitions are added: then keys move, and the old partition may bring older events after the new one. `grown` is the
  highest position folded when that was seen. Until every partition is past it, whatever is at or below it is late as well.

So the memory is one position per partition and at most one more, however many rows are deleted; it is part of silver's
commit. What it costs instead is reading bronze when something is late: `late_events` and `refolded_keys` say how often.
Bronze must hold all events of the keys that are folded again: rows taken out of it by hand are not seen again.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.bronze.slice import by_partition
from spark.delta.commits import CommittedTopic, Folded


def late(before: Folded | None) -> Expression:
    """Whether an event (column `_cdc_position`) is late for what has been folded."""
    if before is None:
        return sf.lit(False)
    highest = by_partition({topic: state.max_position for topic, state in before.topics.items()}).cast("string")
    known = highest if before.grown is None else sf.greatest(highest, sf.lit(before.grown))
    return sf.coalesce(sf.col("_cdc_position") <= known, sf.lit(False))


def grown(before: Folded | None, topics: Mapping[str, CommittedTopic]) -> str | None:
    """The position to remember besides those of the partitions, once `topics` is folded."""
    places = {(topic, p) for topic, state in topics.items() for p in state.positions}
    if len(places) < 2:
        return None
    known = {(topic, p) for topic, state in before.topics.items() for p in state.positions} if before else set()
    reached = {(topic, p): at for topic, state in topics.items() for p, at in state.max_position.items()}
    limit = before.grown if before and places <= known else max(reached.values(), default=None)
    if limit is None or all(reached.get(place, "") >= limit for place in places):
        return None
    return limit


def position_count(folded: Folded) -> int:
    """How many positions that are."""
    return sum(len(state.max_position) for state in folded.topics.values()) + (folded.grown is not None)
