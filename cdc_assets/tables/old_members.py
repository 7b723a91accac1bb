"""Rows of silver with labels or attributes of a type that the source has changed since: one cause, of which no event tells.

Two ask: the check `schema` counts such rows, and a comparison of rows says why they differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources import delta_rows
from cdc_assets.resources.delta_log import open_table
from spark.delta.identifiers import double_quote, text_literal
from spark.schema.column_ledger import ColumnChange, ColumnLedger
from spark.schema.member_changes import ATTRIBUTES, RELABEL, labels_of


def rows_with_old_members(source: BaseSource, table: Table, path: str, ledger: ColumnLedger) -> Iterator[str]:
    """A sentence where rows wait for what their columns' types have by now; nothing where none does."""
    told = []
    for change, after in ledger.changes_of(RELABEL, ATTRIBUTES):
        rows = _count(path, ledger, change, after) if change.was else 0
        if rows != 0:
            told.append(f"{cause_of(change)} ({'rows unknown' if rows is None else quantity(rows, 'row')} from before)")
    if told:
        yield f"no event tells of a change of a type: {'; '.join(told)}. {_mend(source, table)}"


def cause_of(change: ColumnChange) -> str:
    """One change of a column's type, in a sentence."""
    if change.kind == ATTRIBUTES:
        return f"column {change.column}: its type's attributes were ({change.was}) and are ({change.now}) now"
    if change.now:
        return f"column {change.column}: label {change.was!r} is called {change.now!r} now"
    lost = f", without label {change.was!r}" if change.was else ""
    return f"column {change.column}: another type took the place of the one before{lost}"


def _mend(source: BaseSource, table: Table) -> str:
    return f"To read these rows again: cdc reconcile {source.name}.{names.table_name(table)} --heal"


def _count(path: str, ledger: ColumnLedger, change: ColumnChange, after: str) -> int | None:
    """Rows with the old member; None where delta-rs cannot say. Where the type has the label again, newer rows mean that."""
    table = open_table(path)
    if table is None or not delta_rows.has_column(table, change.column):
        return 0
    (column,) = [each for each in ledger.columns if each.name == change.column]
    name, folded = double_quote(change.column), f"_cdc_position <= {text_literal(after)}"
    if change.kind == ATTRIBUTES:
        return delta_rows.count_where(table, f"{name} IS NOT NULL AND {folded}")
    label = text_literal(change.was)
    has_label = f"array_has({name}, {label})" if column.source_type.endswith("[]") else f"{name} = {label}"
    return delta_rows.count_where(table, f"{has_label} AND {folded}" if change.was in labels_of(column) else has_label)
