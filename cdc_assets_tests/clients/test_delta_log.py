"""What a Delta log tells of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from cdc_assets.clients.delta_log import bronze_rows, version_after
from cdc_assets_tests.support.delta_logs import write_silver
from spark.specs import JobResult

IDLE = JobResult("silver", "orders", None, 0, 0, 0, 0, {}, {}, 0.1)


def test_a_run_without_a_commit_is_behind_the_newest_version(tmp_path: Path) -> None:
    path = tmp_path / "silver"
    assert version_after(str(path), IDLE) == -1
    for _ in range(3):
        write_silver(path, "shop.orders", "orders", "id", 2)
    assert version_after(str(path), IDLE) == DeltaTable(str(path)).version() == 2
    assert version_after(str(path), replace(IDLE, version=1)) == 1


def test_rows_of_an_epoch_are_those_that_say_so(tmp_path: Path) -> None:
    """A tombstone has no position, in whichever epoch it is."""
    positions = ["0000.1", "0000.2", None, "0001.1", "0001.2", None]
    columns = {"topic": ["t"] * 6, "partition": pa.array([0] * 6, pa.int32()), "position": positions}
    columns["epoch"] = pa.array([0, 0, 0, 1, 1, 1], pa.int32())
    write_deltalake(str(tmp_path / "bronze"), pa.table(columns))
    assert bronze_rows(str(tmp_path / "bronze"), 0, {}) == {("t", 0): 6}
    assert bronze_rows(str(tmp_path / "bronze"), 0, {"t": 1}) == {("t", 0): 3}
    assert bronze_rows(str(tmp_path / "bronze"), 0, {"another": 1}) == {("t", 0): 6}
