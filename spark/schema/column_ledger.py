"""The schema ledger: which columns a silver table has had from when on, kept as a property of the table itself.

An entry says which schema changes were found when, and up to which position of the source's log silver had folded
under the schema before: the change lies after that. `columns` are those of now, kept and side columns included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from spark.errors import CommitMetadataError, SpecError
from spark.kinds.row_conditions import RowCondition
from spark.schema.fold_rules import FoldRules
from spark.specs import Column, Order

PROPERTY = "cdc.schema"
DROPPED = "\x00"
"""Before the field's name of a renamed column that is kept: no event has such a field."""
DROPPED_NUMBER = -1
"""The number of a column that the source no longer has."""
_STREAMED = "1"
_DEFAULTS = {f.name: f.default for f in fields(Column)}


def place_of(generation: str, position: str) -> str | None:
    """The position at which the table of this generation begins, in the epoch of `position`; None for a catalogue's number.

    A snapshot's rows at the place itself were read before the DROP.
    """
    epoch = position.partition(".")[0]
    return f"{epoch}.{generation}.{_STREAMED}." if "." in generation else None


@dataclass(frozen=True)
class ColumnChange:
    """One change, for people: `widen`, `amount`, `int`, `bigint`, and what was done about it.

    `unfilled`: rows from before have no value in the column although the source may have one.
    """

    kind: str
    column: str
    was: str
    now: str
    done: str
    unfilled: bool = False


@dataclass(frozen=True)
class Entry:
    """A schema version: the changes that made it, when they were seen (ISO 8601), and the position that it lies after."""

    version: int
    at: str
    after: str
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True)
class ColumnLedger:
    """Columns of now, and how they came about; `keys` are those that the rows are told apart by (none: not known).

    `generation` is the table's number in the source's catalogue; `renewed`: it has become another table, whose full snapshot
    takes the place of all rows below it; what had been folded when that was seen. `orders`: those that the source's columns
    have had, the newest last, each with the position that it lies after; none as long as there was one only. `where`: the rows
    that the table has. `made_by`: the rules that its rows were folded by since it was made (none: not known). `left_out`: columns
    of the source that the registry has kept out of it; it may have got them since.
    """

    columns: tuple[Column, ...]
    history: tuple[Entry, ...] = ()
    keys: tuple[str, ...] = ()
    generation: str = ""
    renewed: str = ""
    orders: tuple[Order, ...] = ()
    where: tuple[RowCondition, ...] = ()
    made_by: tuple[FoldRules, ...] = ()
    left_out: tuple[str, ...] = ()

    def grown(self, columns: Sequence[Column], changes: Sequence[ColumnChange], *, at: str, after: str) -> ColumnLedger:
        """With one entry more, or only with other columns where there is nothing to tell."""
        if not changes:
            return replace(self, columns=tuple(columns))
        entry = Entry(len(self.history), at, after, tuple(changes))
        return replace(self, columns=tuple(columns), history=(*self.history, entry))

    def has_past(self) -> bool:
        """Whether older events have other columns than the source has now: a table that is begun from its catalogue alone would
        lack what they hold. Of one that was made again the changes are gone, and the earlier names, orders and tables are left.
        """
        changed = any(change.kind != "create" for entry in self.history for change in entry.changes)
        named_else = any(column.formerly or column.since or column.field for column in self.columns)
        return changed or named_else or bool(self.orders or self.renewed)

    def gaps_by_column(self) -> dict[str, str]:
        """Columns in which rows at or below a position may lack a value: {column: position}."""
        return {c.column: e.after for e in self.history for c in e.changes if c.unfilled}

    def changes_of(self, *kinds: str) -> list[tuple[ColumnChange, str]]:
        """The changes of these kinds, oldest first, each with the position that it lies after."""
        return [(change, entry.after) for entry in self.history for change in entry.changes if change.kind in kinds]

    def renewals(self) -> list[str]:
        """Per time that the source's table became another one, or lost partitions, a position that all rows from before are at or
        below."""
        kinds = ("drop_table", "drop_partition")
        return [place_of(c.now, e.after) or e.after for e in self.history for c in e.changes if c.kind in kinds]

    def of_source(self) -> tuple[Column, ...]:
        """The columns that the source had when it was last asked, under its names."""
        newest = {c.event_field: c for c in sorted(self.columns, key=lambda c: c.since)}
        own = [c for c in newest.values() if (c.number is None or c.number > 0) and not c.event_field.startswith(DROPPED)]
        return tuple(replace(c, name=c.event_field, field="", formerly=(), since="") for c in own)

    def leftovers(self) -> tuple[str, ...]:
        """The columns of the lake whose values a renamed one has taken over: no event fills them any more."""
        return tuple(c.name for c in self.columns if c.number is None and c.event_field.startswith(DROPPED))

    def holding(self, field: str) -> tuple[str, ...]:
        """The columns of the lake that hold the values of a source's column, newest first."""
        found = sorted((c for c in self.columns if c.event_field == field), key=lambda c: c.since, reverse=True)
        return tuple(c.name for c in found)

    def tracking(self) -> set[str]:
        """The columns whose tracking by a history can be compared: one that came or went since says nothing of older versions."""
        born = {c.column for entry in self.history[:1] for c in entry.changes}
        return born & {c.name for c in self.of_source()} - {*self.keys}

    def to_text(self) -> str:
        """As the property holds it."""
        columns = [{k: v for k, v in asdict(c).items() if v != _DEFAULTS[k]} for c in self.columns]
        history = [asdict(e) for e in self.history]
        facts: dict[str, Any] = {"keys": self.keys, "generation": self.generation, "renewed": self.renewed}
        facts |= {"column_orders": self.orders} if self.orders else {}
        facts |= {"where": [asdict(each) for each in self.where]} if self.where else {}
        facts |= {"made_by": [asdict(each) for each in self.made_by]} if self.made_by else {}
        facts |= {"left_out": self.left_out} if self.left_out else {}
        return json.dumps({"columns": columns, "history": history, **facts}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> ColumnLedger:
        """What to_text wrote.

        Raises:
            CommitMetadataError: when it is not.
        """
        try:
            data = json.loads(text)
            columns = tuple(Column.from_dict(c) for c in data["columns"])
            history = tuple(_entry(e) for e in data["history"])
            facts = {name: data.get(name, "") for name in ("generation", "renewed")}
            orders = tuple((after, tuple(map(tuple, order))) for after, order in data.get("column_orders", ()))
            where = tuple(RowCondition.from_dict(each) for each in data.get("where", ()))
            facts["made_by"] = tuple(FoldRules.from_dict(each) for each in data.get("made_by", ()))
            facts["left_out"] = tuple(data.get("left_out", ()))
            return cls(columns, history, tuple(data.get("keys", ())), orders=orders, where=where, **facts)
        except (ValueError, KeyError, TypeError, SpecError) as error:
            raise CommitMetadataError(f"table property {PROPERTY} is not a schema ledger: {error}: {text[:200]}") from error


def _entry(data: dict[str, Any]) -> Entry:
    return Entry(data["version"], data["at"], data["after"], tuple(ColumnChange(**c) for c in data["changes"]))


def diff(entry: Entry) -> list[str]:
    """An entry as lines: `+ note text`, `- note text`, `~ amount int -> bigint`."""
    signs = {"create": "+", "add": "+", "drop": "-"}
    return [
        f"{signs.get(c.kind, '~')} {c.column} {' -> '.join(x for x in (c.was, c.now) if x)} ({c.kind}: {c.done})"
        for c in entry.changes
    ]


def ledger_in(properties: Mapping[str, str]) -> ColumnLedger | None:
    """The ledger among a table's properties; None where they have none."""
    text = properties.get(PROPERTY)
    return None if text is None else ColumnLedger.from_text(text)
