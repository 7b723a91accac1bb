"""Two writers of one bronze table, and one that goes on after a RESTORE."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets_tests.support.lake.bronze_writers import Meeting, offsets
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake

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
    assert [state.records for state in committed.topics.values()] == [6, 6]


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
