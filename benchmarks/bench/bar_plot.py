"""The figures in seconds as bars, in SVG: a panel for each scenario, scaled by its slowest, a line where the target is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.bench.figures import OURS

Row = Mapping[str, Any]
_WIDTH, _LEFT, _BARS = 900, 250, 520
_LINE, _TITLE, _GAP, _TOP = 20, 24, 14, 34
_COLOURS = ("#1f6feb", "#d29922", "#cf222e", "#2da44e", "#8250df", "#6e7781")
_TEXT, _TARGET = "#24292f", "#24292f"


def bar_plot(rows: Sequence[Row]) -> str:
    """An SVG document; figures in other units have no bar."""
    panels: dict[str, list[Row]] = {}
    for row in rows:
        if row["unit"] == "s":
            panels.setdefault(row["scenario"], []).append(row)
    systems = sorted({row["system"] for panel in panels.values() for row in panel}, key=lambda name: (name != OURS, name))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(systems)}
    parts, at = [_text(10, 20, "Seconds, median of the runs; | is the figure to reach", weight="bold")], _TOP
    for scenario, panel in panels.items():
        parts.append(_text(10, at + 16, scenario, weight="bold"))
        at += _TITLE
        most = max([row["median_s"] for row in panel] + [row["target"] or 0.0 for row in panel]) or 1.0
        for row in panel:
            parts += _bar(row, at, _BARS / most, colours[row["system"]])
            at += _LINE
        at += _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{at}" viewBox="0 0 {_WIDTH} {at}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _bar(row: Row, at: int, scale: float, colour: str) -> list[str]:
    wide = max(1.0, row["median_s"] * scale)
    found = [
        _text(_LEFT - 8, at + 13, row["system"], anchor="end"),
        f'<rect x="{_LEFT}" y="{at + 2}" width="{wide:.1f}" height="{_LINE - 6}" fill="{colour}"/>',
        _text(_LEFT + wide + 6, at + 13, f"{row['median_s']:g}"),
    ]
    if row["target"] is not None:
        x = _LEFT + row["target"] * scale
        found.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{at}" y2="{at + _LINE - 2}" stroke="{_TARGET}" stroke-width="2"/>')
    return found


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {place} fill="{_TEXT}">{escape(text)}</text>'
