"""What a replay is asked and what it tells, and the keys of one table as a person writes them: one by one, or a range
between two of them.

Pure data, no Spark. A text that is no key of the table's columns raises JobRefusedError.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spark.errors import JobRefusedError
from spark.specs import SilverSpec

FROM, TO = "--from-key", "--to-key"


@dataclass(frozen=True)
class WantedKeys:
    """Single keys, or a range: both bounds are in it, and None is open on that side. Without any, all keys are wanted."""

    single: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None

    def __bool__(self) -> bool:
        """Whether some keys are wanted and not all."""
        return bool(self.single) or self.is_range

    @property
    def is_range(self) -> bool:
        """Whether there is a bound."""
        return self.begin is not None or self.end is not None

    @property
    def options(self) -> str:
        """The options by which they were given, for messages."""
        return "--keys" if self.single else "/".join(name for name, _ in self.bounds)

    @property
    def bounds(self) -> tuple[tuple[str, str], ...]:
        """Those that there are, each with its option."""
        return tuple((name, text) for name, text in ((FROM, self.begin), (TO, self.end)) if text is not None)

    @property
    def text(self) -> str:
        """In words; empty where all are wanted."""
        if self.single:
            return f"keys {', '.join(self.single)}"
        words = {FROM: "from", TO: "to"}
        return f"keys {' '.join(f'{words[name]} {text}' for name, text in self.bounds)}" if self.is_range else ""


ALL_KEYS = WantedKeys()


def parse_columns(text: str, names: Sequence[str]) -> dict[str, Any] | None:
    """What a person has written of a key, by column: `{"a": 1, "b": "x"}`, or a single column's value as it is; numbers as they
    are written. None: it is neither."""
    if len(names) == 1 and not text.startswith("{"):
        return {names[0]: text}
    try:
        values: Any = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def parse_bound(text: str, names: Sequence[str]) -> list[str]:
    """The values of a bound as texts: `{"a": 1, "b": "x"}`, whose last columns may be left out, or a single column's value.
    Raises JobRefusedError: it is no bound of a key of these columns."""
    values = parse_columns(text, names)
    if not values or {*values} != {*names[: len(values)]} or any(value is None for value in values.values()):
        shape = ", ".join(f'"{name}": …' for name in names)
        more = ", without NULL; the last columns may be left out" if len(names) > 1 else ", or the value alone"
        raise JobRefusedError(f"{text!r} is no bound of a key: write {{{shape}}}{more}")
    return [str(values[name]) for name in names[: len(values)]]


SILVER, HISTORY, QUARANTINE = "silver", "history", "quarantine"


@dataclass(frozen=True)
class ReplaySpec:
    """One table. The shadow's tables lie below `folder`, in the same store as the lake.

    `keys` (texts: spark.upkeep.chosen_keys) or a time from `since` on, before `until` (of events at the source, with a zone),
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
        return not (self.rules or self.folded) and all(difference.is_empty for difference in self.differences.values())


@dataclass(frozen=True)
class Swapped:
    """Versions by layer: `now` holds what was made, `before` is what an undo goes back to."""

    now: Mapping[str, int]
    before: Mapping[str, int]
