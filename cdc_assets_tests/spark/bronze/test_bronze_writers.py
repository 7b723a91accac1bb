"""Two writers of one bronze table, and copies that an earlier version's writers left: whoever meets them takes them out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.opened_store import open_store
from cdc_assets.clients.platform import Platform
from cdc_assets_tests.support.lake.bronze_writers import Feed, Meeting, offsets
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.copies import plant_copies
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.lake.topics import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_two_writers_append_a_range_once(remote: str, session: SparkSession, tmp_path: Path) -> None:
    """Both were appended. And writers of different tables do not read Kafka again for each other."""
    lake = Meeting(session, tmp_path)
    for table in ("t", "u"):
        lake.put(table, *[Record(offset, None, f'{{"op":"c","n":{offset}}}') for offset in range(6)])
    lake.met.add(threading.get_ident())
    lake.append(lake.ranges("t", {0: 2}), lake.ranges("u", {0: 2}))

    told = lake.at_once((remote, lake.ranges("t", {0: 4})), (remote, lake.ranges("t", {0: 5})))
    assert {n for _, n in offsets(lake.bronze_path)} >= {2, 3}
    assert set(offsets(lake.bronze_path).values()) == {1}
    # Whoever came second begins anew: it reads what the first has left, if anything.
    assert sum(result.rows_inserted for result in told) == len(offsets(lake.bronze_path)) - 4
    lake.at_once((remote, lake.ranges("t", {0: 6})), (remote, lake.ranges("u", {0: 6})))
    assert lake.reads == {"t": 1, "u": 1}
    assert offsets(lake.bronze_path) == Counter((table, n) for table in "tu" for n in range(6))
    committed = bronze_committed(lake.bronze_path)
    assert committed is not None
    assert (committed.overlaps, [state.records for state in committed.topics.values()]) == ((), [6, 6])


def test_after_a_restore_the_log_goes_on(session: SparkSession, tmp_path: Path) -> None:
    """Delta keeps the numbers of transactions through a RESTORE, and leaves out a write with a number that it has seen."""
    lake = Lake(session, tmp_path)
    lake.put("t", *[Record(offset, None, f'{{"op":"c","n":{offset}}}') for offset in range(6)])
    for end in (2, 3, 4):
        lake.append(lake.ranges("t", {0: end}))
    session.sql(f"RESTORE delta.`{lake.bronze_path}` TO VERSION AS OF 0").collect()
    lake.append(lake.ranges("t", {0: 5}))
    lake.append(lake.ranges("t", {0: 6}))
    assert offsets(lake.bronze_path) == Counter(("t", n) for n in range(6))


@pytest.mark.all
def test_whoever_meets_copies_takes_them_out(remote: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without news they stayed: record_parity was red and silver blocked, and the backup ended: "bronze has offset 0 twice"."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(tmp_path / "lake"))
    feed = Feed(Broker(kafka), platform, tmp_path)
    doors: list[tuple[str, Callable[[], Any]]] = [
        ("silver", lambda: feed.run(feed.asset("silver"))),
        ("check", lambda: feed.run(feed.parity())),
        ("backup", lambda: feed.run(feed.asset("backup"))),
    ]
    for number, (name, door) in enumerate(doors, 1):
        feed.send(1, 2, number)
        feed.run(feed.asset("bronze"))
        assert plant_copies(feed.bronze) == 3
        told = door()
        assert told in ({}, {"record_parity": True}), name
        assert offsets(feed.bronze) == Counter(("t", n) for n in range(3 * number)), name
    table = {"source": "feeds", "table": "t", "bronze_path": feed.bronze}
    report = verify_backup(open_store(feed.store), **table, deep=True)
    assert (report.differences, report.records, report.behind) == ((), 9, 0)
    assert feed.run(feed.parity()) == {"record_parity": True}
