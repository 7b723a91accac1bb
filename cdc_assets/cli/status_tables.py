"""The tables of `cdc status`: a terminal of 80 columns shows every name, port and verdict; a wider one shows more of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cdc_assets.common_causes import Complaint, common_causes, first_and_more
from cdc_assets.quantity import quantity
from cdc_assets.shown_text import visible
from cdc_assets.volumetry.rows_compared import RowsCompared

_LAGS = ("mirror_lag", "bronze_lag", "silver_lag", "history_lag")
# Figures of the chain; what is wrong with it has a line of its own.
_APART = ("error", "verdicts", "rows_compared")
_UNBOUNDED = 10_000
"""Columns: more than any row takes."""


def print_components(console: Console, components: Sequence[Mapping[str, Any]], home: str) -> None:
    """One row for each; what its probe says below."""
    wide = _components(components, home, wide=True)
    console.print(wide if _fits(console, wide) else _components(components, home, wide=False))
    for c in components:
        if c["detail"]:
            console.print(visible(f"{c['name']}: {c['detail']}"), markup=False, soft_wrap=True)


def _components(components: Sequence[Mapping[str, Any]], home: str, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("component", "health", "pid", "address", "memory", *(("restarts", "for", "log") if wide else ())):
        table.add_column(column, no_wrap=True, overflow="fold")
    for c in components:
        memory = f"{c['rss_bytes'] / 2**20:.0f} MB" if c["rss_bytes"] else ""
        colour = "green" if c["health"] == "healthy" else "red"
        again = f", {quantity(c['restarts'], 'restart')}" if c["restarts"] and not wide else ""
        row = [c["name"], f"[{colour}]{c['health']}{again}[/]", str(c["pid"] or ""), c["address"], memory]
        if wide:
            since = f"{time.time() - c['since']:.0f} s" if c["since"] else ""
            row += [str(c["restarts"]), since, c["log"].removeprefix(home + "/")]
        table.add_row(*row)
    return table


def print_chains(console: Console, tables: Sequence[Mapping[str, Any]]) -> None:
    """One row for each table; errors below, one line for all that have the same."""
    if not tables:
        return
    wide = _all_figures(tables)
    console.print(wide if _fits(console, wide) else _few_figures(tables))
    told = [Complaint(f"{row['source']}/{row['table']}", row["table"], row["error"]) for row in tables if row["error"]]
    for same in common_causes(told):
        console.print(visible(f"{first_and_more(same)}: {same[0].text}"), markup=False, soft_wrap=True)


def _all_figures(tables: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = [name for name in tables[0] if name not in _APART]
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in tables:
        table.add_row(*("" if row[name] is None else str(row[name]) for name in columns if name != "checks"), _checks(row))
    return table


def _few_figures(tables: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("table", no_wrap=True, overflow="fold")
    for column in ("behind", "rows", "checks"):
        table.add_column(column)
    for row in tables:
        behind = ", ".join(f"{name.removesuffix('_lag')} {row[name]}" for name in _LAGS if row.get(name))
        rows = "" if row["silver_rows"] is None else f"{row['silver_rows']:,}"
        table.add_row(f"{row['source']}/{row['table']}", behind or "-", rows, _checks(row))
    return table


def _fits(console: Console, table: Table) -> bool:
    """Whether nothing of it would be cut off."""
    return console.measure(table, options=console.options.update(width=_UNBOUNDED)).maximum <= console.width


def _checks(row: Mapping[str, Any]) -> str:
    told, compared = escape(visible(row["checks"])), row.get("rows_compared")
    is_fresh = compared is not None and not RowsCompared(**compared).is_long_ago(time.time())
    colour = "red" if "failed" in told else "green" if told.startswith("pass") and is_fresh else "yellow"
    return f"[{colour}]{told}[/]"
