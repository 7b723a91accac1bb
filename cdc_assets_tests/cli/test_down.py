"""What `cdc down --wipe` removes, and that nobody removes it by one word too many."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.stack.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home").create()
    made.config.write_text("{}")
    (made.lake / "silver" / "shop" / "orders" / "_delta_log").mkdir(parents=True)
    return made


@pytest.mark.slow
def test_a_person_is_asked(home: Home) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [sys.executable, "-m", "cdc_assets.cli", "down", "--wipe"]
    environment = {**os.environ, "CDC_HOME": str(home.root)}
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert "1 Delta table" in done.stdout
    assert done.returncode != 0
    assert home.root.exists()


def test_a_script_says_so_by_the_option_alone_and_may_look_first(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(home.root))
    assert "1 Delta table" in CliRunner().invoke(app, ["down", "--wipe", "--dry-run"]).output
    assert CliRunner().invoke(app, ["down"]).exit_code == 0
    assert home.root.exists()
    refused = CliRunner().invoke(app, ["down", "--wipe"])
    assert (refused.exit_code, home.root.exists()) == (2, True)
    assert "--yes" in refused.output
    assert CliRunner().invoke(app, ["down", "--wipe", "--yes"]).exit_code == 0
    assert not home.root.exists()
