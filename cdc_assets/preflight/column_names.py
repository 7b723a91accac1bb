"""Names of columns that silver or Debezium cannot take, or that the table has not, of any kind of database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import case_twins
from spark.schema.own_names import OWN_PREFIX, is_own_name
from spark.specs import OWN_COLUMNS


def column_name_findings(declared: Table, columns: Sequence[str]) -> Iterator[Finding]:
    """Of a table's columns: names that silver has for its own, pairs that differ by case alone, what `where` asks for."""
    name = str(declared.id)
    taken = [c for c in columns if is_own_name(c) and c not in declared.except_column_list]
    of_silver = [c for c in taken if c.lower() in OWN_COLUMNS]
    others = [c for c in taken if c not in of_silver]
    if of_silver:
        message = f"silver has columns of its own called {', '.join(of_silver)}: name them in except_column_list, or rename them"
        yield Finding("columns", "fail", name, message)
    if others:
        message = f"names that begin with {OWN_PREFIX} are kept for statements of ours, and it has {', '.join(others)}: "
        yield Finding("columns", "fail", name, f"{message}name them in except_column_list, or rename them")
    if absent := sorted({each.column for each in declared.where} - {*columns}):
        message = f"where asks for {', '.join(absent)}, and it has no such column; it has: {', '.join(columns)}"
        yield Finding("columns", "fail", name, message)
    for sentence in case_twins(columns):
        yield Finding("columns", "fail", name, sentence)
