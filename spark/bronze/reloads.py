"""The place of rows that are loaded again, where the source gives them none (attunity and mongodb of spark.positions).

A row of a full load stands below every change, which is right for the first load only. A row loaded after changes was
read after them, so it takes the highest place before it in its topic partition, and its later offset puts it above. The
changes that follow a load carry higher places and win, whether the row already held them or not: they end in the same
state. What came before is in the log's own commits, so a place does not depend on how the log was cut into batches.

A mirror that begins anew delivers rows of an old snapshot behind all changes, which they do not hold. Their records have the time
at which they were sent: a row that is older than the change before it, by more than clocks differ, stays below every change.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as sf

from spark.delta.commits import Committed
from spark.positions import layout
from spark.positions.source_kinds import connector
from spark.specs import TopicRange

_KIND = len(f".{layout.SNAPSHOT}")
_CLOCKS_DIFFER_MS = 60_000


def reposition_reloads(drafts: DataFrame, groups: Sequence[Row], topics: Sequence[TopicRange], committed: Committed) -> DataFrame:
    """The batch with the places of rows loaded again; as it was where there are none."""
    kinds = {t.topic: connector(t.connector) for t in topics}
    first = {topic: kind.first_load[:-_KIND] for topic, kind in kinds.items()}
    loading = {g.topic for g in groups if g.kind == "r" and first[g.topic]}
    known = {t: committed.topics[t].max_position for t in sorted(loading) if t in committed.topics}
    begun = {t for t, highest in known.items() if any(_order(p, first[t]) > first[t] for p in highest.values())}
    again = loading & ({g.topic for g in groups if g.kind in ("c", "u", "d")} | begun)
    if not again:
        return drafts
    earlier = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    highest = sf.greatest(sf.max("position").over(earlier), _by_partition({t: known[t] for t in known if t in again}))
    position = sf.col("position")
    for kind in {kinds[topic].name: kinds[topic] for topic in sorted(again)}.values():
        zeros = kind.first_load[:-_KIND]
        order = sf.substring(highest, layout.EPOCH_WIDTH + 2, len(zeros))
        place = layout.join_parts(order, sf.lit(layout.STREAMED))
        is_again = sf.col("topic").isin(*[t for t in again if kinds[t] is kind]) & (sf.col("op") == "r") & (order > zeros)
        if kind.moment is not None:
            is_again &= kind.moment(order) <= sf.unix_millis("timestamp") + _CLOCKS_DIFFER_MS
        final = layout.position(epoch=sf.col("epoch"), place=place, offset=sf.col("offset"))
        position = sf.when(is_again, final).otherwise(position)
    return drafts.withColumn("position", position)


def _order(position: str, zeros: str) -> str:
    """A position's place less the kind that it ends with."""
    return position[layout.EPOCH_WIDTH + 1 :][: len(zeros)]


def _by_partition(known: dict[str, dict[int, str]]) -> Column:
    pairs = [x for topic, highest in known.items() for p, position in highest.items() for x in (f"{topic}/{p}", position)]
    if not pairs:
        return sf.lit(None).cast("string")
    return sf.create_map(*map(sf.lit, pairs))[sf.concat_ws("/", "topic", "partition")]
