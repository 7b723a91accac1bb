"""A bench that is told to end takes down what it has started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


MEASURED = """
import os, signal
from benchmarks.bench import whole_run
from benchmarks.bench.carry import Took
from benchmarks.bench.figures import Figure
from cdc_assets.cli.cdc_command import app

def run(wanted, run, say):
    run.under_way = "second"
    run.add(Figure("first", [Took(2.0, 1.0)]))
    os.kill(os.getpid(), signal.SIGNAL)
    signal.pause()

whole_run.run_scenarios = run
app(["bench", "-o", "json"])
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 128 + signal.SIGTERM), ("SIGINT", 130)])
def test_what_it_has_measured_is_printed(tmp_path: Path, name: str, code: int) -> None:
    ended = ended_bench(tmp_path, MEASURED.replace("SIGNAL", name))
    assert [row["scenario"] for row in json.loads(ended.stdout)] == ["first"]
    assert "first, cdc_assets: 2 s" in ended.stderr
    assert "ended in the middle of second" in ended.stderr
    assert ended.returncode == code


def test_what_it_has_started_is_taken_down(tmp_path: Path) -> None:
    ended = ended_bench(tmp_path, ENDED)
    assert (ended.stdout, ended.returncode) == ("taken down\n", 128 + signal.SIGTERM), ended.stderr


def ended_bench(home: Path, program: str) -> subprocess.CompletedProcess[str]:
    """The command, which this program ends from within."""
    environment = {**os.environ, "CDC_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
