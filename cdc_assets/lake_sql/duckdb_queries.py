"""Statements by DuckDB in this process: the tables that a statement names, nothing of the machine's files, and no writing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cdc_assets.errors import LakeSqlError
from cdc_assets.lake_sql.answer import Answer, answer, hidden_columns, refusal
from cdc_assets.lake_sql.duckdb_scans import open_scan
from cdc_assets.lake_sql.lake_tables import LAYERS, LakeTable, tables_in
from cdc_assets.resources.hidden_values import HiddenValues
from cdc_assets.resources.platform import Platform
from spark.delta.identifiers import double_quote, text_literal

_CLOSED = (
    "SET memory_limit = '2GB'",
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""What is larger than the memory goes to a temporary folder; with the last line no statement can open the others again."""


def statements_of(text: str) -> list[str]:
    """The statements of a text, which `;` divides.

    Raises:
        LakeSqlError: one of them is no SQL, or no question.
    """
    duckdb = import_duckdb()
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise LakeSqlError(str(error)) from error
    asks = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    for each in found:
        if each.type not in asks:
            what = each.type.name.replace("_", " ")
            raise LakeSqlError(f"{what}: cdc sql only reads: SELECT, FROM, DESCRIBE, SUMMARIZE, EXPLAIN")
    return [each.query.strip().removesuffix(";") for each in found]


def query_by_duckdb(
    statement: str, tables: Sequence[LakeTable], platform: Platform, *, limit: int, show_sensitive: bool = False
) -> Answer:
    """At most so many rows of one statement.

    Raises:
        LakeSqlError: what DuckDB says, with the names that are near to an unknown one.
    """
    duckdb = import_duckdb()
    named = tables_in(statement, tables)
    if show_sensitive:
        named = [replace(table, sensitive=()) for table in named]
    with _connect() as connection:
        scans = _register(connection, named, platform)
        for setting in _CLOSED:
            connection.execute(setting)
        try:
            found = connection.execute(statement)
            columns = [str(column[0]) for column in found.description or ()]
            rows = found.fetchmany(limit + 1)
        except duckdb.CatalogException as error:
            raise refusal(statement, str(error), tables, missing=_missing(connection, statement)) from error
        except duckdb.Error as error:
            raise LakeSqlError(str(error)) from error
        del scans
    return answer(columns, rows, limit, hidden_columns(named))


def import_duckdb() -> Any:
    """The module.

    Raises:
        LakeSqlError: it is not installed; says how to.
    """
    try:
        import duckdb
    except ImportError as error:
        raise LakeSqlError("cdc sql asks DuckDB, which is not installed: ./cdc sql installs it, or pip install duckdb") from error
    return duckdb


@contextmanager
def _connect() -> Iterator[Any]:
    """A database in memory, with one of its own for each layer: `silver.shop.orders` is DuckDB's catalog, schema and table."""
    with tempfile.TemporaryDirectory(prefix="cdc-sql-") as folder, import_duckdb().connect() as connection:
        connection.execute(f"SET temp_directory = {text_literal(folder)}")
        for layer in LAYERS:
            connection.execute(f"ATTACH ':memory:' AS {layer}")
        yield connection


def _register(connection: Any, named: Sequence[LakeTable], platform: Platform) -> list[Any]:
    """A view of each table; what is scanned has to be held by the caller.

    Raises:
        LakeSqlError: a table is not there, or two names differ by case only.
    """
    values, scans, taken = HiddenValues(), list[Any](), dict[str, str]()
    for number, table in enumerate(named):
        name = ".".join(table.parts)
        if taken.setdefault(name.lower(), name) != name:
            raise LakeSqlError(f"{name} and {taken[name.lower()]} differ by case only, which SQL does not tell apart")
        scans.append(open_scan(table, platform, values))
        connection.register(f"scan {number}", scans[-1])
        *catalog, last = table.parts if len(table.parts) > 2 else (table.parts[0], "main", table.parts[1])
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {double_quote(*catalog)}")
        only = "" if table.only is None else f" WHERE {double_quote('table')} = {text_literal(table.only)}"
        view = f"SELECT * FROM temp.main.{double_quote(f'scan {number}')}{only}"
        connection.execute(f"CREATE VIEW {double_quote(*catalog, last)} AS {view}")
    return scans


def _missing(connection: Any, statement: str) -> list[str]:
    """The names of the statement that no table has, as far as DuckDB tells them."""
    try:
        return sorted(name.replace('"', "") for name in connection.get_table_names(statement, qualified=True))
    except import_duckdb().Error:
        return []
