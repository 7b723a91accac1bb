"""The place of rows that are loaded again, where the source gives them none (spark.positions.attunity).

A row of a full load stands below every change, which is right for the first load only. A row loaded after changes was
read after them, so it takes the highest place before it in its topic partition, and its later offset puts it above. The
changes that follow a load carry higher sequences and win, whether the row already held them or not: they end in the same
state. What came before is in the log's own commits, so a place does not depend on how the log was cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as sf

from spark.delta.commits import Committed
from spark.positions import layout
from spark.positions.attunity import ATTUNITY, SEQUENCE_WIDTH
from spark.specs import TopicRange


def reposition_reloads(drafts: DataFrame, groups: Sequence[Row], topics: Sequence[TopicRange], committed: Committed) -> DataFrame:
    """The batch with the places of rows loaded again; as it was where there are none."""
    loading = {g.topic for g in groups if g.kind == "r"} & {t.topic for t in topics if t.connector == ATTUNITY.name}
    changed = {g.topic for g in groups if g.kind in ("c", "u", "d")} | {t for t, s in committed.topics.items() if s.max_position}
    if not loading & changed:
        return drafts
    earlier = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    highest = sf.greatest(sf.max("position").over(earlier), _highest_position(committed, loading))
    sequence = sf.substring(highest, layout.EPOCH_WIDTH + 2, SEQUENCE_WIDTH)
    place = layout.join_parts(sequence, sf.lit(layout.STREAMED))
    again = sf.col("topic").isin(*loading) & (sf.col("op") == "r") & (sequence > "0" * SEQUENCE_WIDTH)
    final = layout.position(epoch=sf.col("epoch"), place=place, offset=sf.col("offset"))
    return drafts.withColumn("position", sf.when(again, final).otherwise(sf.col("position")))


def _highest_position(committed: Committed, topics: set[str]) -> Column:
    known = {t: committed.topics[t].max_position for t in sorted(topics) if t in committed.topics}
    pairs = [x for topic, highest in known.items() for p, position in highest.items() for x in (f"{topic}/{p}", position)]
    if not pairs:
        return sf.lit(None).cast("string")
    return sf.create_map(*map(sf.lit, pairs))[sf.concat_ws("/", "topic", "partition")]
