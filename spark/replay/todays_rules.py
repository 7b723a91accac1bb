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
from spark.schema.fold_rules import FoldRules, rule_changes
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
    now, made_by = FoldRules.of(spec), known.made_by or _tracking_at_birth(session, spec)
    changes += [change.text for change in rule_changes(made_by, now, known.tracking())]
    if as_new:
        return _with_columns_of_today(spec, known, before, changes)
    try:
        found = compare_columns(replace(known, keys=(), where=spec.where, left_out=()), spec, after=before.highest)
    except RebuildNeededError as reason:
        return _with_columns_of_today(spec, known, before, [*changes, f"columns as the source has them today: {reason}"])
    ledger = replace(found.next_ledger(after=before.highest), made_by=(now,))
    if came := sorted({*known.left_out} - {*ledger.left_out}):
        changes.append(f"columns that were left out: {', '.join(came)}")
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


def _tracking_at_birth(session: SparkSession, spec: SilverSpec) -> tuple[FoldRules, ...]:
    was = read_tracked(session, spec.path)
    return () if was is None else (FoldRules(track_history=tuple(was)),)


def _in_brackets(names: object) -> str:
    return f"({', '.join(names) if isinstance(names, (tuple, list)) else ''})"
