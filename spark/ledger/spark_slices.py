"""A slice of one table counted by Spark: of any size, and whatever became of its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession

from spark.delta import plans
from spark.ledger import appends, counts, panes, unsettled
from spark.ledger.booked import Booked, place_behind
from spark.ledger.links import count_links
from spark.ledger.spec import LedgerSpec
from spark.ledger.table_slice import TableSlice


def count_slice(
    session: SparkSession, spec: LedgerSpec, part: TableSlice, appended: Callable[[], list[appends.Append]]
) -> Booked:
    """What the slice adds to the ledger. `appended` gives bronze's appends."""
    table = part.table
    plans.suit(session, events=part.records)
    links = count_links(session, spec, table, part.cut, part.before)
    moved = links.moved
    try:
        sums = _sums(session, spec, part, appends.time_of_append(appended(), table.name, part.cut))
        back = panes.link_sums(session, spec.path, table.name, [*moved.links]) if links.anew else None
        told = panes.complete(panes.with_links(sums, moved, back)).toArrow()
    finally:
        moved.release()
    counted = place_behind(part, moved.reached, pc.max(told["newest"]).as_py() or 0)
    if part.aside:
        counted = replace(counted, unsettled=unsettled.signature(session, table.silver, counted))
    return Booked(told.cast(panes.ARROW), counted, part.cut.left, links.kept)


def _sums(session: SparkSession, spec: LedgerSpec, part: TableSlice, appended_at: Expression) -> DataFrame:
    """The lake's counts of the slice by window; of one that is counted again, what differs from what was booked."""
    silver, cut = part.table.silver, part.cut
    rows, earlier = counts.slice_rows(session, silver, cut)
    found = panes.wide(counts.count_windows(rows, cut, appended_at), counts.fates(session, silver, cut, rows, earlier))
    return panes.difference(found, panes.reversal(session, spec.path, silver.table)) if cut.again else found
