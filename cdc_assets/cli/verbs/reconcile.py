"""`cdc reconcile`: prove that silver equals its source at an exact position of the source's log, and that histories are right.

A difference is exit code 1; with --heal it is put right. What is inconclusive is told with the reason, and what would decide it.
"""

from __future__ import annotations

import itertools
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from cdc_assets.cli.declared_sources import chosen_sources, table_of, tell_experimental
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import history_proof
from cdc_assets.proof.compared_table import ComparisonRequest, Share
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.proof.comparison_report import ReportHead, write_report
from cdc_assets.proof.comparison_result import (
    DIFFERENT,
    EQUAL,
    HISTORY,
    IN_QUARANTINE,
    INCONCLUSIVE,
    ComparisonResult,
    HistoryResult,
    TableResult,
    not_compared,
)
from cdc_assets.proof.healing import heal
from cdc_assets.proof.source_sides import can_reconcile
from cdc_assets.registry import names, settings
from cdc_assets.registry.display_text import visible
from cdc_assets.registry.errors import ON_PURPOSE
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity


def prove_histories(
    chain: Chain[BaseSource], tables: Sequence[Table], *, part: Share, timeout: float, mend: bool
) -> dict[str, HistoryResult]:
    """By short name of the tables that have one; with `mend` those that are wrong are folded again, and proven again."""
    proofs = {}
    for table in tables:
        if not history_proof.has_history(table):
            continue
        result = history_proof.prove(chain, table, part=part, timeout=timeout)
        if mend and any(d.where == HISTORY for d in result.differences):
            result = _heal_and_prove(chain, table, result, part, timeout)
        proofs[names.table_name(table)] = result
    return proofs


def _heal_and_prove(chain: Chain[BaseSource], table: Table, result: HistoryResult, part: Share, timeout: float) -> HistoryResult:
    try:
        keys = history_proof.heal(chain, table)
    except ON_PURPOSE as error:
        print(f"{result.table}: its history is not healed: {error}", file=sys.stderr)
        return replace(result, healed=0)
    print(f"{result.table}: {quantity(keys, 'key')} of its history folded again from bronze", file=sys.stderr)
    return replace(history_proof.prove(chain, table, part=part, timeout=timeout), healed=keys)


def print_history(console: Console, result: HistoryResult, *, colour: str, shown: int) -> None:
    """One line, and a row for each key that is wrong."""
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in result.seconds.items())
    line = Text(f"{result.table} history", style=colour)
    console.print(
        line.append(f": {visible(result.sentence())}" + (f" ({seconds})" if seconds else ""), style="default"), soft_wrap=True
    )
    _print_left_open(console, result)
    if not result.differences:
        return
    grid = Grid("key", "what", "damaged", "versions from", "columns", "seen by", box=None, pad_edge=False)
    for difference in result.differences[:shown]:
        kinds, versions = ", ".join(difference.kinds), ", ".join(difference.versions)
        cells = (difference.key, kinds, difference.where, versions, ", ".join(difference.columns), ", ".join(difference.proofs))
        grid.add_row(*(Text(visible(cell)) for cell in cells))
    console.print(grid)
    if result.keys_differing > shown:
        console.print(f"  and {result.keys_differing - shown} more: -o json")


_SHOWN = 20
_HEAL_POLL_SECONDS = 3.0
_HEAL_AT_MOST = 3


@verb(failure=2, lake=True)
def reconcile(
    platform: Platform,
    chosen: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE[.TABLE]]...", help="Default: every source whose log tells an exact moment."),
    ] = None,
    share: Annotated[str, typer.Option(help="PART/PARTS: only one of so many shares of each table's buckets.")] = "1/1",
    mend: Annotated[bool, typer.Option("--heal", help="Mend the keys that differ, then compare again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --heal: say which keys, and do nothing.")] = False,
    two_step: Annotated[
        bool, typer.Option("--two-step", help="No snapshot is held: suspects are read again until confirmed or cleared.")
    ] = False,
    standby: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Read rows from this standby of the source, by the two-step method.")
    ] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Compare the view of now instead: silver and what bronze holds beyond it.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that the chain may take to carry the cut into the lake.")] = 300.0,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write what was found into one file that can be handed on.")
    ] = None,
    output: Output = Format.text,
) -> None:
    """Compare every row of silver with the source at one cut of its log; both may move meanwhile.

    Histories are proven as well: against silver, by their intervals, and folded again from all of bronze.
    Exit code: 0 everything is equal, 1 something differs, 2 something is inconclusive (why, and what decides it).
    """
    picked, began = _selection(chosen or []), datetime.now(timezone.utc)
    request = ComparisonRequest(dict.fromkeys(_names(picked), _share(share)), timeout, two_step, standby, view)
    results = _prove(platform, picked, request, _share(share), heals=mend and not dry_run)
    if report is not None:
        _report(report, began, results)
    if is_data(output):
        print_document([r.to_json() for r in results], output)
    else:
        _print(results)
    verdicts = {r.verdict for r in results} | {r.history.verdict for r in results if r.history is not None}
    # Whatever is none of the two is not equal either.
    raise typer.Exit(1 if DIFFERENT in verdicts else 0 if verdicts <= {EQUAL} else 2)


Picked = Sequence[tuple[BaseSource, list[Table]]]


def _names(picked: Picked) -> list[str]:
    return [names.table_name(table) for _, tables in picked for table in tables]


def _prove(platform: Platform, picked: Picked, request: ComparisonRequest, part: Share, *, heals: bool) -> list[TableResult]:
    _check_method(request, [source for source, _ in picked], heals=heals)
    tell_experimental(source for source, _ in picked)
    proven = (_prove_source(Chain(platform, source), tables, request, part, heals=heals) for source, tables in picked)
    return [result for results in proven for result in results]


def _report(path: Path, began: datetime, results: Sequence[TableResult]) -> None:
    from cdc_assets.cli.cdc_command import software_version

    head = ReportHead(began, settings.caller(), shlex.join(("cdc", *sys.argv[1:])), software_version())
    try:
        digest = write_report(path, head, results)
    except OSError as error:
        raise typer.BadParameter(f"--report {path}: {error.strerror}") from error
    print(f"{path}: SHA-256 of its facts {digest}", file=sys.stderr)


def _check_method(request: ComparisonRequest, sources: Sequence[BaseSource], *, heals: bool) -> None:
    if request.view and heals:
        raise typer.BadParameter("--heal mends silver: give it without --view")
    for source in sources:
        if request.standby and source.asked is None:
            raise typer.BadParameter(f"source {source.name}: only a PostgreSQL source has a standby here")


def _prove_source(
    chain: Chain[BaseSource], tables: list[Table], request: ComparisonRequest, part: Share, *, heals: bool
) -> list[TableResult]:
    compare = partial(_compare_source, chain, request=request)
    results = compare(tables)
    if heals:
        results |= _heal_and_compare(chain, tables, results, request.timeout, compare)
    if request.view:
        # A history has no view.
        return [results[name] for name in map(names.table_name, tables)]
    proven = prove_histories(chain, tables, part=part, timeout=request.timeout, mend=heals)
    return [replace(results[name], history=proven.get(name)) for name in map(names.table_name, tables)]


def _compare_source(chain: Chain[BaseSource], tables: Sequence[Table], *, request: ComparisonRequest) -> dict[str, TableResult]:
    # What stands before a whole source is the result of each of its tables: the other sources are compared.
    try:
        return compare_rows(chain, tables, request)
    except ON_PURPOSE as error:
        return {names.table_name(table): not_compared(chain.source, table, str(error)) for table in tables}


def _heal_and_compare(
    chain: Chain[BaseSource],
    tables: list[Table],
    found: dict[str, TableResult],
    timeout: float,
    compare: Callable[[Sequence[Table]], dict[str, TableResult]],
) -> dict[str, TableResult]:
    """The tables that differed, healed and compared again as they were before, until what was asked for has come through the log.

    A table of which nothing can be healed is not compared again: its scans would show the same.
    """
    different = [t for t in tables if found[names.table_name(t)].verdict == DIFFERENT]
    healed: Counter[str] = Counter()
    until = time.monotonic() + timeout
    results = {names.table_name(t): found[names.table_name(t)] for t in different}
    for attempt in itertools.count():
        for table in different if attempt < _HEAL_AT_MOST else ():
            # A row read while a commit was not visible yet stands behind that change (ADR 26): what still differs is read again.
            name = names.table_name(table)
            if results[name].verdict == DIFFERENT:
                healed[name] = max(healed[name], _heal(chain, table, results[name]))
        different = [t for t in different if healed[names.table_name(t)]]
        if not different:
            break
        compared = compare(different)
        results |= {name: replace(result, healed=healed[name]) for name, result in compared.items()}
        different = [t for t in different if not results[names.table_name(t)].equal]
        if not different or time.monotonic() > until:
            break
        time.sleep(_HEAL_POLL_SECONDS)
    return {name: replace(result, healed=healed[name]) for name, result in results.items()}


def _heal(chain: Chain[BaseSource], table: Table, result: TableResult) -> int:
    """How many keys were folded or asked for again; why none could be is told."""
    table_path = f"{chain.source.name}/{names.table_name(table)}"
    try:
        refolded, again = heal(chain, table, result)
    except ON_PURPOSE as error:
        print(f"{table_path}: not healed: {error}", file=sys.stderr)
        return 0
    print(f"{table_path}: {quantity(refolded, 'key')} folded again, {again} read again", file=sys.stderr)
    if not refolded + again:
        from cdc_assets.capture.onboarding.topic_verification import phantom_mend

        print(
            f"{table_path}: no event can be read again for what differs. Rows that the source has no more go with: "
            f"{phantom_mend(chain.source, table)} (docs/explanation/reconciliation.md, Healing)",
            file=sys.stderr,
        )
    return refolded + again


def _print(results: list[TableResult]) -> None:
    console = Console(highlight=False, width=None if Console().is_terminal else 200)
    colours = {DIFFERENT: "red", INCONCLUSIVE: "yellow"}
    for result in results:
        colour = colours.get(result.verdict, "green")
        seconds = ", ".join(f"{name} {value:.1f} s" for name, value in result.seconds.items())
        # Keys, names and reasons are the source's: a `[/b]` in one is no markup.
        sentence = escape(visible(result.sentence())) + (f" ({seconds})" if seconds else "")
        console.print(f"[{colour}]{result.table}[/]: {sentence}", soft_wrap=True)
        _print_left_open(console, result)
        if result.differences:
            _print_differences(console, result)
        if result.history is not None:
            print_history(console, result.history, colour=colours.get(result.history.verdict, "green"), shown=_SHOWN)


def _print_left_open(console: Console, result: ComparisonResult) -> None:
    """What would decide it, and the columns that are left out."""
    lines = [f"decided by: {result.decided_by}"] if result.decided_by else []
    for line in (*lines, *(f"not compared: {name}: {why}" for name, why in result.not_compared.items())):
        console.print(visible(f"  {line}"), markup=False, soft_wrap=True)


def _print_differences(console: Console, result: TableResult) -> None:
    grid = Grid("key", "what", "damaged", "column", "source", "silver", box=None, pad_edge=False)
    for difference in result.differences[:_SHOWN]:
        columns = difference.columns or ("",)
        for number, name in enumerate(columns):
            first = (difference.key, difference.kind, difference.where) if number == 0 else ("", "", "")
            source, silver = ((row or {}).get(name) for row in (difference.source, difference.silver))
            values = (("NULL" if v is None else v) if name else "" for v in (source, silver))
            grid.add_row(*(Text(visible(cell)) for cell in (*first, name, *values)))
    console.print(grid)
    if result.keys_differing > _SHOWN:
        console.print(f"  and {result.keys_differing - _SHOWN} more: -o json")
    if any(difference.where == IN_QUARANTINE for difference in result.differences):
        console.print(f"  why records are in quarantine: cdc quarantine list {result.table}", markup=False, soft_wrap=True)


def _selection(chosen: list[str]) -> list[tuple[BaseSource, list[Table]]]:
    """By source, in the order of the registry. `SOURCE/TABLE` is taken as well."""
    sources = {source.name: source for source in chosen_sources()}
    picked: dict[str, list[Table]] = {}
    exact = [name for name, source in sources.items() if can_reconcile(source)]
    if not chosen and (others := [name for name in sources if name not in exact]):
        # Whole tables of these travel each time.
        notice = f"not compared unless named: {', '.join(others)} (cdc reconcile {others[0]})"
        if not exact:
            raise typer.BadParameter(notice)
        print(notice, file=sys.stderr)
    for text in chosen or exact:
        name, _, short = text.replace("/", ".", 1).partition(".")
        (source,) = chosen_sources([name])
        tables = [table_of(source, short)] if short else list(source.tables)
        tables_of_source = picked.setdefault(name, [])
        tables_of_source += [t for t in tables if t not in tables_of_source]
    return [(source, picked[name]) for name, source in sources.items() if name in picked]


def _share(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise typer.BadParameter(f"--share {text}: give PART/PARTS, such as 1/8")
    return int(number) - 1, int(parts)
