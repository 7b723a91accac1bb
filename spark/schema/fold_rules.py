"""The rules of a declaration that rows are folded by: kept in a table's schema ledger, and held against those of today.

Pure Python. A rule that changes holds for events from then on. Rows from before follow it when a replay has folded them again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark.specs import SilverSpec

TRACKED = "cdc.track_history"
"""The property of a history that keeps, as JSON, the columns whose changes made a version when it began (none: all)."""
_STOPS = "halt"
"""It has folded nothing otherwise than the others: a table that halts is as it was before."""


@dataclass(frozen=True)
class FoldRules:
    """`told_by`: what tells rows apart: `key`, or without one `append` or `multiset`. An empty rule is not known."""

    deletes: str = ""
    truncate: str = ""
    told_by: str = ""
    track_history: tuple[str, ...] | None = None
    """The columns whose changes make a version (none: all)."""

    @classmethod
    def of(cls, spec: SilverSpec) -> FoldRules:
        """Those that the spec's job folds by."""
        return cls(spec.deletes, spec.truncate, "key" if spec.keys else spec.without_key, spec.track_history)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FoldRules:
        """From its JSON object."""
        tracked = data.get("track_history")
        return cls(**{**data, "track_history": None if tracked is None else tuple(tracked)})

    @classmethod
    def of_property(cls, text: str) -> tuple[FoldRules, ...]:
        """What the property TRACKED says: all that a history knows whose ledger has no rules. Nothing where there is none."""
        return (cls(track_history=tuple(json.loads(text))),) if text.startswith("[") else ()


@dataclass(frozen=True)
class RuleChange:
    """A rule that some rows of a table were folded by, and the one that is declared."""

    rule: str
    was: str
    now: str

    @property
    def text(self) -> str:
        """For people: `deletes: hard -> soft`."""
        return f"{self.rule}: {self.was} -> {self.now}"


def rule_changes(made_by: Sequence[FoldRules], now: FoldRules, columns: Collection[str]) -> Iterator[RuleChange]:
    """What differs; nothing where a rule of either is not known. `columns`: those whose tracking can be compared
    (ColumnLedger.tracking)."""
    rules = [("deletes", [each.deletes for each in made_by], now.deletes)]
    if now.truncate != _STOPS:
        rules.append(("truncate", [each.truncate for each in made_by if each.truncate != _STOPS], now.truncate))
    rules.append(("rows told apart by", [each.told_by for each in made_by], now.told_by))
    tracked = [_column_text(each.track_history, columns) for each in made_by if each.track_history is not None]
    if now.track_history is not None:
        rules.append(("tracked columns", tracked, _column_text(now.track_history, columns)))
    for rule, known, declared in rules:
        if declared and {*known} - {"", declared}:
            yield RuleChange(rule, " and ".join(dict.fromkeys(filter(None, known))), declared)


def add_rules(made_by: tuple[FoldRules, ...], now: FoldRules, columns: Collection[str]) -> tuple[FoldRules, ...]:
    """The rules of a table whose next run folds by these; none where its earlier ones are not known."""
    same = (each for each in made_by if now.truncate in (each.truncate, _STOPS) and not [*rule_changes([each], now, columns)])
    return made_by if not made_by or next(same, None) else (*made_by, now)


def _column_text(names: Sequence[str], columns: Collection[str]) -> str:
    """`(a, b)`; all of the columns where none is named."""
    return f"({', '.join(sorted({*columns} & {*names} if names else {*columns}))})"
