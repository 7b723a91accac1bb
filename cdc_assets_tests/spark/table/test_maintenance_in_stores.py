"""Maintenance of tables in the stack's S3 and GCS endpoints: as on a disk, under the lease that Spark and tasks hold there."""

from __future__ import annotations

import pytest

from cdc_assets_tests.support.lake.large_table import LargeTable
from spark.silver import task_merge
from spark.table import write_lease
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder
from spark.upkeep import file_rewrite
from spark.upkeep import table_maintenance as steps
from spark.upkeep.maintenance_spec import MaintenanceSpec


@pytest.fixture
def table(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> LargeTable:
    """With vectors, as Spark makes them; few files are many, few commits a long log."""
    monkeypatch.setattr(file_rewrite, "MOST_SMALL", 3)
    monkeypatch.setattr(steps, "CHECKPOINT_FROM", 4)
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)
    return LargeTable(object_lake, 5, keys=("a",))


def spec_of(path: str) -> MaintenanceSpec:
    return MaintenanceSpec(path, time_travel=0.0, work_seconds=-3600.0)


def test_a_table_reads_the_same(table: LargeTable) -> None:
    path = table.spec.path
    for _ in range(2):
        for number in range(8):
            table.change(late=number % 3 == 2)
        planned = steps.plan_table(spec_of(path))
        assert planned.rewrite_files > 1
        done = steps.maintain(spec_of(path))
        assert done.given_up == {}
        assert (done.checkpoint, done.files_rewritten) == (True, planned.rewrite_files)
        table.check()
    done = steps.maintain(spec_of(path))
    table.check()
    assert done.after is not None
    assert (done.after.dead_rows, done.after.rows) == (0, len(table.rows))
    held = {file.name for file in open_folder(path).tree()}
    assert {name for name in held if name.endswith((".parquet", ".bin"))} == _live_files(path)
    assert len(table_of(path).commits(None) or []) <= steps.CHECKPOINT_FROM + 3
    table.change()
    table.check()


def test_a_writer_comes_first(table: LargeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(6):
        table.change()
    monkeypatch.setattr(file_rewrite, "LEASE_SECONDS", 0.2)
    with write_lease.hold(table.spec.path, write_lease.SPARK, seconds=5.0):
        done = steps.maintain(spec_of(table.spec.path))
    assert "is being written by spark" in done.given_up["rewrite"]
    assert "is being written by spark" in done.given_up["checkpoint"]
    assert done.files_rewritten == 0
    table.check()
    assert steps.maintain(spec_of(table.spec.path)).given_up == {}
    table.check()


def _live_files(path: str) -> set[str]:
    from spark.table.delta_table import table_of
    from spark.upkeep.log_expiry import files_of

    return {name for file in table_of(path).snapshot().files.values() for name in files_of(file)}
