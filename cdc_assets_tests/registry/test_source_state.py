"""What this machine remembers of a source: one file, sections of several writers, whole at any moment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_state import SourceState, forget_source

_COUNTS = """
from cdc_assets.registry.source_state import SourceState
import sys
state = SourceState("shop", sys.argv[1])
for _ in range(int(sys.argv[2])):
    state.change(lambda before: (before or 0) + 1)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def writer(section: str, times: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _COUNTS, section, str(times)])


def test_sections_stand_beside_each_other_in_one_private_file(home: Path) -> None:
    mirror, server = SourceState("shop", "mirror"), SourceState("shop", "incarnation")
    assert mirror.read() is None
    mirror.write({"a": [1]})
    server.write("here")
    SourceState("bank", "mirror").write(1)
    assert (mirror.read(), server.read()) == ({"a": [1]}, "here")
    assert sorted(path.name for path in (home / "source-state").glob("[!.]*")) == ["bank.json", "shop.json"]
    assert mirror.file.stat().st_mode & 0o077 == 0
    assert mirror.file.parent.stat().st_mode & 0o077 == 0
    mirror.write(None)
    assert (mirror.read(), server.read()) == (None, "here")
    forget_source("shop")
    assert server.read() is None
    assert SourceState("bank", "mirror").read() == 1
    forget_source("shop")


def test_what_several_processes_write_at_once_is_all_there() -> None:
    """Of one section and of two: each read and written by itself, one would take the other's back."""
    processes = [writer(section, 40) for section in ("mirror", "mirror", "backups")]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert (SourceState("shop", "mirror").read(), SourceState("shop", "backups").read()) == (80, 40)


def test_a_writer_that_is_killed_leaves_it_whole_and_holds_nobody() -> None:
    state = SourceState("shop", "mirror")
    for _ in range(3):
        process = writer("mirror", 1_000_000)
        until, before = time.monotonic() + 60, state.read() or 0
        while (state.read() or 0) < before + 5 and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        counted = state.read()
        assert counted >= before + 5
        state.write(counted + 1)
        assert state.read() == counted + 1


def test_a_file_that_is_broken_is_never_taken_for_empty() -> None:
    state = SourceState("shop", "mirror")
    state.write(1)
    state.file.write_text("{")
    told = re.escape(f"{state.file} cannot be read: ") + ".*remove it and compare every row: cdc reconcile shop"
    for act in (state.read, lambda: state.write(2)):
        with pytest.raises(CdcAssetsError, match=told):
            act()
    state.file.write_text('{"cdc_assets": 2, "state": {}}')
    with pytest.raises(CdcAssetsError, match="is state of format 2, this cdc reads 1"):
        state.read()
