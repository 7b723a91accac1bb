"""A table without a key gets rows that its source has inserted: what spark.silver.keyless and multiset make of a batch of these.

An event's place in the source's log tells whether it was delivered before. Only a batch whose places rise, partition by
partition, from above what is folded is taken here: then none was.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark.delta.commits import CommittedTopic, Folded
from spark.envelopes.arrow_rows import keep_rows, leave_any, sort_rows
from spark.errors import LeftToSparkError
from spark.positions.layout import NUMBER_WIDTH

_OFFSET_PART = 1 + NUMBER_WIDTH


def refuse_all_but_inserts(records: pa.Table, topics: Mapping[str, CommittedTopic], before: Folded | None) -> None:
    """The records that silver has not folded, of all partitions.

    Raises:
        LeftToSparkError: the table is not there yet, or one of them is no insert, or may have been delivered before.
    """
    if before is None:
        raise LeftToSparkError("a table without a key begins")
    leave_any(pc.invert(pc.equal(records["op"], "c").fill_null(False)), "a record of a table without a key that is no insert")
    for topic, state in topics.items():
        known = before.topics.get(topic)
        for partition in state.positions:
            own = pc.and_(pc.equal(records["topic"], topic), pc.equal(records["partition"], partition))
            folded = known.max_position.get(partition, "") if known else ""
            _refuse_replays(sort_rows(keep_rows(records, own), ["offset"])["position"], max(folded, before.snapshot or ""))


def _refuse_replays(positions: pa.ChunkedArray, folded: str) -> None:
    leave_any(pc.is_null(positions), "a record without a position")
    places = pc.utf8_slice_codeunits(positions, 0, -_OFFSET_PART).combine_chunks()
    if not len(places):
        return
    earlier = pa.concat_arrays([pa.array([folded[:-_OFFSET_PART]], places.type), places[:-1]])
    leave_any(pc.less(places, earlier), "a record that may have been delivered before")
    leave_any(pc.equal(places[:1], folded[:-_OFFSET_PART]), "a record that may have been delivered before")
