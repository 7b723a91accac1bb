"""The ledger of one table as a PNG: events per window by op, lag per hop, late events. Needs the group `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from cdc_assets.proof.event_ledger import WINDOWS, WindowCount
from cdc_assets.registry.errors import SettingError
from spark.proof.ledger_contract import HOPS

_OPS = {"c": "create", "u": "update", "d": "delete", "r": "snapshot", "t": "truncate", "m": "message"}
_COLOURS = {
    "c": "#2a9d8f",
    "u": "#457b9d",
    "d": "#e76f51",
    "r": "#8d99ae",
    "t": "#6d597a",
    "m": "#b5838d",
    "tombstone": "#ddb892",
}
_MARGINS = {"left": 0.11, "right": 0.985, "bottom": 0.06, "top": 0.94, "hspace": 0.1}
_HOP_NAMES = {"capture": "source to Kafka", "bronze": "Kafka to bronze", "silver": "bronze to silver"}


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def png(windows: Sequence[WindowCount], *, title: str, window: str, width: float = 10.0, dpi: int = 100) -> bytes:
    """One picture of the given windows; times are UTC. Raises SettingError: matplotlib is not installed."""
    if not can_plot():
        raise SettingError("plots need matplotlib, which is not installed: ./cdc up installs it, or pip install matplotlib")
    # Without pyplot: no global state, no display, and half of the import time.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, width * 0.75))
    counts, lags, late = figure.subplots(3, 1, sharex=True)
    # A layout that is worked out draws all of it twice: half of the time.
    figure.subplots_adjust(**_MARGINS)
    counts.set_title(title, loc="left", fontsize=10)
    size = WINDOWS[window]
    _counts(counts, windows, size)
    _lags(lags, windows, size)
    _late(late, windows, size)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=dpi)
    return _small(out.getvalue())


def _counts(axes: Any, windows: Sequence[WindowCount], size: timedelta) -> None:
    starts = sorted({w.start for w in windows})
    below = dict.fromkeys(starts, 0)
    for op in sorted({w.op for w in windows}, key=lambda op: list(_COLOURS).index(op) if op in _COLOURS else 99):
        counts = {w.start: w.counts["bronze"] or 0 for w in windows if w.op == op}
        heights = [counts.get(start, 0) for start in starts]
        bars = _Bars(starts, size, heights, [below[s] for s in starts])
        _bars(axes, bars, color=_COLOURS.get(op, "#333333"), label=_OPS.get(op, op))
        for start, height in zip(starts, heights, strict=True):
            below[start] += height
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_ylabel("events")
    _legend(axes)


def _lags(axes: Any, windows: Sequence[WindowCount], size: timedelta) -> None:
    for hop in HOPS:
        worst: dict[Any, float] = {}
        for counted in windows:
            if hop in counted.lag:
                worst[counted.start] = max(worst.get(counted.start, 0.0), counted.lag[hop][1])
        if worst:
            starts = sorted(worst)
            # A lag below a millisecond is none, and a logarithm needs some.
            values = [max(worst[s], 0.001) for s in starts]
            axes.plot([s + size / 2 for s in starts], values, marker=".", label=_HOP_NAMES[hop])
    axes.set_yscale("log")
    axes.set_ylabel("longest lag (s)")
    _legend(axes)


def _late(axes: Any, windows: Sequence[WindowCount], size: timedelta) -> None:
    starts = sorted({w.start for w in windows})
    sums: dict[Any, tuple[int, int]] = {}
    for counted in windows:
        late, too_late = sums.get(counted.start, (0, 0))
        sums[counted.start] = (late + counted.late, too_late + counted.too_late)
    within, beyond = [sums[s][0] for s in starts], [sums[s][1] for s in starts]
    _bars(axes, _Bars(starts, size, within, [0] * len(starts)), color="#e9c46a", label="late")
    _bars(axes, _Bars(starts, size, beyond, within), color="#c1121f", label="later than allowed")
    axes.set_ylabel("late events")
    axes.set_ylim(bottom=0, top=max([1, *map(sum, sums.values())]) * 1.1)
    axes.tick_params(axis="x", labelsize=8)
    _legend(axes)


@dataclass(frozen=True)
class _Bars:
    """A bar for each window, which stands on the one before it."""

    starts: Sequence[datetime]
    size: timedelta
    heights: Sequence[int]
    below: Sequence[int]


def _bars(axes: Any, bars: _Bars, *, color: str, label: str) -> None:
    """As Axes.bar draws them, in one piece: piece by piece a day of minutes took three seconds."""
    from matplotlib.collections import PolyCollection
    from matplotlib.dates import date2num

    places = zip(date2num(bars.starts), bars.below, bars.heights, strict=True)
    wide = bars.size * 0.9 / timedelta(days=1)
    corners = [[(x, y), (x, y + high), (x + wide, y + high), (x + wide, y)] for x, y, high in places]
    # Snapped: a bar of less than a pixel is one, in its own colour.
    axes.add_collection(PolyCollection(corners, linewidth=0, snap=True, color=color, label=label))
    axes.xaxis_date()
    axes.autoscale_view()


def _legend(axes: Any) -> None:
    axes.grid(axis="y", linewidth=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, loc="upper left", ncols=4)


def _small(data: bytes) -> bytes:
    """With a palette of 64 colours: a third of the bytes, which in metadata are stored with every materialization.

    Chosen by how much of the colours they cover: by how often they are seen, the red of one late event became orange.
    """
    from PIL import Image

    out = BytesIO()
    Image.open(BytesIO(data)).convert("RGB").quantize(64, method=Image.Quantize.MAXCOVERAGE).save(
        out, format="PNG", optimize=True
    )
    return out.getvalue()
