"""Which changes a snapshot of the source hides: in progress, later, old ids that look new, ids that have wrapped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from cdc_assets.proof.comparison_result import difference_of
from cdc_assets_tests.support.lake.capture import Connector, Database
from cdc_assets_tests.support.lake.compared import task_of
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.quarantined import NARROW
from spark.proof.bucket_sums import key_hashes, suspects
from spark.proof.snapshot_cut import Cut
from spark.values.sql_dialects import BUCKETS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE, AFTER = 0x1000, 0x2000
WRAPPED = 2**32


def hidden(session: SparkSession, cut: Cut, *changes: tuple[str | None, int, str]) -> list[bool]:
    rows = [(i, tx, f"0000.{lsn:016x}.1.{lsn:016x}.{i:016x}", op) for i, (tx, lsn, op) in enumerate(changes)]
    frame = session.createDataFrame(rows, "n int, tx string, position string, op string")
    told = frame.select("n", cut.hides(sf.col("tx"), sf.col("position"), sf.col("op")).alias("hidden"))
    return [r.hidden for r in sorted(told.collect())]


@pytest.mark.parametrize("turn", [0, 3])
def test_what_a_snapshot_hides(session: SparkSession, turn: int) -> None:
    cut = Cut(turn * WRAPPED + 110, frozenset({turn * WRAPPED + 103, turn * WRAPPED + 107}), BEFORE + 1)
    assert hidden(
        session,
        cut,
        ("99", BEFORE, "u"),
        ("102", AFTER, "u"),  # committed before, however late it was written
        ("103", BEFORE, "u"),  # in progress, although its change lies below the cut
        ("107", AFTER, "d"),
        ("109", AFTER, "c"),
        ("110", AFTER, "c"),
        ("110", BEFORE, "c"),  # of an earlier round of ids: nothing that got its id after the snapshot is down there
        ("4294967290", AFTER, "u"),  # from before the wrap
        ("200", AFTER, "r"),  # rows of a snapshot are decided by what lies before them
        (None, AFTER, "u"),
    ) == [False, False, True, True, False, True, False, False, False, False]


def test_silver_that_is_ahead_of_the_cut(session: SparkSession, tmp_path: Path) -> None:
    """A commit that the lake has seen and the snapshot has not, as with synchronous replication: bronze speaks for its keys."""
    lake, database = Lake(session, tmp_path), Database()
    connector = Connector(database)
    for key in range(1, 6):
        database.write(1, "insert", key)
    database.commit(1)
    expected = {key: row["v"] for key, row in database.rows.items()}
    number = database.serial + 1
    for op, key, other in (("update", 1, 0), ("delete", 2, 0), ("insert", 9, 0), ("move", 3, 8)):
        database.write(2, op, key, other)
    database.commit(2)
    connector.stream()
    lake.put("t", *connector.records)
    lake.append(lake.all_of("t"))
    spec = lake.spec("t")
    lake.fold(spec)
    assert {row["id"]: row["v"] for row in values(spec.path)} == {k: r["v"] for k, r in database.rows.items()} != expected
    task = task_of(lake, spec, Cut(number + 10, frozenset({number}), 1 << 40))

    found = key_hashes(session, task, range(BUCKETS))
    # Of a deleted row silver has nothing left that could be seen to be hidden: 2 and 3 are suspects.
    assert {key for key, _ in found} == {"1;", "4;", "5;"}
    told = suspects(session, task, [f"{key};" for key in (1, 2, 3, 8, 9)])
    assert {key: s.hides for key, s in told.items()} == dict.fromkeys(told, True)
    rows = {key: s.bronze["v"] if s.bronze else None for key, s in told.items()}
    assert rows == {**{f"{k};": v for k, v in expected.items() if k <= 3}, "8;": None, "9;": None}
    assert ("1;", told["1;"].bronze_hash) in found


def test_a_key_whose_newest_event_is_in_quarantine_is_told_of_it(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put(
        "t",
        event(0, {"id": 1, "n": 1}),
        event(1, {"id": 1, "n": 70000}, op="u"),
        event(2, {"id": 2, "n": 70000}),
        event(3, {"id": 3, "n": 70000}),
        event(4, {"id": 3, "n": 3}, op="u"),
        event(5, {"id": 4, "n": 4}),
    )
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", NARROW)
    lake.fold(spec)
    task = task_of(lake, spec, Cut(1000, frozenset(), 1 << 40))
    told = suspects(session, task, [f"{key};" for key in (1, 2, 3, 4, 5)])
    assert {key: s.set_aside for key, s in told.items()} == {"1;": True, "2;": True, "3;": False, "4;": False, "5;": False}
    where = {key: difference_of(key, {"id": key, "n": "70000"}, s, s.silver, s.copies).where for key, s in told.items()}
    assert where == {
        **dict.fromkeys(("1;", "2;"), "quarantine"),
        **dict.fromkeys(("3;", "4;", "5;"), "bronze or before it"),
    }
