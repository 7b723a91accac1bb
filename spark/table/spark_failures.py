"""What Spark raises, and running a job again: after another commit came in between, or after Spark lost some of its work.

Both kinds of session are read: a classic one lets some Java exceptions through as py4j's own. A failed stage is reported as one
text: its cause keeps no condition of its own there, but stands in it by its condition in brackets or by the name of Spark's own
reason for a task's end (org.apache.spark.TaskEndReason).

Every job reads what is committed before it writes, so running it again from the start is always right (after OPTIMIZE, VACUUM,
another append).
"""

from __future__ import annotations

import functools
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark.errors import CommitLeftOutError, StatementStopError

SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError)
_NAMED = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]")
# The second: the server has given up a statement whose client was silent for too long, in the midst of its answers.
_LOST_CONDITIONS = frozenset({"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "RESPONSE_ALREADY_RECEIVED"})
# By the names of the case classes TaskEndReason, as toErrorString writes them, and of the exceptions behind a lost block.
_LOST_REASONS = re.compile(
    r"\b(ExecutorLostFailure \(|FetchFailed\(|TaskResultLost|MetadataFetchFailedException|BlockNotFoundException"
    r"|Could not compute split, block rdd_|ResultStage \d+ .* has failed the maximum allowable number of times)"
)
_GONE_CONDITIONS = frozenset(
    f"INVALID_HANDLE.{name}" for name in ("SESSION_CHANGED", "SESSION_CLOSED", "SESSION_NOT_FOUND", "OPERATION_NOT_FOUND")
) | {"RETRIES_EXCEEDED", "INVALID_HANDLE.OPERATION_ABANDONED"}


def error_text(error: Exception) -> str:
    """The error's condition and message; what callers look for stands in the first part of it."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return f"{condition or ''} {error}"[:20_000]


def conditions(error: Exception) -> frozenset[str]:
    """Spark's conditions of an error and of the causes that it names."""
    own = error.getCondition() if isinstance(error, PySparkException) else None
    return frozenset(_NAMED.findall(error_text(error))) | ({own} if own else frozenset())


def is_lost_work(error: Exception) -> bool:
    """Whether Spark has lost what it had computed: an executor, a task, a shuffled or a checkpointed block."""
    if not isinstance(error, SPARK_FAILURES):
        return False
    return bool(conditions(error) & _LOST_CONDITIONS) or _LOST_REASONS.search(error_text(error)) is not None


def is_lost_session(error: Exception) -> bool:
    """Whether the server no longer knows the session: it was restarted, or is away."""
    return isinstance(error, PySparkException) and bool(conditions(error) & _GONE_CONDITIONS)


def is_closed_session(error: Exception) -> bool:
    """Whether the server has closed the session, and will not open it again."""
    return isinstance(error, PySparkException) and "INVALID_HANDLE.SESSION_CLOSED" in conditions(error)


@contextmanager
def translate_stops(*marks: str) -> Iterator[None]:
    """Raises StatementStopError where a statement within has ended itself by one of the marks; any other failure goes through.

    What `raise_error` says keeps no condition of its own in a failed stage: its mark stands in the stage's text alone.
    """
    try:
        yield
    except SPARK_FAILURES as failure:
        text = str(failure)
        if any(mark in text for mark in marks):
            raise StatementStopError(text[:20_000]) from failure
        raise


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
