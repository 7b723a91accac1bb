"""Tasks of Spark that were to end and go on: a task looks whether it is to end between two rows, never within a value.

Spark's reaper writes a line about each into the log, every ten seconds until it has ended (Executor.TaskReaper, spark 4.0.4):
https://spark.apache.org/docs/latest/configuration.html#execution-behavior (spark.task.reaper.*)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from cdc_assets.stack.logs import tail

POLL_SECONDS = 10
REAPER: Mapping[str, str] = {
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.pollingInterval": f"{POLL_SECONDS}s",
    # The stack of each thread, at each look: a log of its own.
    "spark.task.reaper.threadDump": "false",
}
_LINE = re.compile(r"^(\S+) WARN +Executor: Killed task (\d+) is still running after (\d+) ms")
_LINES, _LEAST_SECONDS = 400, 60.0


def lingering_tasks(log: Path, now: float) -> dict[int, float]:
    """By the task's id, the seconds since it was told to end; of those that still run, told a minute ago or longer."""
    found = {}
    for line in tail(log, _LINES):
        if (told := _LINE.match(line)) and now - _seconds_of(told[1]) < 3 * POLL_SECONDS:
            found[int(told[2])] = int(told[3]) / 1000
    return {task: seconds for task, seconds in found.items() if seconds >= _LEAST_SECONDS}


def _seconds_of(moment: str) -> float:
    """Of the log's time, which is in UTC."""
    return datetime.strptime(moment, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
