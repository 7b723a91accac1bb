"""The rules that a table is made by today: the source's columns and the declared key, with what the live table keeps of earlier
schemas where that still goes together with them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from spark.delta.commits import Folded
from spark.envelopes.places import order_of, orders_with
from spark.errors import RebuildNeededError
from spark.kinds.row_conditions import conditions_text
from spark.schema.column_ledger import ColumnLedger, diff
from spark.schema.evolution import at_birth, compare_columns, first_ledger, read_ledger, read_tracked
from spark.specs import Column, SilverSpec


@dataclass(frozen=True)
class TodaysRules:
    """`spec` and the schema ledger of a table made by them; `changes` tells what differs from the live table's, for people."""

    spec: SilverSpec
    ledger: ColumnLedger
    changes: tuple[str, ...] = ()


def find_rules(session: SparkSession, spec: SilverSpec, before: Folded | None, *, as_new: bool) -> TodaysRules:
    """Those for a live table that has folded `before`.

    Raises:
        SchemaMismatchError: the table is declared to halt at a change of its source.
    """
    known = read_ledger(session, spec) if before is not None else None
    if known is None or before is None:
        born = at_birth(spec)
        return TodaysRules(born, first_ledger(born))
    changes = [] if {*known.keys} == {*spec.keys} else [f"key: {_in_brackets(known.keys)} -> {_in_brackets(spec.keys)}"]
    if {*known.where} != {*spec.where}:
        changes.append(f"rows: {conditions_text(known.where)} -> {conditions_text(spec.where)}")
    changes += _tracking(session, spec) if spec.track_history else []
    if as_new:
        return _with_columns_of_today(spec, known, before, changes)
    try:
        found = compare_columns(replace(known, keys=(), where=spec.where), spec, after=before.highest)
    except RebuildNeededError as reason:
        return _with_columns_of_today(spec, known, before, [*changes, f"columns as the source has them today: {reason}"])
    ledger = found.next_ledger(after=before.highest)
    changes += [line for entry in ledger.history[len(known.history) :] for line in diff(entry)]
    return TodaysRules(found.effective, ledger, tuple(changes))


def _with_columns_of_today(spec: SilverSpec, known: ColumnLedger, before: Folded, changes: list[str]) -> TodaysRules:
    """Without what is kept of earlier schemas; events from before have a column under the names that it had then."""
    by_number = {c.number: c for c in known.columns if (c.number or 0) > 0}
    by_name = {c.event_field: c for c in sorted(known.columns, key=lambda c: c.since)}
    columns = [_with_former_names(c, by_number.get(c.number) or by_name.get(c.name)) for c in spec.columns]
    orders = orders_with(known.orders, order_of(known.of_source()), order_of(spec.columns, after=before.highest))
    born = at_birth(replace(spec, columns=tuple(columns), renewed=known.renewed, orders=orders))
    ledger = replace(first_ledger(born), renewed=born.renewed, orders=orders)
    if left := sorted({c.name for c in known.columns} - {c.name for c in born.columns}):
        changes = [*changes, f"columns left out: {', '.join(left)}"]
    return TodaysRules(born, ledger, tuple(changes))


def _with_former_names(column: Column, known: Column | None) -> Column:
    if known is None:
        return column
    names = dict.fromkeys((*known.formerly, known.event_field))
    return replace(column, formerly=tuple(name for name in names if name != column.name))


def _tracking(session: SparkSession, spec: SilverSpec) -> list[str]:
    """Whether the columns whose changes make a version are others than those that the history began with."""
    was = read_tracked(session, spec.path)
    if was is None:
        return []
    return [] if {*was} == {*spec.track_history} else [f"tracked: {_in_brackets(was)} -> {_in_brackets(spec.track_history)}"]


def _in_brackets(names: object) -> str:
    return f"({', '.join(names) if isinstance(names, (tuple, list)) else ''})"
