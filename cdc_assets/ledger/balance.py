"""What the ledger's figures mean: per hop whether every window balances, and which does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.ledger.read import WindowCount, total
from cdc_assets.quantity import quantity
from spark.ledger.ledger_commits import Counted
from spark.ledger.terms import FATES

HOPS = ("topic_mirror", "mirror_bronze", "bronze_fates")
SHOWN = 20


@dataclass(frozen=True)
class Hop:
    """One hop: both sums, the windows that differ, and what stood in the way of counting (empty: nothing)."""

    name: str
    left: int | None
    right: int | None
    differing: tuple[WindowCount, ...]
    uncounted: str = ""

    @property
    def balanced(self) -> bool:
        """Every window is equal on both sides, and all of them could be counted."""
        return not self.differing and not self.uncounted

    def sentence(self) -> str:
        """The balance in one sentence, with the first window that differs."""
        here, there = self.name.split("_")
        if self.differing:
            first = self.differing[0]
            values = f"{_side(first, here)} in {here}, {_side(first, there)} in {there}"
            window = f"{first.start:%Y-%m-%d %H:%M} {first.op}"
            return f"{quantity(len(self.differing), 'window')} out of balance; the first is {window}: {values}"
        if self.uncounted:
            return f"not counted: {self.uncounted}"
        return f"{quantity(self.left or 0, 'event')} in {here} and in {there}, equal in every window"


def hops(windows: Sequence[WindowCount], counted: Counted, *, mirrored: bool = True) -> list[Hop]:
    """The hops of one table's ledger; a topic that is not mirrored has no hop of its own to the mirror."""
    sums = total(windows)
    found = []
    for name in HOPS if mirrored else HOPS[1:]:
        here, there = name.split("_")
        differing = [w for w in windows if _differs(w, here, there)]
        counts = (sums[here], sum(sums[f] or 0 for f in FATES if f != "unaccounted") if there == "fates" else sums[there])
        why = counted.uncounted if name != "bronze_fates" else ""
        if not why and None in counts:
            why = "a run of the ledger could not reach the topics"
        found.append(Hop(name, *counts, tuple(differing), why))
    return found


def _differs(window: WindowCount, here: str, there: str) -> bool:
    left, right = _side(window, here), _side(window, there)
    return left is not None and right is not None and left != right


def _side(window: WindowCount, link: str) -> int | None:
    return window.fates if link == "fates" else window.counts[link]
