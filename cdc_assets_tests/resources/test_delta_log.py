"""What a Delta log tells of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from cdc_assets.resources.delta_log import version_after
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
