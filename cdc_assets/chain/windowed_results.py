"""One declaration of windows: its results follow silver, and are compared with one batch over the same rows, and with SQL
over the source where its kind can be asked.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cdc_assets.clients.kind_clients import clients_of
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_state import SourceState
from cdc_assets.registry.table_declaration import Table, WindowedResults
from spark.specs import JobResult
from spark.upkeep.declared_windows import WindowedSpec


@dataclass(frozen=True)
class TableWindows:
    """A declaration with its table."""

    source: BaseSource
    table: Table
    declared: WindowedResults

    @property
    def name(self) -> str:
        """In asset keys and paths."""
        return names.windows_name(self.table, self.declared.name)

    @property
    def key(self) -> tuple[str, ...]:
        """The asset of its results."""
        return names.asset_path("windows", self.source.name, self.name)

    def spec(self, lake: str) -> WindowedSpec:
        """What the job is told."""
        return self.declared.spec(
            source=self.source.name,
            table=names.table_name(self.table),
            silver_path=names.silver_path(lake, self.source, self.table),
            path=names.windows_path(lake, self.source, self.table, self.declared.name),
        )


def windows_of(source: BaseSource) -> list[TableWindows]:
    """All that the source declares, by table."""
    return [TableWindows(source, table, declared) for table in source.tables for declared in table.windows]


def refine(platform: Platform, windows: TableWindows) -> JobResult:
    """Bring the results up to silver."""
    from spark.upkeep import window_refinement as job

    with table_lock("windows", windows.source.name, windows.name):
        return platform.spark().run(job.refine_windows, windows.spec(platform.lake))


@dataclass(frozen=True)
class BatchComparison:
    """Of a table of results: how many there are, how many one batch makes otherwise; None: there is no table yet."""

    silver_version: int | None
    results: int
    differing: int


def compare_with_batch(platform: Platform, windows: TableWindows) -> BatchComparison:
    """The results and those of one batch over the version of silver that they are of."""
    from spark.upkeep import window_refinement as job

    with table_lock("windows", windows.source.name, windows.name):
        kept, results, differing = platform.spark().run(job.compare_with_batch, windows.spec(platform.lake))
    return BatchComparison(kept.silver_version if kept else None, results, differing)


def is_behind(lake: str, windows: TableWindows) -> bool:
    """Whether silver has a version that the results are not of; asks no Spark. Where the lake does not tell, they may be."""
    from spark.upkeep.window_results import versions_here

    spec = windows.spec(lake)
    versions = versions_here(spec)
    return versions is None or versions[0] != versions[1]


WindowFigures = list[str | None]
WindowResults = Mapping[str, WindowFigures]
"""Measures as texts, by a text of keys and start."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_ROUNDED, _PART = "~", 1e-9
"""What the text of a floating-point number begins with; two are the same within this part, as they may be added in any order."""


@dataclass(frozen=True)
class SourceComparison:
    """How many results the source has; keys that differ at two looks, and those that differ at this one alone."""

    results: int
    differing: tuple[str, ...]
    unconfirmed: int


def can_ask(windows: TableWindows) -> bool:
    """Whether the source's SQL can compute them: by a column of the table, in a kind that is asked."""
    return clients_of(windows.source.kind_name).windows is not None and not windows.declared.event_time.startswith("_cdc_")


def compare_with_source(windows: TableWindows, lake: str) -> SourceComparison:
    """The results as they are, and what the source computes now.

    Silver is a moment behind, so a difference at one look says nothing. A result that differs at two looks, and at the source
    is the same at both, is a difference: what the first look saw had from then on to come. Between the two lies the rhythm of
    the check.

    Raises:
        DatabaseError: the source cannot be asked, or has too many results.
    """
    spec = windows.spec(lake)
    there, here = _of_source(windows, spec), _of_lake(spec)
    suspects = {key: there.get(key) for key in {*there, *here} if not _is_same(there.get(key), here.get(key))}
    state = SourceState(windows.source.name, f"windows of {windows.name}")
    before = state.read() or {}
    differing = sorted(key for key, result in suspects.items() if key in before and _is_same(before[key], result))
    state.write(suspects)
    return SourceComparison(len(there), tuple(differing), len(suspects) - len(differing))


def _of_source(windows: TableWindows, spec: WindowedSpec) -> WindowResults:
    rows_at_source, source = clients_of(windows.source.kind_name).windows, windows.source.captured
    assert rows_at_source is not None, windows.source.kind_name
    assert source is not None, windows.source.kind_name
    results, keys = {}, len(spec.by)
    for row in rows_at_source(source.database, windows.table.id, spec):
        start = _EPOCH + dt.timedelta(microseconds=row[keys])
        results[_key((*row[:keys], start))] = [_text(value) for value in row[keys + 1 :]]
    return results


def _of_lake(spec: WindowedSpec) -> WindowResults:
    from cdc_assets.clients.delta_rows import open_dataset
    from spark.table.delta_rs import is_delta, open_delta

    if not is_delta(spec.path):
        return {}
    names = [measure.name for measure in spec.measures]
    table = open_dataset(open_delta(spec.path), spec.path).to_table(columns=[*spec.keys, *names])
    return {_key([row[name] for name in spec.keys]): [_text(row[name]) for name in names] for row in table.to_pylist()}


def _is_same(one: WindowFigures | None, other: WindowFigures | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(a == b or _is_near(a, b) for a, b in zip(one, other, strict=True))


def _is_near(one: str | None, other: str | None) -> bool:
    if one is None or other is None or not (one.startswith(_ROUNDED) and other.startswith(_ROUNDED)):
        return False
    return math.isclose(float(one[1:]), float(other[1:]), rel_tol=_PART)


def _key(values: Any) -> str:
    return " | ".join("NULL" if value is None else str(_text(value)) for value in values)


def _text(value: Any) -> str | None:
    """One text for one value, from whichever driver."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{_ROUNDED}{value!r}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}" if value else "0"
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    return str(value)
