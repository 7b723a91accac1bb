"""SCD2: the versions of rows, written down by hand, whatever order their events come in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.versions import COLUMNS, place, sent
from spark.silver import history_job as history
from spark.silver import history_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# place in the source's log, key, v, note, op
EVENTS: list[tuple[int, int, str | None, str | None, str]] = [
    (0, 1, "a", "x", "c"),
    (1, 1, "b", GAP, "u"),  # The note is unchanged.
    (2, 2, "a", None, "c"),
    (3, 1, "b", "y", "u"),  # Only the note.
    (4, 1, None, None, "d"),
    (5, 1, "c", "x", "c"),
    (6, 3, "t", None, "c"),
    (7, 0, None, None, "t"),
    (8, 3, "u", None, "c"),
]
VERSIONS = {
    (1, "a", "x", 0, 1),
    (1, "b", "x", 1, 3),
    (1, "b", "y", 3, 4),
    (1, "c", "x", 5, 7),
    (2, "a", None, 2, 7),
    (3, "t", None, 6, 7),
    (3, "u", None, 8, None),
}
OF_V = (VERSIONS - {(1, "b", "x", 1, 3), (1, "b", "y", 3, 4)}) | {(1, "b", "y", 1, 4)}


def versions(path: str) -> list[tuple[Any, ...]]:
    found = rows(path)
    assert all(row["_is_current"] == (row["_valid_to"] is None) for row in found)
    return [(row["id"], row["v"], row["note"], place(row["_valid_from"]), place(row["_valid_to"])) for row in found]


def test_as_of_a_position_or_a_time(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", *[sent(offset, *one) for offset, one in enumerate(EVENTS)])
    lake.append(lake.all_of("t"))
    spec = replace(lake.spec("t", COLUMNS), path=str(tmp_path / "history"))
    history.run(session, spec)
    positions = {r["offset"]: (r["position"], r["source_ts"]) for r in rows(lake.bronze_path)}
    for offset, (at, *_) in enumerate(EVENTS):
        found = {(r.id, r.v, r.note) for r in history_versions.rows_at(session, spec.path, positions[offset][0]).collect()}
        assert found == {(k, v, n) for k, v, n, begin, end in VERSIONS if begin <= at and (end is None or end > at)}
    assert history_versions.rows_at(session, spec.path, None).isEmpty()
    newest = positions[len(EVENTS) - 1]
    assert history_versions.position_at(session, lake.bronze_path, "t", newest[1]) == newest[0]
    assert history_versions.position_at(session, lake.bronze_path, "t", newest[1] - timedelta(seconds=1)) is None


def test_versions(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    whole = replace(lake.spec("t", COLUMNS), path=str(tmp_path / "history"))
    tracked = replace(whole, path=str(tmp_path / "tracked"), track_history=("v",))
    offset = 0
    # Late: 1 splits a version, 4 closes one, 7 ends what was there before it came.
    for batch in ([0, 3, 5, 6], [8, 1, 2], [4, 7]):
        for number in batch:
            lake.put("t", sent(offset, *EVENTS[number]))
            offset += 1
        lake.append(lake.all_of("t"))
        history.run(session, whole)
    history.run(session, tracked)
    assert sorted(versions(whole.path), key=str) == sorted(VERSIONS, key=str)
    assert sorted(versions(tracked.path), key=str) == sorted(OF_V, key=str)
    assert history.run(session, whole).version is None
