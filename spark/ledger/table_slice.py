"""What is new of one table for the ledger: silver's folds since its place, and what has to be known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark.ledger import unsettled
from spark.ledger.folds import Fold, FoldsToCount, folds, next_slice
from spark.ledger.ledger_commits import Counted, LedgerState
from spark.ledger.spec import LedgerSpec, LedgerTable


@dataclass(frozen=True)
class TableSlice:
    """The folds to count of one table. `before` is the ledger's place; `aside`: silver has ever set records aside."""

    table: LedgerTable
    cut: FoldsToCount
    before: Counted | None
    aside: bool

    @property
    def name(self) -> str:
        """The table's short name."""
        return self.table.name

    @property
    def records(self) -> int:
        """So many, about: all that silver had folded less what was counted."""
        known = sum(state.records for state in self.cut.start.folded.values()) if self.cut.start else 0
        return sum(state.records for state in self.cut.last.topics.values()) - known


def table_slice(session: SparkSession, spec: LedgerSpec, table: LedgerTable, state: LedgerState) -> TableSlice | None:
    """The next slice of a table; None where nothing is new."""
    silver, before = table.silver, state.tables.get(table.name)
    found = _folds(session, table, before if not spec.again else None)
    # Silver says how many records it ever set aside: of most tables nothing needs to be looked up.
    aside = bool(found and found[-1].quarantined)
    again = before is not None and (
        spec.again or _has_lost_rows(table, before, found) or (aside and unsettled.has_changed(session, silver, before))
    )
    if again and not spec.again:
        found = _folds(session, table, None)
    cut = next_slice(found, before, again=again)
    return None if cut is None else TableSlice(table, cut, before, aside)


def _folds(session: SparkSession, table: LedgerTable, before: Counted | None) -> list[Fold]:
    """Silver's folds up to the cut, back to the ledger's place; none where another run has counted beyond the cut."""
    found = folds(session, table.silver.path, before.operation_id if before else None)
    if table.upto is None:
        return found
    beyond = [fold.operation_id for fold in found if fold.version > table.upto]
    return [] if before is not None and before.operation_id in beyond else [f for f in found if f.version <= table.upto]


def _has_lost_rows(table: LedgerTable, before: Counted, found: Sequence[Fold]) -> bool:
    """Whether a snapshot or a TRUNCATE has taken rows out of a table without a key since: their events were applied, and
    are not any more."""
    if table.silver.keys or not found:
        return False
    return (found[-1].snapshot, found[-1].truncated) != (before.snapshot, before.truncated)
