"""What the proof of a history (SCD2) found: one verdict, with keys and versions but no values."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.quantity import quantity
from cdc_assets.reconcile.verdict import NOT_COMPARED, ComparisonResult

HISTORY, SILVER, EITHER = "history", "silver", "history or silver"


@dataclass(frozen=True)
class HistoryDifference:
    """One key: what is wrong with its versions, which (`_valid_from`), which columns differ, and which proofs say so.

    `where`: history, where bronze makes other versions; silver, where only silver's row is another; either, where bronze
    cannot say.
    """

    key: str
    kinds: tuple[str, ...]
    versions: tuple[str, ...]
    columns: tuple[str, ...]
    where: str
    proofs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class HistoryResult(ComparisonResult):
    """One history at one version, and silver at the version that has folded the same. Seconds by phase: wait, lake.

    `current` are its versions that hold. Not compared is also what bronze cannot prove; what was proven otherwise is told.
    """

    version: int | None = None
    versions: int = 0
    current: int = 0
    differences: tuple[HistoryDifference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `cdc reconcile -o json` nests it."""
        return asdict(self)

    def sentence(self) -> str:
        """For people, in one line."""
        part = "" if self.share == "1/1" else f" (share {self.share})"
        counted = f"{quantity(self.versions, 'version', form=',')}, {self.current:,} of them current{part}"
        if self.verdict == NOT_COMPARED:
            before = f"a part that was wrong before (share {self.share}) " if self.earlier else ""
            proven = f"; {counted}: no other fault was found" if self.version is not None else ""
            return f"{before}could not be compared: {self.reason}{proven}"
        left_out = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
        if self.equal:
            return f"{counted}: as bronze makes them, and the current ones are silver's rows{left_out}"
        kinds = Counter(kind for difference in self.differences for kind in difference.kinds)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        still = " still" if self.earlier else ""
        unfolded = f"; not folded again: {self.reason}" if self.reason else ""
        return f"{quantity(self.keys_differing, 'key')}{still} wrong in {counted}: {told}{unfolded}{left_out}"
