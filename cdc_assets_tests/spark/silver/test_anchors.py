"""What is delivered again behind a later snapshot stays below it, however the log is cut: changes without a last commit, and the
rows of an earlier snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Connector, Database
from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.lake import Lake, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.all
@pytest.mark.parametrize("begin", [pytest.param(3, id="changes"), pytest.param(0, id="snapshot and changes")])
@pytest.mark.parametrize("cut", [False, True])
def test_a_stretch_again_behind_the_next_snapshot(session: SparkSession, tmp_path: Path, cut: bool, begin: int) -> None:
    database = Database()
    connector = Connector(database)
    for key in (1, 2, 3):
        database.write(0, "insert", key)
    database.commit(0)
    # Open at the snapshot, below its place in the log, and the first that is streamed behind it.
    database.write(1, "update", 1)
    database.write(1, "delete", 2)
    database.write(1, "insert", 4)
    connector.snapshot()
    database.commit(1)
    database.write(0, "delete", 3)
    database.commit(0)
    connector.stream()
    for op, key in (("update", 1), ("insert", 2), ("delete", 4)):
        database.write(0, op, key)
    database.commit(0)
    connector.snapshot()
    first = list(connector.records)
    for record in first[begin:]:
        connector._append(record.key, record.value)
    lake = Lake(session, tmp_path)
    lake.put("t", *connector.records)
    ends = [first[-1].offset + 1] if cut else []
    for end in (*ends, connector.next_offset):
        lake.append(lake.ranges("t", {0: end}))
        lake.fold(lake.spec("t"))
    found = sorted((row["id"], row["v"]) for row in values(lake.spec("t").path))
    assert found == sorted((row["id"], row["v"]) for row in database.rows.values())
    (state,) = committed(lake.bronze_path).topics.values()
    assert len(state.openings[0]) == 2  # One before any snapshot, one behind the first.
