"""`cdc sql`: a question in SQL to the lake's tables, by DuckDB or by the stack's Spark."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.option_group import group_options
from cdc_assets.cli.output_formats import Format, print_rows
from cdc_assets.registry_files.loader import load_sources


class SqlFormat(str, Enum):
    """The forms of every answer, and CSV."""

    text = "text"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    csv = "csv"


@dataclass(frozen=True)
class SqlOptions:
    """Who answers, of which moment, and what is shown."""

    spark: Annotated[bool, typer.Option("--spark", help="Ask the stack's Spark, which reads every table.")] = False
    cut: Annotated[str | None, typer.Option(help="Silver and histories as at this cut; a source's name: its newest.")] = None
    show_sensitive: Annotated[
        bool, typer.Option("--show-sensitive", help="Values of sensitive columns, and records of their tables, as they are.")
    ] = False
    register: Annotated[
        bool | None,
        typer.Option(
            "--register/--no-register",
            help="Make views in the Spark server's catalog, for all its clients: silver_SOURCE.TABLE. Or drop them.",
        ),
    ] = None


@group_options
def sql(
    statement: Annotated[str | None, typer.Argument(help="A question; `-` reads statements from stdin.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many rows.")] = 100,
    output: Annotated[
        SqlFormat, typer.Option("--output", "-o", help="text, wide, json, yaml, or csv with a line of names first")
    ] = SqlFormat.text,
    choice: SqlOptions = SqlOptions(),
) -> None:
    """Ask the lake's tables in SQL: silver.SOURCE.TABLE, bronze.SOURCE; without a statement, list them.

    Read by DuckDB, without Spark. No table is written.
    """
    from cdc_assets.resources.platform import Platform

    if choice.register is not None and (statement is not None or choice.cut):
        raise typer.BadParameter(
            "--register and --no-register take neither a statement nor --cut: views are of the tables as they are; "
            "ask in a second command"
        )
    settings.export_stack_environment()
    platform = Platform()
    tables = _tables(platform.lake, choice.cut)
    if choice.register is not None:
        _register(tables if choice.register else [], platform, output, show_sensitive=choice.show_sensitive)
        _keep_names(choice)
        return
    if statement is None:
        _print_tables(tables, output)
        return
    text = sys.stdin.read() if statement == "-" else statement
    for answer in _ask(text, tables, platform, choice, limit):
        _print_answer(answer, output, limit)


def _ask(text: str, tables: list[Any], platform: Any, choice: SqlOptions, limit: int) -> Iterator[Any]:
    """The answer of each statement, once the one before has been printed."""
    if choice.spark:
        from cdc_assets.lake_sql.spark_queries import query_by_spark as query

        statements = [text]
    else:
        from cdc_assets.lake_sql.duckdb_queries import query_by_duckdb as query
        from cdc_assets.lake_sql.duckdb_queries import statements_of

        statements = statements_of(text)
    for each in statements:
        yield query(each, tables, platform, limit=limit, show_sensitive=choice.show_sensitive)


def _register(tables: list[Any], platform: Any, output: SqlFormat, *, show_sensitive: bool) -> None:
    from cdc_assets.lake_sql.answer import hidden_columns
    from cdc_assets.lake_sql.spark_names import register_names

    done = register_names(tables, platform, show_sensitive=show_sensitive)
    rows = [{"name": name, "table": table.name, "path": table.path} for name, table in done.made.items()]
    _print(["name", "table", "path"], rows, output, narrow=["name", "table"])
    if done.dropped:
        print(f"dropped: {', '.join(done.dropped)}", file=sys.stderr)
    if hidden := [] if show_sensitive else hidden_columns([*done.made.values()]):
        print(f"hashes in these views: {', '.join(hidden)}; --show-sensitive makes them with the values", file=sys.stderr)


def _keep_names(choice: SqlOptions) -> None:
    """Until the next of these commands, a server of the stack gets the names again when it starts: its catalog is in memory."""
    from cdc_assets.lake_sql.kept_names import forget_names, keep_names
    from cdc_assets.stack.home import Home
    from cdc_assets.stack.plan import external_addresses

    home = Home(settings.home())
    if not choice.register:
        forget_names(home)
    elif "CDC_SPARK_REMOTE" not in external_addresses(home):
        keep_names(home, show_sensitive=choice.show_sensitive)
        told = "these names are in the server's memory: they are made again when it starts again"
        print(f"{told}, until cdc sql --no-register", file=sys.stderr)


def _tables(lake: str, cut: str | None) -> list[Any]:
    from cdc_assets.cuts.cut_manifest import find_cut
    from cdc_assets.lake_sql.lake_tables import at_cut, lake_tables

    sources = load_sources(settings.sources_folder())
    found: list[Any] = lake_tables(sources, lake)
    return found if cut is None else at_cut(found, lake, find_cut(lake, sources, cut))


def _print_tables(tables: list[Any], output: SqlFormat) -> None:
    from spark.lake.place import is_object

    rows = [
        {
            "table": table.name,
            "rows": None if table.is_now or table.only or is_object(table.path) else _rows(table),
            "sensitive": ", ".join(table.sensitive) or None,
            "path": table.path,
        }
        for table in tables
        if table.is_there
    ]
    _print(["table", "rows", "sensitive", "path"], rows, output, narrow=["table", "rows", "sensitive"])


def _rows(table: Any) -> int | None:
    from cdc_assets.resources.delta_log import silver_rows

    rows: int | None = table.at.rows if table.at else silver_rows(table.path)
    return rows


def _print_answer(found: Any, output: SqlFormat, limit: int) -> None:
    _print(found.columns, found.rows, output, narrow=found.columns)
    if found.more:
        print(f"and more: --limit {10 * limit}, or a LIMIT of the statement", file=sys.stderr)
    if found.hidden:
        print(f"shown as hashes: {', '.join(found.hidden)}; --show-sensitive prints them", file=sys.stderr)


def _print(columns: Any, rows: Any, output: SqlFormat, *, narrow: Any) -> None:
    if output is not SqlFormat.csv:
        print_rows(rows, Format(output.value), narrow=narrow)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)
