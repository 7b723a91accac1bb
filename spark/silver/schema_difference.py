"""What differs between the columns that silver knows and those that the source has now, and what the table's policy does
about it; nothing is altered here.

A column is recognised by its number in the catalogue where there is one, so the values follow the numbers when names
change places. Each kind of change is followed, left out, or stops the table with an error that names it (`halt`). A
column whose type has changed is several of silver's, one for each type (`amount`, `amount__string`), and a row has
its value in the newest that is not NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from spark.errors import JobRefusedError, RebuildNeededError, TableStopError
from spark.silver.column_ledger import DROPPED, DROPPED_NUMBER, ColumnChange, member_changes
from spark.specs import Column, SilverSpec
from spark.values.lake_types import lake_type
from spark.values.missing_values import missing_leaf

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")


def side_name(column: Column) -> str:
    """The name of the column of silver's for a type that one of the source's has got: `amount__string`.

        id | amount | amount__string       amount: integer, then text
         1 |      5 |                      from before the change
         2 |        | 5 EUR                from after it

    What a row has is the first of them, from the newest on (`holders`), that is not NULL.
    """
    suffix = re.sub(r"[^a-z0-9]+", "_", lake_type(column).name).strip("_")
    return f"{column.name}__{suffix}"


def newest_value(columns: Sequence[tuple[str, str]], lake: str) -> str:
    """SQL of a row's value in these columns (SQL name and lake type, newest first), as the lake type `lake`; NULL if it is
    none of that."""
    values = [_as(name, column_type, lake) for name, column_type in columns]
    return f"coalesce({', '.join(values)})" if values else f"CAST(NULL AS {lake})"


def _as(name: str, held_as: str, lake: str) -> str:
    """Silver keeps the wider type where a column has been narrowed in the source; a number that the narrower lacks is none."""
    if lake.replace(" ", "") == held_as.replace(" ", ""):
        return name
    cast = f"try_cast({name} AS {lake})"
    numbers = {held_as.split("(")[0], lake.split("(")[0]} <= {*_NUMBERS}
    return f"CASE WHEN {cast} = {name} THEN {cast} END" if numbers else cast


EVOLVE, LENIENT, IGNORE, HALT, REWRITE = "evolve", "lenient", "ignore", "halt", "rewrite"
CHOICES: Mapping[str, tuple[str, ...]] = {
    "add": (EVOLVE, IGNORE, HALT),
    "widen": (REWRITE, EVOLVE, IGNORE, HALT),
    "change": (EVOLVE, IGNORE, HALT),
    "rename": (EVOLVE, IGNORE, HALT),
    "drop": (LENIENT, HALT),
    "nullability": (IGNORE, HALT),
    "reorder": (IGNORE, HALT),
    "drop_table": (LENIENT, EVOLVE, IGNORE, HALT),
}


@dataclass(frozen=True)
class SchemaChangePolicy:
    """One choice per kind of change.

        kind         choices (default first)          what they do
        add          evolve, ignore, halt             a new column | leave it out
        widen        rewrite, evolve, ignore, halt    the column gets the wider type by one rewrite of the table, which every
                                                      reader reads | by Delta's type widening, which delta-rs 1.6 does not
                                                      read | keep the narrow type: records beyond it are unfit
        change       evolve, ignore, halt             a side column for the new type (`v__int`) | keep the old type: records
                                                      that do not convert to it are unfit
        rename       evolve, ignore, halt             a column of the new name takes over the values | keep the old name
        drop         lenient, halt                    the column stays, and rows that change afterwards have NULL in it
        nullability  ignore, halt                     silver's columns all take NULL
        reorder      ignore, halt                     silver keeps its own order

    `halt` stops the table with an error that names the change, until the policy or the source is changed.
    """

    add: str = EVOLVE
    widen: str = REWRITE
    change: str = EVOLVE
    rename: str = EVOLVE
    drop: str = LENIENT
    nullability: str = IGNORE
    reorder: str = IGNORE
    drop_table: str = LENIENT

    def __post_init__(self) -> None:
        for kind, choice in asdict(self).items():
            if choice not in CHOICES[kind]:
                raise JobRefusedError(f"schema_changes: {kind} {choice!r} is none of {', '.join(CHOICES[kind])}")

    @classmethod
    def of(cls, chosen: Mapping[str, str]) -> SchemaChangePolicy:
        """From the kinds that somebody chose."""
        kinds = [f.name for f in fields(cls)]
        unknown = sorted(set(chosen) - set(kinds))
        if unknown:
            raise JobRefusedError(f"schema_changes has unknown kinds {unknown}; known are {', '.join(kinds)}")
        return cls(**chosen)


def rebuild_command(spec: SilverSpec) -> str:
    """What makes a table anew from bronze, by today's rules."""
    return f"cdc replay {spec.source} {spec.table}"


_ORDER = {"smallint": 0, "int": 1, "bigint": 2}
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")


@dataclass
class SchemaPlan:
    """The columns to fold from now on, and the steps that bring the table there."""

    columns: list[Column] = field(default_factory=list)
    changes: list[ColumnChange] = field(default_factory=list)
    added: list[Column] = field(default_factory=list)
    emptied: list[Column] = field(default_factory=list)
    """Columns that were dropped and added again: what rows had before is not theirs any more."""
    renamed: list[tuple[Column, list[Column]]] = field(default_factory=list)
    """New columns, each with those whose values it takes over, newest first: several, if its type has changed before."""
    widened: list[Column] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def plan(ledger_columns: Sequence[Column], spec: SilverSpec, *, after: str) -> SchemaPlan:
    """From the columns of the ledger to those of the spec.

    A column is recognised by its number in the catalogue (PostgreSQL's attnum) where there is one: a renamed column
    keeps it, one that was dropped and added again has another. So names may change places, and a name may be given away
    and used again: the values follow the numbers.

    Raises:
        TableStopError: where the policy says halt, or a key column changes so that no other way is left.
    """
    policy = SchemaChangePolicy.of(spec.schema_changes)
    answer, lake = SchemaPlan(), {c.name: c for c in ledger_columns}
    newest = {c.event_field: c for c in sorted(ledger_columns, key=lambda c: c.since)}
    taken: set[str] = set()
    for column in spec.columns:
        old = _find_known(column, newest, spec)
        if old is None or old.event_field in taken:
            _add(answer, column, lake.get(column.name), policy, spec)
            continue
        taken.add(old.event_field)
        if old.event_field == column.name:
            _compare(answer, old, column, policy, spec, after)
        else:
            olds = [old, *(c for c in holders(ledger_columns, old.event_field) if c != old)]
            _rename(answer, olds, column, lake.get(column.name), policy, spec)
    _keep(answer, ledger_columns, taken, policy, spec)
    _empty_reused(answer, lake)
    _order(answer, ledger_columns, policy, spec)
    _refuse_one_name_for_two(answer, spec)
    return answer


def _find_known(column: Column, newest: Mapping[str, Column], spec: SilverSpec) -> Column | None:
    """What the ledger has of a source's column; None where that is new."""
    same = [c for c in newest.values() if c.number == column.number and (c.number or 0) > 0]
    if same:
        return same[0]
    named, numbers = newest.get(column.name), {c.number for c in spec.columns} - {None}
    if named is not None:
        # Its number goes on under another name: this one is new.
        return None if named.number in numbers else named
    before = newest.get(spec.former_name(column.name))
    return before if before is not None and before.event_field not in {c.name for c in spec.columns} else None


def keys(columns: Sequence[Column], spec: SilverSpec) -> tuple[str, ...]:
    """The key columns under the names that they have in the lake."""
    names = {c.event_field: c.name for c in sorted(columns, key=lambda c: c.since)}
    return tuple(names[key] for key in spec.keys)


def is_of_source(column: Column, columns: Sequence[Column]) -> bool:
    """Whether a column of silver's is one that the source has: none that was dropped there, whatever has its name now."""
    if column.number == DROPPED_NUMBER or column.event_field.startswith(DROPPED):
        return False
    rivals = [c for c in columns if c.event_field == column.event_field and c.since > column.since]
    return all(None in (c.number, column.number) or c.number == column.number for c in rivals)


def holders(columns: Sequence[Column], event_field: str) -> list[Column]:
    """Those of silver's columns with the values of a source's column, newest first: an event fills one of them."""
    holding = [c for c in columns if c.event_field == event_field and is_of_source(c, columns)]
    return sorted(holding, key=lambda c: c.since, reverse=True)


def _add(answer: SchemaPlan, column: Column, held: Column | None, policy: SchemaChangePolicy, spec: SilverSpec) -> None:
    """`held`: the lake's column of that name, whose values are none of this one's."""
    _stop(policy.add, "add", column.name, "", column.source_type, spec)
    if policy.add == IGNORE:
        answer.ignored.append(column.name)
        return
    filled = missing_leaf(column) is not None
    done = "filled with the source's default" if filled else "NULL in rows from before"
    was = ""
    if held is None:
        answer.columns.append(column)
        answer.added.append(column)
    elif lake_type(held).name == lake_type(column).name:
        was, done = held.source_type, f"in place of another of its name; {done}"
        answer.columns.append(column)
        answer.emptied.append(column)
    else:
        side = replace(column, name=side_name(column), field=column.name)
        done = f"values in {side.name}; {done}"
        answer.columns.append(side)
        answer.added.append(side)
    answer.changes.append(
        ColumnChange("add", column.name, was, column.source_type, done, unfilled=not filled and _has_value(column))
    )


def _has_value(column: Column) -> bool:
    """Whether the source's rows from before a column may have something in it."""
    return column.missing is not None or column.defaulted or not column.nullable


def _compare(answer: SchemaPlan, old: Column, new: Column, policy: SchemaChangePolicy, spec: SilverSpec, after: str) -> None:
    # A catalogue without numbers does not tell it, but for a column that silver has seen go.
    another = old.number == DROPPED_NUMBER or (None not in (old.number, new.number) and old.number != new.number)
    # A column keeps what its older rows have: the catalogue forgets it when the table is rewritten.
    missing = new.missing if another or new.missing is not None else old.missing
    merged = replace(new, name=old.name, field=old.field, since=old.since, formerly=old.formerly, missing=missing)
    if old.modes != new.modes:
        raise RebuildNeededError(
            f"table {spec.table}: the connector's modes were {old.modes or 'ours'} and are {new.modes or 'ours'} now, and an "
            f"event does not say which it was written under; {spec.path} stays as it is. If bronze has events of one mode only, "
            f"build it anew: {rebuild_command(spec)}"
        )
    was, now = lake_type(old).name, lake_type(new).name
    if another:
        _stop(policy.drop, "drop", old.name, old.source_type, "", spec)
        _stop(policy.add, "add", new.name, "", new.source_type, spec)
        unknown = missing_leaf(new) is None and _has_value(new)
        answer.changes.append(ColumnChange("add", old.name, old.source_type, new.source_type, "dropped and added anew", unknown))
        if was == now:
            answer.emptied.append(merged)
    elif was == now and old.nullable != new.nullable:
        _stop(policy.nullability, "nullability", old.name, _null(old), _null(new), spec)
        answer.changes.append(ColumnChange("nullability", old.name, _null(old), _null(new), "silver takes NULL in either case"))
    if was == now:
        answer.changes.extend(member_changes(old, merged))
        answer.columns.append(merged)
    elif _wider(was, now):
        _widen(answer, old, merged, policy, spec)
    else:
        # What older rows have in a column that is another one is not what they have in the one that is gone.
        _side(answer, old, new if another else replace(new, missing=None), policy, spec, after)


def _widen(answer: SchemaPlan, old: Column, merged: Column, policy: SchemaChangePolicy, spec: SilverSpec) -> None:
    _stop(policy.widen, "widen", old.name, old.source_type, merged.source_type, spec)
    if policy.widen == IGNORE:
        answer.columns.append(old)
        return
    done = "in place" if policy.widen == EVOLVE else "rewritten"
    answer.columns.append(merged)
    answer.widened.append(merged)
    answer.changes.append(ColumnChange("widen", old.name, old.source_type, merged.source_type, done))


def _side(answer: SchemaPlan, old: Column, new: Column, policy: SchemaChangePolicy, spec: SilverSpec, after: str) -> None:
    _stop(policy.change, "change", old.name, old.source_type, new.source_type, spec)
    if new.name in spec.keys:
        raise RebuildNeededError(
            f"table {spec.table} key column {old.name!r}: {old.source_type} became {new.source_type}, and rows are found by it; "
            f"{spec.path} stays as it is; build it anew: {rebuild_command(spec)}"
        )
    answer.columns.append(old)
    if policy.change == IGNORE:
        return
    side = replace(new, name=side_name(new), field=new.name, since=after or "0")
    answer.columns.append(side)
    answer.added.append(side)
    done = f"values from now on in {side.name}"
    answer.changes.append(ColumnChange("change", old.name, old.source_type, new.source_type, done, unfilled=False))


def _rename(
    answer: SchemaPlan, olds: list[Column], new: Column, held: Column | None, policy: SchemaChangePolicy, spec: SilverSpec
) -> None:
    """`olds`: its columns until now, newest first; `held`: the lake's column of the new name, whose values yield."""
    old = olds[0]
    _stop(policy.rename, "rename", old.name, old.name, new.name, spec)
    fields = (*old.formerly, old.event_field)
    # Spark cannot keep two columns apart whose names differ by case only.
    if policy.rename == IGNORE or old.name.lower() == new.name.lower():
        still = replace(new, name=old.name, field=new.name, formerly=fields)
        answer.columns.append(still)
        answer.changes.append(ColumnChange("rename", old.name, old.name, new.name, f"still {old.name} in the lake"))
        answer.changes.extend(member_changes(old, still))
        return
    if lake_type(old).name != lake_type(new).name:
        raise RebuildNeededError(
            f"table {spec.table}: column {old.name!r} of type {old.source_type} became {new.name!r} of type {new.source_type} "
            f"at once; build it anew: {rebuild_command(spec)}"
        )
    if held is not None and lake_type(held).name != lake_type(new).name:
        raise RebuildNeededError(
            f"table {spec.table}: column {old.name!r} became {new.name!r}, which is a column of type {held.source_type} in "
            f"silver, and not {new.source_type}; build it anew: {rebuild_command(spec)}"
        )
    taking = replace(new, formerly=tuple(name for name in fields if name != new.name))
    answer.columns.append(taking)
    if held is None:
        answer.added.append(taking)
    answer.renamed.append((taking, olds))
    used_again = old.name in {c.name for c in spec.columns}
    done = f"{old.name} is another column now" if used_again else f"{old.name} is kept, and no longer filled"
    answer.changes.append(ColumnChange("rename", new.name, old.name, new.name, done))
    answer.changes.extend(member_changes(old, taking))


def _keep(
    answer: SchemaPlan, ledger_columns: Sequence[Column], taken: set[str], policy: SchemaChangePolicy, spec: SilverSpec
) -> None:
    now, names = [*answer.columns], {c.name for c in answer.columns}
    moved = {column.name for _, olds in answer.renamed for column in olds}
    for old in ledger_columns:
        gone = old.event_field not in taken and old.number != DROPPED_NUMBER and not old.event_field.startswith(DROPPED)
        if gone:
            done = "another column has its name now" if old.name in names else "kept, and no longer filled"
            # The source has it still: nothing of its schema has changed that could halt.
            if old.event_field in spec.excluded:
                done = f"left out by except_column_list: {done}; {rebuild_command(spec)} --as-new takes it away"
            else:
                _stop(policy.drop, "drop", old.name, old.source_type, "", spec)
            answer.changes.append(ColumnChange("drop", old.name, old.source_type, "", done))
        if old.name in names:
            continue
        if old.name in moved:
            old = replace(old, nullable=True, field=DROPPED + old.name, number=None, missing=None, formerly=())
        elif gone:
            old = replace(old, nullable=True, number=DROPPED_NUMBER, missing=None)
            # Events still have it, and its values are not to come into the lake any more.
            old = replace(old, field=DROPPED + old.name, formerly=()) if old.event_field in spec.excluded else old
        if any(c.event_field == old.event_field and c.since <= old.since and c.number != old.number for c in now):
            # Another column has its name now, and the values under it.
            old = replace(old, field=DROPPED + old.name)
        answer.columns.append(old)


def _empty_reused(answer: SchemaPlan, lake: Mapping[str, Column]) -> None:
    """A side column may get the name of one that an earlier column of the source has left there, with its values."""
    taking = {new.name for new, _ in answer.renamed}
    for column in [c for c in answer.added if c.name in lake and c.name not in taking]:
        left_there = lake[column.name]
        if (left_there.number, left_there.event_field) != (column.number, column.event_field):
            answer.added.remove(column)
            answer.emptied.append(column)


def _order(answer: SchemaPlan, ledger_columns: Sequence[Column], policy: SchemaChangePolicy, spec: SilverSpec) -> None:
    both = [c.name for c in answer.columns if c.name in {k.name for k in ledger_columns}]
    before = [k.name for k in ledger_columns if k.name in both]
    if policy.reorder == HALT and not answer.changes and both != before:
        _stop(HALT, "reorder", ", ".join(before), ", ".join(before), ", ".join(both), spec)


def _refuse_one_name_for_two(answer: SchemaPlan, spec: SilverSpec) -> None:
    names = [c.name for c in answer.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RebuildNeededError(
            f"table {spec.table}: silver's column {', '.join(twice)} would be two of the source's after this change; set "
            f"schema_changes.rename to evolve for the table, or build it anew: {rebuild_command(spec)} --as-new"
        )


def _stop(choice: str, kind: str, column: str, was: str, now: str, spec: SilverSpec) -> None:
    if choice == HALT:
        raise TableStopError(
            f"table {spec.table} column {column!r}: {kind} ({was or 'none'} -> {now or 'none'}), and schema_changes.{kind} is "
            "halt; choose another policy for the table, or change the source back"
        )


def _null(column: Column) -> str:
    return "NULL" if column.nullable else "NOT NULL"


def _wider(was: str, now: str) -> bool:
    if was in _ORDER and now in _ORDER:
        return _ORDER[was] < _ORDER[now]
    old, new = _DECIMAL.match(was), _DECIMAL.match(now)
    if old is None or new is None:
        return False
    before, after = (tuple(int(x) for x in match.groups()) for match in (old, new))
    return after[1] >= before[1] and after[0] - after[1] >= before[0] - before[1]
