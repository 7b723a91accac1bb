"""A bench that is told to end takes down what it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ENDED = """
import os, signal
from contextlib import contextmanager
from benchmarks.bench import whole_run
from cdc_assets.cli.cdc_command import app

@contextmanager
def stack():
    try:
        yield
    finally:
        print("taken down", flush=True)

def run(*_):
    with stack():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()

whole_run.run_scenarios = run
app(["bench"])
"""


def test_what_it_has_started_is_taken_down(tmp_path: Path) -> None:
    environment = {**os.environ, "CDC_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", ENDED], env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.returncode) == ("taken down\n", 128 + signal.SIGTERM), ended.stderr
