"""When a result that differs from the source's counts: at the second look, and only where the source stood still."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_assets.chain import windowed_results
from cdc_assets.chain.windowed_results import TableWindows, compare_with_source, windows_of
from cdc_assets.registry.source_declaration import Source

DECLARED: dict[str, Any] = {
    "source": "shop",
    "database": {"kind": "postgresql", "host": "db", "dbname": "shop", "user": "u", "password": {"secret": "s"}},
    "tables": [
        {
            "name": "public.orders",
            "windows": [
                {
                    **{"name": "w", "event_time": "at", "size": "1m", "by": ["city"]},
                    "measures": {"n": "count", "total": "sum total", "weight": "sum weight"},
                }
            ],
        }
    ],
}
Row = tuple[str | None, int, int, Decimal | None, float | None]
SAME: list[Row] = [("a", 0, 1, Decimal("1.50"), 0.1), (None, 60, 2, None, None)]


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableWindows:
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    (found,) = windows_of(Source.model_validate(DECLARED))
    return found


def look(windows: TableWindows, lake: Path, there: list[Row], here: list[Row], monkeypatch: pytest.MonkeyPatch) -> Any:
    """One look; `there` is what the source says, with starts in seconds, `here` what the lake has."""
    start = [dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=row[1]) for row in here]
    columns: dict[str, Any] = {
        "city": pa.array([row[0] for row in here], pa.string()),
        "window_start": pa.array(start, pa.timestamp("us", tz="UTC")),
        "n": pa.array([row[2] for row in here], pa.int64()),
        "total": pa.array([row[3] for row in here], pa.decimal128(38, 2)),
        "weight": pa.array([row[4] for row in here], pa.float64()),
    }
    write_deltalake(windows.spec(str(lake)).path, pa.table(columns), mode="overwrite")

    class Clients:
        @staticmethod
        def windows(database: Any, table: Any, spec: Any) -> list[Any]:
            return [(row[0], row[1] * 1_000_000, *row[2:]) for row in there]

    monkeypatch.setattr(windowed_results, "clients_of", lambda kind_name: Clients)
    found = compare_with_source(windows, str(lake))
    return found.results, found.differing, found.unconfirmed


def test_a_difference_is_one_at_two_looks(windows: TableWindows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(there: list[Row], here: list[Row]) -> Any:
        return look(windows, tmp_path / "lake", there, here, monkeypatch)

    assert of(SAME, SAME) == (2, (), 0)
    behind: list[Row] = [("a", 0, 2, Decimal("2.50"), 0.2), *SAME[1:]]
    assert of(behind, SAME) == (2, (), 1)
    # The source went on: what the lake has now may be on its way as well.
    further: list[Row] = [("a", 0, 3, Decimal("2.50"), 0.2), *SAME[1:]]
    assert of(further, behind) == (2, (), 1)
    assert of(further, behind) == (2, ("a | 1970-01-01T00:00:00",), 0)
    assert of(further, further) == (2, (), 0)
    assert of(further, behind) == (2, (), 1)


def test_results_of_one_side_alone_differ(windows: TableWindows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for confirmed in (False, True):
        found = look(windows, tmp_path / "lake", SAME[:1], SAME[1:], monkeypatch)
        keys = ("NULL | 1970-01-01T00:01:00", "a | 1970-01-01T00:00:00")
        assert found == (1, keys if confirmed else (), 0 if confirmed else 2)


def test_floating_point_numbers_may_be_added_in_any_order(
    windows: TableWindows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near: list[Row] = [("a", 0, 1, Decimal("1.5"), 0.1 + 1e-17), *SAME[1:]]
    assert look(windows, tmp_path / "lake", near, SAME, monkeypatch) == (2, (), 0)
    # Decimals are exact, however large they are.
    large: list[Row] = [("a", 0, 1, Decimal("100000000000000000.01"), 0.1)]
    other: list[Row] = [("a", 0, 1, Decimal("100000000000000000.02"), 0.1)]
    assert look(windows, tmp_path / "lake", large, other, monkeypatch) == (1, (), 1)
