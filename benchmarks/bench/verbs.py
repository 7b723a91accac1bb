"""How long a user waits for `./cdc` itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import Measurement
from spark.errors import quantity

_RUNS = 5
_LAUNCHER = Path(__file__).parents[2] / "cdc"
_STATUS_CODES = (0, 1)
"""1 says that a check has failed, which takes as long."""


def verbs(bench: Measurement) -> Iterator[Figure]:
    """`cdc --help` and `cdc status`; the first run of each does not count: files come from the disk then."""
    for arguments, target, codes in ((["--help"], 0.5, (0,)), (["status"], 1.5, _STATUS_CODES)):
        number = bench.asked.repeats(_RUNS) + 1
        bench.say(f"cdc {' '.join(arguments)}: {quantity(number, 'run')}")
        runs = [run_verb(arguments, codes) for _ in range(number)]
        yield Figure(f"cdc {' '.join(arguments)}", runs[1:], runs[:1], target=bench.asked.target(target))


def run_verb(arguments: list[str], codes: tuple[int, ...]) -> Took:
    """One call, by the launcher where there is one.

    Raises:
        BenchError: it ends with another code than these.
    """
    command = [str(_LAUNCHER)] if _LAUNCHER.is_file() else [sys.executable, "-m", "cdc_assets.cli"]
    began, before = time.perf_counter(), sum(os.times()[2:4])
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    took = Took(time.perf_counter() - began, sum(os.times()[2:4]) - before)
    if done.returncode not in codes:
        raise BenchError(f"cdc {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return took
