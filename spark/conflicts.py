"""Running a job again when another commit came in between (OPTIMIZE, VACUUM, a first append of another table).

Every job reads what is committed before it writes, so running it again from the start is always right.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from spark.failures import SPARK_FAILURES, described

T = TypeVar("T")
ATTEMPTS = 5
CONFLICTS = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_TABLE_ALREADY_EXISTS",
)


def retried(job: Callable[[], T]) -> T:
    """The job's answer; a conflict that does not go away is raised as Delta reports it."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return job()
        except SPARK_FAILURES as error:
            if attempt == ATTEMPTS or not is_conflict(error):
                raise
            # Two jobs that collided must not meet again at the same moment.
            time.sleep(random.uniform(0.05, 0.3) * attempt)
    raise AssertionError("unreachable")


def is_conflict(error: Exception) -> bool:
    """Whether Delta refused the commit because another one came in between."""
    text = described(error)
    return any(name in text for name in CONFLICTS)
