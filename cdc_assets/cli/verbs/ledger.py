"""`cdc ledger`: every event of a table by event-time window and op, in each link and with its fate."""

from __future__ import annotations

from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from cdc_assets.cli.declared_sources import chosen_sources, complete_source, table_of
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.progress import console as told
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.event_ledger import WINDOWS, Hop, SourceLedger, WindowCount, hops, total, windows_before_watermark
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import parse_duration
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.proof.ledger_contract import FATES, LINKS, Counted


class Window(str, Enum):
    """Sizes of the windows."""

    minute = "1m"
    hour = "1h"
    day = "1d"


ChosenTable = Annotated[
    str,
    typer.Argument(
        metavar="[SOURCE.]TABLE",
        help="TABLE alone where one source has it; SOURCE/TABLE as well.",
        autocompletion=complete_source,
    ),
]


@verb(failure=2)
def ledger(
    platform: Platform,
    chosen: ChosenTable,
    window: Annotated[Window, typer.Option(help="Size of the windows (UTC).")] = Window.hour,
    last: Annotated[str | None, typer.Option(help="Only windows that were open within this time, such as 6h or 7d.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Count what silver has folded since first; needs the stack.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --count: count all anew in every link, book what differs.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --count: say what would be counted, count nothing.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the windows into this PNG file.")] = None,
    output: Output = Format.text,
) -> None:
    """Print a table's ledger. Exit 0 when every window balances, 1 when one does not, 2 when a hop could not be counted."""
    if again and not count:
        raise typer.BadParameter("--again counts anew, so it needs --count")
    source, table = _table(chosen)
    lake, named = settings.lake(), f"{source.name}/{names.table_name(table)}"
    since = _since(last, window)
    if count:
        _count(Chain(platform, source), table, again=again, dry_run=dry_run)
    counted = SourceLedger(lake, source)
    watermark = counted.place(table)
    if watermark is None:
        raise RefusalError(f"nothing of {named} is counted yet: cdc ledger {named} --count")
    windows = counted.windows(table, window=window.value, since=since)
    if not source.ledger.early:
        windows = windows_before_watermark(windows, watermark, window.value)
    found_hops = hops(windows, watermark, mirrored=names.is_mirrored(source))
    if plot:
        _draw(plot, windows, named, window)
    if is_data(output):
        print_document(_answer(named, window, watermark, windows, found_hops), output)
    else:
        _print(windows, found_hops)
    if any(hop.differing for hop in found_hops):
        raise typer.Exit(1)
    if any(hop.uncounted for hop in found_hops):
        raise typer.Exit(2)


def _since(last: str | None, window: Window) -> datetime | None:
    # The begin of the window that it falls into: a window is shown with all of its events, or not at all.
    if last is None:
        return None
    try:
        at = datetime.now(timezone.utc) - parse_duration(last)
        size = WINDOWS[window.value]
        return at - (at - datetime.fromtimestamp(0, timezone.utc)) % size
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"--last {last}: {error}") from None


def _draw(file: Path, found: list[WindowCount], named: str, window: Window) -> None:
    from cdc_assets.proof.ledger_plot import png

    image = png(found, title=f"{named}, windows of {window.value}", window=window.value)
    try:
        file.write_bytes(image)
    except OSError as error:
        raise typer.BadParameter(f"--plot {file}: {error.strerror}") from None


def _table(chosen: str) -> tuple[BaseSource, Table]:
    sources = {source.name: source for source in chosen_sources()}
    name, dot, short = chosen.replace("/", ".", 1).partition(".")
    if dot and name in sources:
        return sources[name], table_of(sources[name], short)
    matches = [(source, t) for source in sources.values() for t in source.tables if chosen in (names.table_name(t), t.name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise typer.BadParameter(f"{chosen}: more than one source has it: {', '.join(f'{s.name}.{chosen}' for s, _ in matches)}")
    if dot:
        chosen_sources([name])  # it says that there is no such source
    raise typer.BadParameter(f"no source has a table {chosen}; sources: {', '.join(sources)}")


def _count(chain: Chain[BaseSource], table: Table, *, again: bool, dry_run: bool) -> None:
    from cdc_assets.proof.event_ledger import behind, count_events

    platform, source = chain.platform, chain.source
    if dry_run:
        ledger_place = SourceLedger(platform.lake, source).place(table)
        what = "all events again" if again else f"{quantity(behind(platform.lake, source, table, ledger_place), 'event')}"
        told.print(f"{source.name}/{names.table_name(table)}: would count {what}")
        return
    result = count_events(chain, [table], again=again)
    told.print(f"counted {quantity(result.rows_read, 'event')} in {result.seconds:.1f} s")
    for name, why in result.detail.get("not_anew", {}).items():
        told.print(f"{source.name}/{name}: its topics keep what was counted of them: {why}")


def _answer(named: str, window: Window, place: Counted, found: list[WindowCount], judged: list[Hop]) -> dict[str, Any]:
    return {
        "table": named,
        "window": window.value,
        "silver_version": place.silver_version,
        "watermark": datetime.fromtimestamp(place.watermark / 1e6, timezone.utc).isoformat(),
        "balanced": all(hop.balanced for hop in judged),
        "hops": {hop.name: {"balanced": hop.balanced, "text": hop.sentence()} for hop in judged},
        "total": total(found),
        "windows": [w.to_json() for w in found],
    }


def _print(found: list[WindowCount], judged: list[Hop]) -> None:
    console = Console(highlight=False, width=None if Console().is_terminal else 240)
    grid = Grid("window", "op", box=None, pad_edge=False)
    seen = [name for name in (*LINKS, *FATES) if name in LINKS or any(w.counts[name] for w in found)]
    for name in (*seen, "late", "late by"):
        grid.add_column(name, justify="right")
    for w in found:
        counts = ["?" if (v := w.counts[name]) is None else str(v) for name in seen]
        late = w.late + w.too_late
        grid.add_row(f"{w.start:%Y-%m-%d %H:%M}", w.op, *counts, str(late), f"{w.late_by:.0f} s" if late else "")
    console.print(grid)
    for hop in judged:
        console.print(f"{'ok ' if hop.balanced else 'NOT'} {hop.name}: {hop.sentence()}")
