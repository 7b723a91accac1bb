"""The table that `cdc up` ends with: what the checks have counted, one table per source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from cdc_assets import names
from cdc_assets.checks.volumetry import check_name
from cdc_assets.main_job.dagster_runs import CheckOutcome
from cdc_assets.registry.models import BaseSource, Source, Table

Outcomes = Mapping[tuple[tuple[str, ...], str], CheckOutcome]


@dataclass(frozen=True)
class Line:
    """One table's counts, as its checks found them; None where a check could not count.

    `part`: of which part of the table the rows of source and silver are, empty: of the whole (`reconciliation.max_rows`).
    """

    table: str
    source_rows: int | None
    topic: int | None
    mirror: int | None
    bronze: int | None
    silver_rows: int | None
    objects: int | None
    lag_seconds: float | None
    failures: tuple[str, ...]
    part: str = ""


def line_of(source: BaseSource, table: Table, outcomes: Outcomes, *, lag_seconds: float | None) -> Line:
    """What the checks of one table say."""
    found = {
        layer: outcomes.get((names.asset_key(layer, source, table), check))
        for layer, check in ((layer, check_name(layer)) for layer in ("bronze", "silver", "backup"))
    }
    rows = ("silver",) if isinstance(source, Source) else ()
    expected = ("bronze", *rows, *(("backup",) if source.backup else ()))
    failures = []
    for layer in expected:
        outcome = found[layer]
        if outcome is None:
            failures.append(f"{layer}/{source.name}/{names.table_name(table)}: its check did not run")
        elif not outcome.passed:
            failures.append(f"{layer}/{source.name}/{names.table_name(table)}: {outcome.description}")
    return Line(
        table=names.table_name(table),
        source_rows=_number(found["silver"], "cdc/source_rows"),
        topic=_number(found["bronze"], "cdc/topic_records"),
        mirror=_number(found["bronze"], "cdc/mirror_records"),
        bronze=_number(found["bronze"], "cdc/bronze_rows"),
        silver_rows=_number(found["silver"], "cdc/silver_rows"),
        objects=_number(found["backup"], "cdc/objects"),
        lag_seconds=lag_seconds,
        failures=tuple(failures),
        part=_part(found["silver"]),
    )


def print_table(console: Console, source: BaseSource, lines: Sequence[Line]) -> None:
    """One source."""
    table = RichTable(title=f"\n{source.name}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("table", no_wrap=True)
    for column in ("source", "topic", "mirror", "bronze", "silver", "objects", "lag s"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("checks")
    for line in lines:
        counts = (line.source_rows, line.topic, line.mirror, line.bronze, line.silver_rows, line.objects)
        values = ["?" if value is None else f"{value:,}" for value in counts]
        if line.part:
            values[0], values[4] = f"{values[0]} *", f"{values[4]} *"
        lag = "?" if line.lag_seconds is None else f"{line.lag_seconds:.1f}"
        verdict = "[red]failed[/red]" if line.failures else "[green]pass[/green]"
        table.add_row(line.table, *values, lag, verdict)
    console.print(table)
    for line in lines:
        if line.part:
            console.print(f"* {line.table}: rows of a part: {escape(line.part)}; cdc reconcile counts the whole", highlight=False)
        for failure in line.failures:
            console.print(f"[red]{escape(failure)}[/red]", highlight=False)


def _number(outcome: CheckOutcome | None, key: str) -> int | None:
    value = outcome.metadata.get(key) if outcome else None
    return int(value) if value is not None else None


def _part(outcome: CheckOutcome | None) -> str:
    share = str(outcome.metadata.get("cdc/share", "")) if outcome else ""
    return "" if share == "1/1" else share
