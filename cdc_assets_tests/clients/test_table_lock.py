"""One writer per table: a second one waits, a killed one leaves no lock, another table is not held up."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry.errors import TableBusyError

HOLD = """
import sys, time
from pathlib import Path
from cdc_assets.clients.table_concurrency import table_lock
with table_lock("silver", "shop", "orders", folder=Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_table_held_by_a_living_process_is_named_and_freed_by_its_death(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(TableBusyError, match=f"silver/shop/orders is held by process {holder.pid}"),
        table_lock("silver", "shop", "orders", folder=tmp_path, deadline=0.2),
    ):
        pytest.fail("two writers on one table")
    with table_lock("silver", "shop", "lines", folder=tmp_path, deadline=0.2):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with table_lock("silver", "shop", "orders", folder=tmp_path, deadline=5):
        pass


def test_lock_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with table_lock("bronze", "shop", "orders", folder=folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "bronze.shop.orders.lock").stat().st_mode & 0o777 == 0o600
