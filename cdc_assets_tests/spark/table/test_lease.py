"""The two kinds of writers of a table on a local disk never write it at the same time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark.errors import LeftToSparkError
from spark.proof import heal_from_bronze
from spark.proof import ledger_job as ledger
from spark.silver import history_job as history
from spark.table import write_lease
from spark.upkeep import window_refinement

_CLIENT = """
import sys
from spark.table.write_lease import lend_to_spark
with lend_to_spark(sys.argv[1]):
    print("writing", flush=True)
    sys.stdin.read()
"""


def client(path: Path) -> subprocess.Popen[str]:
    """Another process that writes by Spark, until its standard input ends."""
    started = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "writing\n"
    return started


def test_a_task_waits_for_spark(tmp_path: Path) -> None:
    other = client(tmp_path)
    with (
        pytest.raises(LeftToSparkError, match="being written by somebody else"),
        write_lease.lend_to_task(str(tmp_path), seconds=0.1),
    ):
        pass
    other.communicate("")
    with write_lease.lend_to_task(str(tmp_path), seconds=0.1):
        pass


def test_after_a_client_was_killed_a_task_does_not_write(tmp_path: Path) -> None:
    other = client(tmp_path)
    other.kill()
    other.wait()
    with pytest.raises(LeftToSparkError, match="may still be at work"), write_lease.lend_to_task(str(tmp_path)):
        pass
    with write_lease.lend_to_spark(str(tmp_path)):
        pass
    with pytest.raises(LeftToSparkError, match="may still be at work"), write_lease.lend_to_task(str(tmp_path)):
        pass
    long_ago = time.time() - write_lease.MARK_SECONDS - 1
    os.utime(tmp_path / write_lease.LOCK_FILE, (long_ago, long_ago))
    with write_lease.lend_to_task(str(tmp_path)):
        pass


def test_an_error_of_spark_keeps_its_mark(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lost"), write_lease.lend_to_spark(str(tmp_path)):
        raise ValueError("lost")
    with pytest.raises(LeftToSparkError), write_lease.lend_to_task(str(tmp_path)):
        pass


def test_spark_after_spark_leaves_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with write_lease.lend_to_spark(str(tmp_path)):
            pass
    with write_lease.lend_to_task(str(tmp_path)):
        pass


class AskedError(Exception):
    """Somebody asked for the lock."""


@pytest.mark.parametrize(
    "run",
    [history.run, ledger.run, window_refinement.refine_windows, heal_from_bronze.refold_keys, heal_from_bronze.mend_history],
    ids=lambda run: run.__module__,
)
def test_whoever_writes_by_spark_asks_before_it_reads(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance commits to these tables as well, beside Spark."""

    def refuse(*_: object) -> None:
        raise AskedError

    monkeypatch.setattr(fcntl, "flock", refuse)
    table = SimpleNamespace(path=str(tmp_path), panes_path=str(tmp_path), lake_bootstrap="", core_bootstrap="")
    table.lake_login = table.core_login = None
    with pytest.raises(AskedError):
        run(None, SimpleNamespace(**vars(table), spec=table))


def test_a_folder_is_open_to_nobody_who_may_not_enter_the_lake(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    before = os.umask(0o022)
    try:
        with write_lease.lend_to_spark(str(tmp_path / "ledger" / "world")):
            pass
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("ledger", "ledger/world")] == [0o700, 0o700]
