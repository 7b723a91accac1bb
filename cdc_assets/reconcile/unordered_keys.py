"""Rows compared one by one where no order of the key is known on both sides: a range of the source's keys, and one of silver's.

    the source's range   its rows, and silver's of exactly these keys: what silver has not, has otherwise, or has twice
    silver's range       its keys, looked up at the source: what silver has, and the source has not

Both are read at one cut. What the first shows of a key the second does not tell again: a damaged row is found once a round.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.cuts import OwnOrderRows
from cdc_assets.resources.spark import SparkSessions

if TYPE_CHECKING:
    from spark.reconcile.job import KeyHashes, Task
    from spark.reconcile.key_order import Bound
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import RowText


@dataclass(frozen=True)
class OwnOrderTable:
    """A table of the source, read in the source's own order of its key, and how its rows are written."""

    rows: OwnOrderRows
    id: TableId
    text: RowText


@dataclass(frozen=True)
class Ours:
    """Silver's rows (key and hash) that should be those of the source's range; how many of these keys, and how many looked up."""

    rows: KeyHashes
    compared: int
    looked_up: int


def following(
    sessions: SparkSessions,
    table: OwnOrderTable,
    *,
    version: int,
    count: int,
    after: tuple[Bound | None, Bound | None],
) -> TwoRanges:
    """The next ranges above the last ones' ends: of `count` keys in the source, of about half as many in silver at a version.

    A look-up costs the source more than a row of a range does, where comparing two texts is dear.
    """
    from spark.reconcile.job import Next, range_end
    from spark.reconcile.key_order import KeyRange
    from spark.reconcile.own_order import TwoRanges

    theirs, ours = after
    text = table.text
    end = table.rows.range_end(table.id, text, theirs, count)
    held = sessions.compare(range_end, Next(text.spec, version, ours, max(1, count // 2), by_text=True))
    key = text.in_own_order.declared
    return TwoRanges(KeyRange(key, theirs, end), KeyRange(key, ours, held))


def at_cut(sessions: SparkSessions, task: Task, table: OwnOrderTable, part: TwoRanges, in_range: KeyHashes) -> Ours:
    """Silver's side; `in_range` are the rows of the source's range, and `table` is read at the same moment."""
    from spark.reconcile import job

    keys = {key for key, _ in in_range}
    held = sessions.compare(lambda session, asked: job.two_ranges(session, asked, sorted(keys), part.lake), task)
    unseen = {key: values for key, values in held.values.items() if key not in keys}
    there = keys | table.rows.present(table.id, table.text, unseen)
    phantoms = Counter({row: copies for row, copies in held.ranged.items() if row[0] not in there})
    return Ours(held.asked + phantoms, held.asked.total(), len(held.values))
