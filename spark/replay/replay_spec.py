"""What a replay is asked, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark.specs import SilverSpec

SILVER, HISTORY, QUARANTINE = "silver", "history", "quarantine"


@dataclass(frozen=True)
class ReplaySpec:
    """One table. The shadow's tables lie below `folder`, in the same store as the lake.

    `keys` (texts: spark.replay.chosen_keys) or a time from `since` on, before `until` (of events at the source, with a zone),
    choose rows; without them the whole table is replaced. `as_new`: with the source's columns of today alone, without those that
    are kept of earlier schemas. `examples`: how many rows of each kind of difference are shown.
    """

    silver: SilverSpec
    history: SilverSpec | None
    folder: str
    keys: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    as_new: bool = False
    examples: int = 5

    @property
    def is_whole(self) -> bool:
        """Whether the whole table is replaced."""
        return not (self.keys or self.since or self.until)

    @property
    def live(self) -> dict[str, SilverSpec]:
        """The live tables by layer."""
        return {SILVER: self.silver, **({HISTORY: self.history} if self.history else {})}

    def shadow_of(self, spec: SilverSpec, layer: str) -> SilverSpec:
        """The same table, made beside the live one."""
        return replace(spec, path=f"{self.folder}/{layer}", quarantine_path=f"{self.folder}/{QUARANTINE}")


@dataclass(frozen=True)
class Difference:
    """Of a live table, at a version, and its shadow: rows by kind (added, changed, gone; moved: equal but for the position in the
    source's log), changed rows by column, columns that only one has or that have another type, and some of the rows.

    An example is `{"kind", "key", "was", "now"}`; values are texts, by column.
    """

    version: int
    rows: Mapping[str, int]
    columns: Mapping[str, int] = field(default_factory=dict)
    schema: tuple[str, ...] = ()
    examples: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether both are the same table."""
        return not (any(self.rows.values()) or self.schema)


@dataclass(frozen=True)
class Prepared:
    """Shadows that stand beside the live tables; by layer. `chosen`: keys that were chosen (None: the whole table)."""

    differences: Mapping[str, Difference]
    rules: tuple[str, ...] = ()
    """What of the rules is another than the live table was made by."""
    chosen: int | None = None
    quarantined: int = 0
    folded: int = 0
    """Records that are in quarantine, and that the shadow has folded."""

    @property
    def is_empty(self) -> bool:
        """Whether a swap would change nothing."""
        return not (self.rules or self.folded) and all(each.is_empty for each in self.differences.values())


@dataclass(frozen=True)
class Swapped:
    """Versions by layer: `now` holds what was made, `before` is what an undo goes back to."""

    now: Mapping[str, int]
    before: Mapping[str, int]
