"""The two topics of one table in a run: counted on from the ledger's place, or anew from their first record.

Anew is right only while both topics hold every record that silver has folded; where retention took some, what is booked
of the topics stays, and the count goes on behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from spark.ledger.folds import FoldsToCount
from spark.ledger.ledger_commits import Counted
from spark.ledger.spec import LedgerSpec, LedgerTable
from spark.ledger.topic_counts import Transport, hindrance, transport


@dataclass(frozen=True)
class Links:
    """The topics' counts; `anew`: of all records, not of the new ones. `kept`: why they could not be counted so."""

    moved: Transport
    anew: bool = False
    kept: str = ""


def count_links(session: SparkSession, spec: LedgerSpec, table: LedgerTable, cut: FoldsToCount, before: Counted | None) -> Links:
    """Up to the cut. `before` is the ledger's place, whatever is counted anew in the lake."""
    kept = ""
    if before is not None and spec.again:
        kept = _not_whole(table, before, cut)
        if not kept:
            moved = transport(session, spec, table, replace(cut, start=None))
            if not moved.reached.uncounted:
                return Links(moved, anew=True)
            kept = moved.reached.uncounted
            moved.release()
    return Links(transport(session, spec, table, replace(cut, start=before)), kept=kept)


def _not_whole(table: LedgerTable, before: Counted, cut: FoldsToCount) -> str:
    """Why the topics cannot be counted from their first record; empty: they can."""
    if table.mirror is None:
        return "this ledger is run without topics"
    if why := hindrance(table, before):
        return why
    state = cut.last.topics.get(table.mirror.topic)
    if state is not None and state.before:
        return f"{table.mirror.topic} is not the first topic of the table: the records of those before it are gone"
    ranges = [(t.topic, p, begin) for t in (table.mirror, table.topic) if t for p, (begin, _) in sorted(t.ranges.items())]
    begun = [f"{topic} partition {p} begins at offset {begin}" for topic, p, begin in ranges if begin > 0]
    return f"{begun[0]}: retention removed what was before" if begun else ""
