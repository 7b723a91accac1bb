"""The ledger of one table as windows, read from its Delta files alone: no Spark, no Kafka, no source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import ledger_counted, open_table
from spark.ledger.ledger_commits import Counted
from spark.ledger.terms import FATES, HOPS, LATE, LINKS, TOO_LATE

FEW_ROWS = 200_000
"""Of some 30 numbers each: 50 MB."""
WINDOWS = {"1m": timedelta(minutes=1), "1h": timedelta(hours=1), "1d": timedelta(days=1)}


@dataclass
class WindowCount:
    """One window and op. `topic` and `mirror` are None where they could not be counted.

    `late` and `too_late` are how many of the records came by a late pane; `late_by` is the greatest time (seconds) between
    the window's end and the record's arrival in Kafka. `lag` is mean and maximum (seconds) per hop.
    """

    start: datetime
    op: str
    counts: dict[str, int | None]
    late: int = 0
    too_late: int = 0
    late_by: float = 0.0
    lag: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def fates(self) -> int:
        """Records with a fate that we can name."""
        return sum(self.counts[name] or 0 for name in FATES if name != "unaccounted")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one window and operation."""
        lag = {hop: {"mean_seconds": round(mean, 3), "max_seconds": top} for hop, (mean, top) in self.lag.items()}
        late = {"late": self.late, "too_late": self.too_late, "late_by_seconds": self.late_by}
        return {"window_start": self.start.isoformat(), "op": self.op, **self.counts, **late, "lag": lag}


class SourceLedger:
    """The ledger of a source as it is when it is first asked: its log is read once, and so are its rows while they are few."""

    def __init__(self, lake: str, source: BaseSource) -> None:
        self._path = names.ledger_path(lake, source)
        self.places = places(lake, source)

    def place(self, table: Table) -> Counted | None:
        """Up to where the table is counted; None where nothing is."""
        return self.places.get(names.table_name(table))

    def windows(self, table: Table, *, window: str = "1m", since: datetime | None = None) -> list[WindowCount]:
        """The table's windows in order; `window` is 1m, 1h or 1d (UTC)."""
        import pyarrow.dataset as ds

        if self._dataset is None:
            return []
        wanted = ds.field("table") == names.table_name(table)
        if since is not None:
            wanted &= ds.field("window_start") >= since
        panes = self._dataset.to_table(filter=wanted) if self._rows is None else self._rows.filter(wanted)
        place = self.place(table)
        return windows(panes, WINDOWS[window], is_counted=place is not None and not place.uncounted)

    @cached_property
    def _dataset(self) -> Any:
        opened = open_table(self._path)
        return None if opened is None else open_dataset(opened, self._path)

    @cached_property
    def _rows(self) -> Any:
        """All of them, where that is less than to look through the files for each table."""
        return self._dataset.to_table() if self._dataset.count_rows() <= FEW_ROWS else None


def read_windows(
    lake: str, source: BaseSource, table: Table, *, window: str = "1m", since: datetime | None = None
) -> list[WindowCount]:
    """The windows of one table in order; `window` is 1m, 1h or 1d (UTC)."""
    return SourceLedger(lake, source).windows(table, window=window, since=since)


def windows(panes: Any, size: timedelta, *, is_counted: bool = True) -> list[WindowCount]:
    """Panes (an Arrow table of the ledger's columns) summed to windows of this size.

    `is_counted`: the topics are, by now; a pane that does not tell them is of before, and a later one has told its window.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = int(size.total_seconds() * 1_000_000)
    started = pc.cast(panes["window_start"], pa.timestamp("us", "UTC")).cast(pa.int64())
    window = pc.multiply(pc.divide(started, micros), micros)
    for kind in (LATE, TOO_LATE):
        panes = panes.append_column(f"{kind}_records", pc.if_else(pc.equal(panes["pane"], kind), panes["bronze"], 0))
    panes = panes.append_column("window", window)
    sums = [*FATES, *LINKS, f"{LATE}_records", f"{TOO_LATE}_records", *[f"{h}_{p}" for h in HOPS for p in ("n", "ms_sum")]]
    maxima = ["late_by_ms_max", *[f"{h}_ms_max" for h in HOPS]]
    keep_null = pc.ScalarAggregateOptions(skip_nulls=is_counted, min_count=1)
    asked = [(n, "sum", keep_null if n in LINKS else None) for n in sums] + [(n, "max", None) for n in maxima]
    grouped = panes.group_by(["window", "op"]).aggregate(asked)
    return sorted((_window(row) for row in grouped.to_pylist()), key=lambda w: (w.start, w.op))


def _window(row: Mapping[str, Any]) -> WindowCount:
    lag = {}
    for hop in HOPS:
        if row[f"{hop}_n_sum"]:
            lag[hop] = (row[f"{hop}_ms_sum_sum"] / row[f"{hop}_n_sum"] / 1000, (row[f"{hop}_ms_max_max"] or 0) / 1000)
    return WindowCount(
        start=datetime.fromtimestamp(row["window"] / 1_000_000, timezone.utc),
        op=row["op"],
        counts={name: row[f"{name}_sum"] for name in (*LINKS, *FATES)},
        late=row[f"{LATE}_records_sum"],
        too_late=row[f"{TOO_LATE}_records_sum"],
        late_by=(row["late_by_ms_max_max"] or 0) / 1000,
        lag=lag,
    )


def windows_before_watermark(found: Sequence[WindowCount], place: Counted, window: str) -> list[WindowCount]:
    """The windows that the table's watermark has passed."""
    passed = datetime.fromtimestamp(place.watermark / 1_000_000, timezone.utc)
    return [w for w in found if w.start + WINDOWS[window] <= passed]


def total(found: Sequence[WindowCount]) -> dict[str, int | None]:
    """All windows as one."""
    sums: dict[str, int | None] = {}
    for name in (*LINKS, *FATES):
        values = [w.counts[name] for w in found]
        sums[name] = None if None in values else sum(v or 0 for v in values)
    return sums


def places(lake: str, source: BaseSource) -> dict[str, Counted]:
    """Each table's place in the ledger, by short name; a table of which nothing has been counted is left out."""
    return ledger_counted(names.ledger_path(lake, source))
