"""What `cdc wait` takes of a core while it waits for a change that nobody carries."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import connect_example
from benchmarks.bench.figures import Figure
from benchmarks.bench.latency import SENSORS
from benchmarks.bench.measurement import Measurement
from benchmarks.bench.stack_dagster import await_rest, open_instance, without_sensor

_CORES = 0.02
_SETTLE_SECONDS, _SECONDS, _FEW_SECONDS, _WINDOWS, _END_SECONDS = 10.0, 20.0, 5.0, 4, 120.0
"""A start takes a second; what is told once, after it."""


def wait_cost(bench: Measurement) -> Iterator[Figure]:
    """By window of one call, while the source's sensor is off. The first does not count. Then it must end with the change."""
    row, seconds = SENSORS.row, _SECONDS if bench.asked.long and not bench.asked.is_trial else _FEW_SECONDS
    with connect_example(row.source) as connection, ExitStack() as undone:
        (before,) = connection.execute(row.select, [row.key[1]]).fetchone()
        undone.callback(connection.execute, row.update, [before, row.key[1]])
        with without_sensor(f"offsets_{row.source}"), open_instance(bench.stack.home) as instance:
            await_rest(instance)
            connection.execute(row.update, [row.value(before, 0), row.key[1]])
            command = [sys.executable, "-m", "cdc_assets.cli", "wait", row.source]
            process = subprocess.Popen(command, stdout=sys.stderr)
            undone.callback(process.kill)
            used = _watch(bench, process, seconds)
        _await_end(process)
    yield Figure("cdc wait: cores", used[1:], used[:1], target=bench.asked.target(_CORES), unit="cores")


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        code = process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        raise BenchError(f"cdc wait has not ended {_END_SECONDS:.0f} s after the sensor was on again: ./cdc status") from None
    if code:
        raise BenchError(f"cdc wait ended with {code}, see above")


def _watch(bench: Measurement, process: subprocess.Popen[bytes], seconds: float) -> list[Took]:
    time.sleep(_SETTLE_SECONDS)
    found = []
    for number in range(_WINDOWS):
        bench.say(f"cdc wait: window {number + 1} of {_WINDOWS}, {seconds:.0f} s each")
        began, before = time.monotonic(), _cpu(process)
        time.sleep(seconds)
        used = _cpu(process) - before
        found.append(Took(used / (time.monotonic() - began), used))
    return found


def _cpu(process: subprocess.Popen[bytes]) -> float:
    if process.poll() is not None:
        raise BenchError(f"cdc wait ended with {process.returncode} while nobody carried what it waits for, see above")
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)
