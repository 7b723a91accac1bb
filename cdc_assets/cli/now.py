"""`cdc now`: a table's rows as they are now, silver and what bronze holds beyond it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import complete_source
from cdc_assets.cli.output_formats import Format, Output, print_rows


def now(
    source: Annotated[str, typer.Argument(help="Its name in the registry.", autocompletion=complete_source)],
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

    from cdc_assets.silver_now import now as table_now

    settings.export_stack_environment()
    asked = replace(table_now(source, table), where=dict(map(_condition, where or ())))
    rows = _rows(asked, limit)
    columns = [name for name in (rows[0] if rows else ()) if not name.startswith("_cdc_")]
    print_rows(rows[:limit], output, narrow=columns)
    if len(rows) > limit:
        print(f"and more: --limit {10 * limit}, or --where", file=sys.stderr)


def _condition(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"{text!r} is not COLUMN=VALUE")
    return name, value


def _rows(asked: Any, limit: int) -> list[dict[str, Any]]:
    """One more than the limit, where there are more."""
    from cdc_assets.errors import LeftToSparkViewError

    try:
        return _first(asked.reader(), limit)
    except LeftToSparkViewError as left:
        print(f"read by Spark: {left.reason}", file=sys.stderr)
        return _first(asked.by_spark(limit + 1).to_batches(), limit)


def _first(batches: Iterable[Any], limit: int) -> list[dict[str, Any]]:
    found = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
    return [{name: _printable(value) for name, value in row.items()} for row in itertools.islice(found, limit + 1)]


def _printable(value: Any) -> Any:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value
