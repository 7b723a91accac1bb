"""Windowed results compared with SQL over the source, where the source's kind can be asked.

Silver is a moment behind, so a difference at one look says nothing. A result that differs at two looks, and at the source is the
same at both, is a difference: what the first look saw had from then on to come. Between the two lies the rhythm of the check.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cdc_assets import settings
from cdc_assets.durable_file import read_json, replace_json
from cdc_assets.kinds import kind_of
from cdc_assets.windowed.refine_windows import TableWindows
from spark.windowed.declared_windows import WindowedSpec

Figures = list[str | None]
Results = Mapping[str, Figures]
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
    return kind_of(windows.source).windows is not None and not windows.declared.event_time.startswith("_cdc_")


def compare_with_source(windows: TableWindows, lake: str) -> SourceComparison:
    """The results as they are, and what the source computes now.

    Raises:
        DatabaseError: the source cannot be asked, or has too many results.
    """
    spec = windows.spec(lake)
    there, here = _of_source(windows, spec), _of_lake(spec)
    suspects = {key: there.get(key) for key in {*there, *here} if not _is_same(there.get(key), here.get(key))}
    file = _file(windows)
    before = read_json(file) or {}
    differing = sorted(key for key, said in suspects.items() if key in before and _is_same(before[key], said))
    replace_json(file, suspects)
    return SourceComparison(len(there), tuple(differing), len(suspects) - len(differing))


def _file(windows: TableWindows) -> Path:
    return settings.home() / "windows" / f"{windows.source.name}.{windows.name}.json"


def _of_source(windows: TableWindows, spec: WindowedSpec) -> Results:
    part, source = kind_of(windows.source).windows, windows.source.captured
    assert part is not None, windows.source.kind_name
    assert source is not None, windows.source.kind_name
    found, keys = {}, len(spec.by)
    for row in part.load()(source.database, windows.table.id, spec):
        start = _EPOCH + dt.timedelta(microseconds=row[keys])
        found[_key((*row[:keys], start))] = [_text(value) for value in row[keys + 1 :]]
    return found


def _of_lake(spec: WindowedSpec) -> Results:
    from cdc_assets.resources.delta_dataset import open_dataset
    from spark.delta.delta_rs import is_delta, open_delta

    if not is_delta(spec.path):
        return {}
    names = [measure.name for measure in spec.measures]
    table = open_dataset(open_delta(spec.path), spec.path).to_table(columns=[*spec.keys, *names])
    return {_key([row[name] for name in spec.keys]): [_text(row[name]) for name in names] for row in table.to_pylist()}


def _is_same(one: Figures | None, other: Figures | None) -> bool:
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
