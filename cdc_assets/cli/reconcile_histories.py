"""The histories (SCD2) in `cdc reconcile`: proven beside silver's rows, put right with --heal, and shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from cdc_assets import names
from cdc_assets.errors import ON_PURPOSE
from cdc_assets.quantity import quantity
from cdc_assets.reconcile import histories
from cdc_assets.reconcile.history_result import HISTORY, HistoryResult
from cdc_assets.reconcile.slices import Share
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.shown_text import visible


def prove_histories(
    platform: Platform, source: BaseSource, tables: Sequence[Table], *, part: Share, timeout: float, mend: bool
) -> dict[str, HistoryResult]:
    """By short name of the tables that have one; with `mend` those that are wrong are folded again, and proven again."""
    found = {}
    for table in tables:
        if not histories.has_history(table):
            continue
        result = histories.prove(platform, source, table, part=part, timeout=timeout)
        if mend and any(d.where == HISTORY for d in result.differences):
            result = _heal_and_prove(platform, source, table, result, part, timeout)
        found[names.table_name(table)] = result
    return found


def _heal_and_prove(
    platform: Platform, source: BaseSource, table: Table, result: HistoryResult, part: Share, timeout: float
) -> HistoryResult:
    try:
        keys = histories.heal(platform, source, table)
    except ON_PURPOSE as error:
        print(f"{result.table}: its history is not healed: {error}", file=sys.stderr)
        return replace(result, healed=0)
    print(f"{result.table}: {quantity(keys, 'key')} of its history folded again from bronze", file=sys.stderr)
    return replace(histories.prove(platform, source, table, part=part, timeout=timeout), healed=keys)


def print_history(console: Console, result: HistoryResult, *, colour: str, shown: int) -> None:
    """One line, and a row for each key that is wrong."""
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in result.seconds.items())
    line = Text(f"{result.table} history", style=colour)
    console.print(
        line.append(f": {visible(result.sentence())}" + (f" ({seconds})" if seconds else ""), style="default"), soft_wrap=True
    )
    for name, why in result.not_compared.items():
        console.print(visible(f"  not compared: {name}: {why}"), markup=False, soft_wrap=True)
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
