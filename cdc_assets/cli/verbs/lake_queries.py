"""`cdc sql`, `cdc now`, `cdc peek`, `cdc cut` and `cdc notebook`: look at the data of the lake and of its topics.

SQL is asked of DuckDB or of the stack's Spark; a cut is all tables of a source, complete up to one transaction. Sensitive values
are shown as hashes. Only `cdc cut make` writes: the cut itself.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.declared_sources import (
    EVERY_SOURCE,
    ChosenSources,
    chosen_sources,
    complete_source,
    complete_topic,
)
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows, to_json
from cdc_assets.cli.verb_frame import OneChain, say, verb
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import visible
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_sources

if TYPE_CHECKING:
    from cdc_assets.recovery.cut_manifest import CutManifest


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


@verb(lake=True)
def sql(
    platform: Platform,
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
    if choice.register is not None and (statement is not None or choice.cut):
        raise typer.BadParameter(
            "--register and --no-register take neither a statement nor --cut: views are of the tables as they are; "
            "ask in a second command"
        )
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
        from cdc_assets.reading.spark_catalog import query_by_spark as query

        statements = [text]
    else:
        from cdc_assets.reading.duckdb_sql import query_by_duckdb as query
        from cdc_assets.reading.duckdb_sql import statements_of

        statements = statements_of(text)
    for statement in statements:
        yield query(statement, tables, platform, limit=limit, show_sensitive=choice.show_sensitive)


def _register(tables: list[Any], platform: Any, output: SqlFormat, *, show_sensitive: bool) -> None:
    from cdc_assets.reading.lake_tables import hidden_columns
    from cdc_assets.reading.spark_catalog import register_names

    done = register_names(tables, platform, show_sensitive=show_sensitive)
    rows = [{"name": name, "table": table.name, "path": table.path} for name, table in done.made.items()]
    _print_answer_rows(["name", "table", "path"], rows, output, narrow=["name", "table"])
    if done.dropped:
        print(f"dropped: {', '.join(done.dropped)}", file=sys.stderr)
    if hidden := [] if show_sensitive else hidden_columns([*done.made.values()]):
        print(f"hashes in these views: {', '.join(hidden)}; --show-sensitive makes them with the values", file=sys.stderr)


def _keep_names(choice: SqlOptions) -> None:
    # Until the next of these commands, a server of the stack gets the names again when it starts: its catalog is in memory.
    from cdc_assets.reading.spark_catalog import forget_names, keep_names
    from cdc_assets.stack.component_plan import external_addresses
    from cdc_assets.stack.home import Home

    home = Home(settings.home())
    if not choice.register:
        forget_names(home)
    elif "CDC_SPARK_REMOTE" not in external_addresses(home):
        keep_names(home, show_sensitive=choice.show_sensitive)
        notice = "these names are in the server's memory: they are made again when it starts again"
        print(f"{notice}, until cdc sql --no-register", file=sys.stderr)


def _tables(lake: str, cut: str | None) -> list[Any]:
    from cdc_assets.reading.lake_tables import at_cut, lake_tables
    from cdc_assets.recovery.cut_manifest import find_cut

    sources = load_sources(settings.sources_folder())
    tables: list[Any] = lake_tables(sources, lake)
    return tables if cut is None else at_cut(tables, lake, find_cut(lake, sources, cut))


def _print_tables(tables: list[Any], output: SqlFormat) -> None:
    from spark.table.lake_location import is_object

    rows = [
        {
            "table": table.name,
            "rows": None if table.is_now or table.only or is_object(table.path) else _row_count(table),
            "sensitive": ", ".join(table.sensitive) or None,
            "path": table.path,
        }
        for table in tables
        if table.is_there
    ]
    _print_answer_rows(["table", "rows", "sensitive", "path"], rows, output, narrow=["table", "rows", "sensitive"])


def _row_count(table: Any) -> int | None:
    from cdc_assets.clients.delta_log import silver_rows

    rows: int | None = table.at.rows if table.at else silver_rows(table.path)
    return rows


def _print_answer(found: Any, output: SqlFormat, limit: int) -> None:
    _print_answer_rows(found.columns, found.rows, output, narrow=found.columns)
    if found.more:
        print(f"and more: --limit {10 * limit}, or a LIMIT of the statement", file=sys.stderr)
    if found.hidden:
        print(f"shown as hashes: {', '.join(found.hidden)}; --show-sensitive prints them", file=sys.stderr)


def _print_answer_rows(columns: Any, rows: Any, output: SqlFormat, *, narrow: Any) -> None:
    if output is not SqlFormat.csv:
        print_rows(rows, Format(output.value), narrow=narrow)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)


@verb(lake=True)
def now(
    chain: OneChain,
    table: Annotated[str, typer.Argument(help="As in the registry or in the lake.")],
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Only rows with this value; may be given again.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many rows.")] = 100,
    output: Output = Format.text,
) -> None:
    """Print a table's rows as the lake knows them now, though silver has not folded them yet.

    Read by Arrow, without Spark. The stack's Spark reads a table with changes that Arrow does not fold.
    """
    from dataclasses import replace

    from cdc_assets.reading.silver_now import now as table_now

    current = replace(table_now(chain.source.name, table), where=dict(map(_condition, where or ())))
    rows = _current_rows(current, limit)
    columns = [name for name in (rows[0] if rows else ()) if not name.startswith("_cdc_")]
    print_rows(rows[:limit], output, narrow=columns)
    if len(rows) > limit:
        print(f"and more: --limit {10 * limit}, or --where", file=sys.stderr)


def _condition(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"{text!r} is not COLUMN=VALUE")
    return name, value


def _current_rows(asked: Any, limit: int) -> list[dict[str, Any]]:
    """One more than the limit, where there are more."""
    from spark.errors import LeftToSparkError

    try:
        return _first(asked.reader(), limit)
    except LeftToSparkError as left:
        print(f"read by Spark: {left.__cause__}", file=sys.stderr)
        return _first(asked.by_spark(limit + 1).to_batches(), limit)


def _first(batches: Iterable[Any], limit: int) -> list[dict[str, Any]]:
    rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
    return [{name: _printable(value) for name, value in row.items()} for row in itertools.islice(rows, limit + 1)]


def _printable(value: Any) -> Any:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value


@dataclass(frozen=True)
class PeekOptions:
    """Which records of the topic are printed."""

    key: Annotated[str | None, typer.Option(help="Only of this key: 42, id=42 or JSON; the whole topic is read.")] = None
    at: Annotated[str | None, typer.Option(help="From here on: an offset, a time (UTC), or so long ago (5m).")] = None
    limit: Annotated[int, typer.Option(min=1, help="At most so many records: without --at the newest. With --at and -f all.")] = (
        10
    )
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then print what comes, until Ctrl-C.")] = False
    partition: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None


@verb()
def peek(
    platform: Platform,
    topic: Annotated[str, typer.Argument(help="Its name, on the core or the lake cluster.", autocompletion=complete_topic)],
    chosen: PeekOptions,
    cluster: Annotated[str | None, typer.Option(help="Where to look; by default core, then lake.")] = None,
    output: Output = Format.text,
    show_sensitive: Annotated[bool, typer.Option("--show-sensitive", help="Values of sensitive columns as they are.")] = False,
) -> None:
    """Print records of a topic, decoded. Sensitive columns are shown as hashes; nothing is committed."""
    from cdc_assets.clients import record_window
    from cdc_assets.reading.topic_records import Decoder, find_topic, matches_key

    sources = load_sources(settings.sources_folder())
    topic_place = find_topic(platform, sources, topic, cluster=cluster)
    decoder = Decoder(topic_place, platform.lake, show_sensitive=show_sensitive)
    key, follow = chosen.key, chosen.follow
    predicate = None if key is None else lambda record: matches_key(key, decoder.key_fields(record))
    window = record_window.PeekWindow(chosen.at, chosen.limit, chosen.partition, predicate)
    if decoder.sensitive:
        print(f"shown as hashes: {', '.join(decoder.sensitive)}; --show-sensitive prints them", file=sys.stderr)
    client = topic_place.open(platform)
    if follow and chosen.at is not None:
        records, seen = list[Any](), record_window.start_offsets(client, topic, window)
    else:
        records, seen = record_window.read_window(client, topic, window)
    for record in records:
        _print_record(decoder.decode(record), output)
    if not (records or follow):
        print(f"no record of {topic} on {topic_place.cluster}" + (" is of that key" if key else ""), file=sys.stderr)
    for record in record_window.follow(client, topic, window, seen) if follow else ():
        _print_record(decoder.decode(record), output)


def _print_record(record: Any, output: Format) -> None:
    # A line of text or of JSON for each record, or a document of YAML: one that follows has no end.
    if output is Format.json:
        print(to_json(record.to_json()), flush=True)
    elif is_data(output):
        print("---")
        print_document(record.to_json(), output)
    else:
        where = f"{record.record.partition}:{record.record.offset}"
        key, row = (visible(json.dumps(side, default=str, ensure_ascii=False)) for side in (record.key, record.row))
        print(f"{where}  {record.time}  {record.op or '-'}  {key}  {row}", flush=True)


cut_app = typer.Typer(no_args_is_help=True, help=__doc__)
_LISTED = ("cut", "made_at", "position", "tables", "rows")
_SHOWN = ("layer", "table", "version", "rows", "quarantined")
_PLANNED = ("table", "version", "rows", "waiting")


@cut_app.command("list")
@verb(failure=2, lake=True)
def list_cuts(
    sources: Annotated[
        ChosenSources, typer.Argument(metavar="[SOURCE]…", help="Default all.", autocompletion=complete_source)
    ] = EVERY_SOURCE,
    output: Output = Format.text,
) -> None:
    """List the kept cuts, newest first; no service is asked."""
    from cdc_assets.recovery.cut_manifest import read_cuts

    cuts = [cut for source in sources for cut in read_cuts(settings.lake(), source)]
    rows = [
        {
            "cut": cut.cut,
            "made_at": cut.made_at,
            "position": cut.position,
            "tables": len(cut.tables),
            "rows": sum(entry.rows for entry in cut.tables.values()),
        }
        for cut in cuts
    ]
    print_rows(rows, output, narrow=_LISTED)


@cut_app.command()
@verb(failure=2, lake=True)
def show(
    cut: Annotated[str, typer.Argument(help="Its name; a source's name: its newest.", autocompletion=complete_source)],
    output: Output = Format.text,
) -> None:
    """Show which version of each table a cut names; no service is asked."""
    from cdc_assets.recovery.cut_manifest import find_cut

    _print_cut(find_cut(settings.lake(), chosen_sources(), cut), output)


@cut_app.command()
@verb(failure=2, lake=True)
def make(
    chain: OneChain,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would begin with, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make a cut of this moment, and keep it. Bronze and silver are brought up to it."""
    from cdc_assets.recovery.consistent_cut import make_cut, plan_cut

    if dry_run:
        print_rows(list(plan_cut(chain)), output, narrow=_PLANNED)
        return
    made = make_cut(chain, say)
    for name in made.forgotten:
        print(f"{name} is kept no longer", file=sys.stderr)
    _print_cut(made.manifest, output)


def _print_cut(cut: CutManifest, output: Format) -> None:
    if is_data(output):
        print_document(cut.to_json(), output)
        return
    print(f"{cut.cut}: all that {cut.source} had committed up to {cut.position}, and nothing else")
    print_rows([{**row, "topics": None} for row in cut.to_rows()], output, narrow=_SHOWN)


_GIVEN = Path(__file__).parents[2] / "reading" / "notebooks"
_ROOT = Path(__file__).parents[3]


@verb()
def notebook(
    folder: Annotated[Path | None, typer.Option(help="Where your notebooks are.  [default: notebooks in CDC_HOME]")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The first port that is tried.")] = 8888,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Start JupyterLab over the lake, on 127.0.0.1 and behind a token that is printed.

    Three notebooks are copied into the folder: a chain, event time, what changed. Yours stay as they are.
    """
    if find_spec("jupyterlab") is None:
        raise RefusalError("JupyterLab is not installed: ./cdc notebook installs it, or pip install jupyterlab")
    notebooks = (folder or settings.home() / "notebooks").absolute()
    copy_notebooks(notebooks)
    settings.export_stack_environment()
    os.environ["CDC_HOME"], os.environ["CDC_SOURCES"] = str(settings.home()), str(settings.sources_folder())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    server = {"ServerApp.ip": "127.0.0.1", "ServerApp.port": port, "ServerApp.root_dir": notebooks}
    arguments = [f"--{name}={value}" for name, value in server.items()]
    # Jupyter does not begin as root unless it is told; in a container the stack is root's as well.
    arguments += ["--allow-root"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "jupyterlab", *arguments, *([] if browser else ["--no-browser"])]
    os.execv(sys.executable, command)  # our own interpreter


def copy_notebooks(folder: Path) -> list[Path]:
    """Those that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [notebook for notebook in sorted(_GIVEN.glob("*.ipynb")) if not (folder / notebook.name).exists()]
    return [Path(shutil.copy(notebook, folder)) for notebook in missing]
