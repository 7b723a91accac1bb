"""Running a job again when another commit came in between (OPTIMIZE, VACUUM, another append), or Spark lost some of its work.

Every job reads what is committed before it writes, so running it again from the start is always right.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from spark.delta.failures import SPARK_FAILURES, error_text, is_lost_work
from spark.errors import CommitLeftOutError

T = TypeVar("T")
P = ParamSpec("P")
ATTEMPTS = 5
MAY_PASS: tuple[type[Exception], ...] = (*SPARK_FAILURES, CommitLeftOutError)
CONFLICTS = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_TABLE_ALREADY_EXISTS",
)


def run_again(job: Callable[[], T]) -> T:
    """The job's answer; a conflict or a loss that does not go away is raised as Spark reports it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return job()
        except MAY_PASS as error:
            lost = is_lost_work(error)
            if attempt == ATTEMPTS or not (lost or is_conflict(error)):
                raise
            # Two jobs that collided must not meet again at the same moment; a lost executor's successor takes a few seconds.
            time.sleep(random.uniform(0.05, 0.3) * attempt + (2.0 ** (attempt - 1) if lost else 0.0))
    raise AssertionError("unreachable")


def restartable(job: Callable[P, T]) -> Callable[P, T]:
    """The job, run again where it has to be."""

    @functools.wraps(job)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_again(lambda: job(*args, **kwargs))

    return run


def is_conflict(error: Exception) -> bool:
    """Whether Delta refused the commit, or left it out, because another one came in between."""
    if isinstance(error, CommitLeftOutError):
        return True
    text = error_text(error)
    return any(name in text for name in CONFLICTS)
