"""The table that `cdc up` ends with: what the checks have counted, one table per source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from cdc_assets import names
from cdc_assets.defs.checks.volumetry import check_name
from cdc_assets.main_job.dagster_runs import CheckOutcome
from cdc_assets.main_job.verdict_lines import is_red, print_verdicts
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.volumetry.check_verdicts import NOT_RUN, CheckVerdict, of_table, summary, verdict
from cdc_assets.volumetry.rows_compared import RowsCompared, of_metadata, verdict_text

_NOTHING = -1
_NOW = math.inf
"""When a comparison of this very run was made."""
Outcomes = Mapping[tuple[tuple[str, ...], str], CheckOutcome]


@dataclass(frozen=True)
class Line:
    """One table's counts, as its checks found them, and what all checks of its chain say.

    A count is None where its check could not count, and -1 where there is nothing to count: rows of a source without a
    database, objects of one without a backup. `part`: of which part of the table the rows of source and silver are, empty:
    of the whole (`reconciliation.max_rows`). `compared`: the last
    comparison of rows, which may be an earlier run's; None: there was none.
    """

    table: str
    source_rows: int | None
    topic: int | None
    mirror: int | None
    bronze: int | None
    silver_rows: int | None
    objects: int | None
    lag_seconds: float | None
    verdicts: tuple[CheckVerdict, ...]
    part: str = ""
    compared: RowsCompared | None = None


def line_of(
    source: BaseSource,
    table: Table,
    outcomes: Outcomes,
    verdicts: Sequence[CheckVerdict],
    *,
    lag_seconds: float | None,
    silver_rows: int | None = None,
) -> Line:
    """What the checks of one table say. `silver_rows`: by silver's own log, where no check compares them with a source's."""
    found = {
        layer: outcomes.get((names.asset_key(layer, source, table), check))
        for layer, check in ((layer, check_name(layer)) for layer in ("bronze", "silver", "backup"))
    }
    compared = source.asked is not None
    return Line(
        table=names.table_name(table),
        source_rows=_number(found["silver"], "cdc/source_rows") if compared or found["silver"] else _NOTHING,
        topic=_number(found["bronze"], "cdc/topic_records"),
        mirror=_number(found["bronze"], "cdc/mirror_records"),
        bronze=_number(found["bronze"], "cdc/bronze_rows"),
        silver_rows=_number(found["silver"], "cdc/silver_rows") if compared or found["silver"] else silver_rows,
        objects=_number(found["backup"], "cdc/objects") if source.backup else _NOTHING,
        lag_seconds=lag_seconds,
        verdicts=tuple(of_table(verdicts, source.name, names.table_name(table))),
        part=_part(found["silver"]),
        compared=of_metadata(found["silver"].metadata, _NOW) if found["silver"] else None,
    )


def verdicts_of(outcomes: Outcomes, declared: Iterable[tuple[tuple[str, ...], str]]) -> list[CheckVerdict]:
    """Of every declared check: what it found, or that it did not run."""
    return [
        verdict(*key, passed=found.passed, warns=found.warns, description=found.description)
        if (found := outcomes.get(key))
        else CheckVerdict(*key, NOT_RUN, "it did not run")
        for key in sorted(declared)
    ]


def print_table(console: Console, source: BaseSource, lines: Sequence[Line], of_source: Sequence[CheckVerdict] = ()) -> None:
    """One source; `of_source`: what the checks say that belong to no table, such as the connector's."""
    table = RichTable(title=f"\n{source.name}", title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("table", no_wrap=True)
    for column in ("source", "topic", "mirror", "bronze", "silver", "objects", "lag s"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("checks")
    for line in lines:
        counts = (line.source_rows, line.topic, line.mirror, line.bronze, line.silver_rows, line.objects)
        values = ["?" if value is None else "-" if value == _NOTHING else f"{value:,}" for value in counts]
        if line.part:
            values[0], values[4] = f"{values[0]} *", f"{values[4]} *"
        lag = "?" if line.lag_seconds is None else f"{line.lag_seconds:.1f}"
        colour = "red" if is_red(line.verdicts) else "green"
        table.add_row(line.table, *values, lag, f"[{colour}]{_verdict_text(line)}[/]")
    console.print(table)
    for line in lines:
        if line.part:
            console.print(f"* {line.table}: rows of a part: {escape(line.part)}; cdc reconcile counts the whole", highlight=False)
    print_verdicts(console, [*of_source, *(each for line in lines for each in line.verdicts)])


def _verdict_text(line: Line) -> str:
    """Rows that this run has compared need no word."""
    return summary(line.verdicts) if line.compared and line.compared.at == _NOW else verdict_text(line.verdicts, line.compared)


def _number(outcome: CheckOutcome | None, key: str) -> int | None:
    value = outcome.metadata.get(key) if outcome else None
    return int(value) if value is not None else None


def _part(outcome: CheckOutcome | None) -> str:
    share = str(outcome.metadata.get("cdc/share", "")) if outcome else ""
    return "" if share == "1/1" else share
