"""A Delta log is read again when it has another commit, and only then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cdc_assets.clients import delta_log
from cdc_assets.clients.delta_log import silver_committed, silver_rows
from cdc_assets_tests.support.delta_logs import write_silver


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_silver(tmp_path / "t", "topic", "t", "id", 3)
    return tmp_path / "t"


def folded(table: Path) -> int:
    state = silver_committed(str(table))
    assert state
    return state.topics["topic"].records


def test_every_commit_is_seen_at_once(table: Path) -> None:
    """Twenty of them within one step of the file system's clock, if it has such steps."""
    for records in range(4, 24):
        write_silver(table, "topic", "t", "id", records)
        assert folded(table) == records
    assert silver_rows(str(table)) == sum(range(3, 24))


@pytest.mark.parametrize("age", [0.0, 60.0])
def test_a_log_that_has_not_changed_is_not_opened(table: Path, monkeypatch: pytest.MonkeyPatch, age: float) -> None:
    """Neither one that was written just now, nor one that rests and is not even listed."""
    log = table / "_delta_log"
    then = log.stat().st_mtime - age
    os.utime(log, (then, then))
    assert folded(table) == 3
    monkeypatch.setattr("cdc_assets.clients.delta_log.open_table", lambda path: 1 // 0)
    if age:
        monkeypatch.setattr(delta_log.os, "listdir", lambda path: 1 // 0)
    assert folded(table) == 3


def test_a_table_that_was_made_again_is_read_again(table: Path) -> None:
    assert folded(table) == 3
    shutil.rmtree(table)
    assert silver_committed(str(table)) is None
    write_silver(table, "topic", "t", "id", 2)
    assert folded(table) == 2
