"""The statement that gives Debezium its model of a table back: each column as the server has it, told once more; pure.

The server changes nothing by it, and writes it into the binlog: Debezium reads the columns' whole definitions, in the words
and the order of SHOW CREATE TABLE, which it reads rightly when a snapshot begins.
"""

from __future__ import annotations

import re

from cdc_assets.resources.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.resources.table_models import TableModel
from cdc_assets.tables.model_difference import differing_columns
from spark.delta.identifiers import quote

_COLLATION = re.compile(r"\) .*DEFAULT CHARSET=\w+ COLLATE=(\w+)")


def mend_statement(model: TableModel, table: CatalogueTable, definition: str) -> str:
    """An ALTER TABLE by its SHOW CREATE TABLE; empty where the model has not the table's columns, and none can be told again."""
    names = [column.name for column in table.columns]
    modelled = [column.name for column in model.columns]
    if sorted(names) != sorted(modelled):
        return ""
    collation = found[1] if (found := _COLLATION.search(definition)) else ""
    lines = {line.rstrip(",").strip() for line in definition.splitlines() if line.startswith("  `")}
    wrong = {*names} if names != modelled else differing_columns(model, table)
    clauses = []
    for number, column in enumerate(table.columns):
        if column.name not in wrong:
            continue
        line = next(line for line in lines if line.startswith(quote(column.name) + " "))
        place = "" if names == modelled else f" AFTER {quote(names[number - 1])}" if number else " FIRST"
        clauses.append(f"MODIFY {_with_charset(line, column, collation)}{place}")
    return f"ALTER TABLE {quote(*table.id)} {', '.join(clauses)}"


def _with_charset(line: str, column: CatalogueColumn, collation: str) -> str:
    """A column of the table's own character set has none in its line; Debezium may take another for the table's."""
    typed = f"{quote(column.name)} {column.type}"
    rest = line.removeprefix(typed)
    is_text = column.type.partition("(")[0].endswith(("char", "text"))
    if column.kind in ("", "generated") or not is_text or rest == line or rest.startswith(" CHARACTER SET"):
        return line
    collated = "" if rest.startswith(" COLLATE") or not collation else f" COLLATE {collation}"
    return f"{typed} CHARACTER SET {column.kind}{collated}{rest}"
