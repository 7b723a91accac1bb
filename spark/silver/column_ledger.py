"""The schema ledger: which columns a silver table has had from when on, and by which rules its rows were folded, kept as
a property of the table itself.

An entry says which schema changes were found when, and up to which position silver had folded under the schema
before: the change lies after that. A rule that changes holds for events from then on; rows from before follow it when
a replay has folded them again. Pure Python, as are the names that a source's column may not have (`_cdc_...`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from spark.errors import JobRefusedError, TableStopError, other_format
from spark.specs import OWN_COLUMNS, Column, Order, RowCondition, SilverSpec

OWN_PREFIX = "_cdc_"


def is_own_name(name: str) -> bool:
    """Whether a source's column of this name is refused, in any case.

    Silver's own columns, and what stands beside a table's columns in a statement. In SQL a column of the table comes
    before a name that the statement gives: `SELECT f(x) AS b … GROUP BY b` groups by the table's own `b`, where it has
    one, and nothing says so. So whatever a statement, a frame of Spark or a table of Arrow names beside columns that
    have the source's names begins with `_cdc_`, and no column of a source does.
    """
    return name.lower() in OWN_COLUMNS or name.lower().startswith(OWN_PREFIX)


TRACKED = "cdc.track_history"
"""The property of a history that keeps, as JSON, the columns whose changes made a version when it began (none: all)."""
_STOPS = "halt"
"""It has folded nothing otherwise than the others: a table that halts is as it was before."""


@dataclass(frozen=True)
class FoldRules:
    """`told_by`: what tells rows apart: `key`, or without one `append` or `multiset`. An empty rule is not known.

    The rules of a declaration that rows are folded by: kept in a table's schema ledger, and held against those of
    today.
    """

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
    rules = [("deletes", [rules_of.deletes for rules_of in made_by], now.deletes)]
    if now.truncate != _STOPS:
        rules.append(("truncate", [rules_of.truncate for rules_of in made_by if rules_of.truncate != _STOPS], now.truncate))
    rules.append(("rows told apart by", [rules_of.told_by for rules_of in made_by], now.told_by))
    tracked = [_column_text(rules_of.track_history, columns) for rules_of in made_by if rules_of.track_history is not None]
    if now.track_history is not None:
        rules.append(("tracked columns", tracked, _column_text(now.track_history, columns)))
    for rule, earlier, declared in rules:
        if declared and {*earlier} - {"", declared}:
            yield RuleChange(rule, " and ".join(dict.fromkeys(filter(None, earlier))), declared)


def add_rules(made_by: tuple[FoldRules, ...], now: FoldRules, columns: Collection[str]) -> tuple[FoldRules, ...]:
    """The rules of a table whose next run folds by these; none where its earlier ones are not known."""
    same = (
        rules_of
        for rules_of in made_by
        if now.truncate in (rules_of.truncate, _STOPS) and not [*rule_changes([rules_of], now, columns)]
    )
    return made_by if not made_by or next(same, None) else (*made_by, now)


def _column_text(names: Sequence[str], columns: Collection[str]) -> str:
    """`(a, b)`; all of the columns where none is named."""
    return f"({', '.join(sorted({*columns} & {*names} if names else {*columns}))})"


PROPERTY, FORMAT = "cdc.schema", 1
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

    `columns` are those of now, kept and side columns included.
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
        holding = sorted((c for c in self.columns if c.event_field == field), key=lambda c: c.since, reverse=True)
        return tuple(c.name for c in holding)

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
        facts |= {"where": [asdict(condition) for condition in self.where]} if self.where else {}
        facts |= {"made_by": [asdict(rules) for rules in self.made_by]} if self.made_by else {}
        facts |= {"left_out": self.left_out} if self.left_out else {}
        return json.dumps({"cdc_assets": FORMAT, "columns": columns, "history": history, **facts}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> ColumnLedger:
        """What to_text wrote. Raises TableStopError: when it is not, or has another format."""
        try:
            data = json.loads(text)
            if refusal := other_format(f"table property {PROPERTY}", "a schema ledger", data.get("cdc_assets"), FORMAT):
                raise TableStopError(refusal)
            columns = tuple(Column.from_dict(c) for c in data["columns"])
            history = tuple(_entry(e) for e in data["history"])
            facts = {name: data[name] for name in ("generation", "renewed")}
            orders = tuple((after, tuple(map(tuple, order))) for after, order in data.get("column_orders", ()))
            where = tuple(RowCondition.from_dict(condition) for condition in data.get("where", ()))
            facts["made_by"] = tuple(FoldRules.from_dict(rules) for rules in data.get("made_by", ()))
            facts["left_out"] = tuple(data.get("left_out", ()))
            return cls(columns, history, tuple(data["keys"]), orders=orders, where=where, **facts)
        except (ValueError, KeyError, TypeError, AttributeError, JobRefusedError) as error:
            raise TableStopError(f"table property {PROPERTY} is not a schema ledger: {error}: {text[:200]}") from error


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


# What a type consists of, and what became of it: an enum's labels, a composite's attributes.
#
# PostgreSQL changes them in the catalogue alone. `ALTER TYPE … RENAME VALUE` writes no row, so no event tells of it: the source
# shows the new label in every row, and silver keeps the old one. A type replaced by another rewrites the rows, without events
# too. A member is `number=name`: pg_enum.oid, which a rename keeps, or the attribute's number.
# https://www.postgresql.org/docs/18/catalog-pg-enum.html
RELABEL, ATTRIBUTES = "relabel", "attributes"
"""Kinds of a change: one label (`now` is empty: it is gone), a composite's attributes."""


def member_changes(old: Column, new: Column) -> list[ColumnChange]:
    """What older rows have that the source shows otherwise by now; none where it is not known, or only labels were added.

    A column of another number is another column, and says nothing of the first one's type.
    """
    was, now = _by_number(old), _by_number(new)
    if not was or not now or old.number is None or old.number != new.number or was == now:
        return []
    if new.kind == "composite":
        return _attributes(new, was, now)
    if was.keys().isdisjoint(now):
        return _other_type(new, was, now)
    renamed = [(label, now[number]) for number, label in was.items() if now.get(number, label) != label]
    return [ColumnChange(RELABEL, new.name, a, b, "rows from before have the old label") for a, b in renamed]


def _attributes(new: Column, was: Mapping[str, str], now: Mapping[str, str]) -> list[ColumnChange]:
    # A renamed attribute is in no text: `(1,x)` has values alone.
    if was.keys() == now.keys():
        return []
    before, after = (", ".join(members.values()) for members in (was, now))
    return [ColumnChange(ATTRIBUTES, new.name, before, after, "texts from before have the attributes of then")]


def _other_type(new: Column, was: Mapping[str, str], now: Mapping[str, str]) -> list[ColumnChange]:
    """All labels have other numbers: it is another type, which may have the same name."""
    gone = [label for label in was.values() if label not in now.values()]
    done = f"another type {new.source_type} took the place of the one before"
    if not gone:
        return [ColumnChange(RELABEL, new.name, "", "", f"{done}, with all its labels")]
    return [ColumnChange(RELABEL, new.name, label, "", f"{done}; rows from before have the old label") for label in gone]


def labels_of(column: Column) -> frozenset[str]:
    """An enum's labels; none where they are not known."""
    return frozenset(_by_number(column).values())


def _by_number(column: Column) -> dict[str, str]:
    return dict(member.split("=", 1) for member in column.members)
