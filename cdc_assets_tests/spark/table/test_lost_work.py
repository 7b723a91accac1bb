"""What Spark loses, by its own conditions: what is run again, in which session, and what never is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, PySparkRuntimeError, RetriesExceeded
from pyspark.errors.exceptions.connect import AnalysisException, SparkConnectGrpcException, SparkException

from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.registry.errors import SparkRunError
from spark.errors import CommitLeftOutError, JobRefusedError, StatementStopError
from spark.events.kafka_source import losses_named
from spark.silver.keyed_batch import NOT_PLAIN
from spark.specs import TopicRange
from spark.table import spark_failures, spark_session
from spark.table.spark_failures import ATTEMPTS, is_lost_session, is_lost_work, restartable, run_again, translate_stops

STAGE = "Job aborted due to stage failure: Task 0 in stage 9.0 failed 4 times, most recent failure: Lost task 0.3 in stage 9.0 "
LOST = {
    "a checkpointed block": SparkException(
        STAGE + "(TID 12) (10.0.0.7 executor 3): org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint "
        "block rdd_17_0 not found! Either the executor that originally checkpointed this partition is no longer alive, or the "
        "original RDD is unpersisted."
    ),
    "the same, told at once": SparkException("block rdd_17_0", errorClass="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"),
    "an executor": SparkException(
        STAGE + "(TID 12) (10.0.0.7 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the running tasks) "
        "Reason: Command exited with code 137"
    ),
    "a shuffled block": SparkException(
        "Job aborted due to stage failure: ResultStage 9 (collect) has failed the maximum allowable number of times: 4. Most "
        "recent failure reason: org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 3"
    ),
    "an answer": PySparkRuntimeError(errorClass="RESPONSE_ALREADY_RECEIVED", messageParameters={}),
    "a result": SparkException(STAGE + "(TID 12) (10.0.0.7 executor 3): TaskResultLost (result lost from block manager)"),
}
GONE = ["SESSION_CHANGED", "SESSION_CLOSED", "SESSION_NOT_FOUND", "OPERATION_NOT_FOUND", "OPERATION_ABANDONED"]
OTHER = [
    AnalysisException("no such column", errorClass="UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    SparkException(STAGE + "(TID 12): org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero."),
    SparkException(STAGE + "(TID 12): java.lang.IllegalStateException: Cannot fetch offset 7; executor 3 is alive"),
    SparkConnectGrpcException("the executor said FetchFailedly that nothing was lost"),
]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(spark_failures.time, "sleep", pauses.append)
    return pauses


def failing(error: Exception, times: int) -> tuple[Callable[[], str], list[int]]:
    runs: list[int] = []

    def job() -> str:
        runs.append(1)
        if len(runs) <= times:
            raise error
        return "done"

    return job, runs


@pytest.mark.parametrize("what", LOST)
def test_lost_work_is_done_again(what: str, no_pause: list[float]) -> None:
    assert is_lost_work(LOST[what])
    job, runs = failing(LOST[what], ATTEMPTS - 1)
    assert (restartable(job)(), len(runs)) == ("done", ATTEMPTS)
    # Longer each time: an executor's successor has to come up.
    assert no_pause == sorted(no_pause)
    assert sum(no_pause) > 10
    job, runs = failing(LOST[what], ATTEMPTS)
    with pytest.raises(type(LOST[what])):
        run_again(job)
    assert len(runs) == ATTEMPTS


def test_what_is_left_out_by_delta_is_done_again() -> None:
    assert run_again(failing(CommitLeftOutError("no commit carries it"), 2)[0]) == "done"


@pytest.mark.parametrize("error", OTHER, ids=str)
def test_what_is_wrong_is_not_done_again(error: PySparkException) -> None:
    assert not is_lost_work(error)
    assert not is_lost_session(error)
    job, runs = failing(error, 1)
    with pytest.raises(type(error)):
        run_again(job)
    assert len(runs) == 1


def test_a_lost_executor_is_no_lost_record() -> None:
    """Its text speaks of a partition and of what is not found, as Kafka's losses do."""
    topic = TopicRange("t", "core.t", "id", 0, {0: (0, 9)})
    text = STAGE + "ExecutorLostFailure (executor 3 exited) Partition 0 of the RDD was lost"
    with pytest.raises(SparkException), losses_named([topic]):
        raise SparkException(text)
    with pytest.raises(JobRefusedError), losses_named([topic]):
        raise SparkException("Partition core.t-0 was lost: Cannot fetch offset 3")


class OneSession:
    """A session that counts."""

    opened = 0

    def __init__(self, *_: str, session_id: str = "") -> None:
        type(self).opened += 1

    def stop(self) -> None:
        """As pyspark's."""


@pytest.mark.parametrize("name", [*GONE, ""])
def test_a_lost_session_is_opened_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error: PySparkException = RetriesExceeded(errorClass="RETRIES_EXCEEDED", messageParameters={})
    if name:
        error = SparkConnectGrpcException("The handle 1 is invalid.", errorClass=f"INVALID_HANDLE.{name}", messageParameters={})
    assert is_lost_session(error)
    assert not is_lost_work(error)
    monkeypatch.setattr(spark_session, "connect", OneSession)
    OneSession.opened = 0
    job, runs = failing(error, 2)

    def asked(_: Any, spec: Path) -> str:
        return job() + str(spec)

    assert SparkSessions("sc://nowhere").run(asked, ".") == "done."
    assert (len(runs), OneSession.opened) == (3, 3)
    with pytest.raises(SparkRunError):
        SparkSessions("sc://nowhere").run(lambda *_: failing(error, 9)[0](), ".")


def test_a_statement_that_ends_itself_is_told_by_its_type() -> None:
    """A stage's failure names the mark in its text alone; what else fails stays Spark's own."""
    stage = SparkException(STAGE + f"(TID 12): SparkRuntimeException: [USER_RAISED_EXCEPTION] {NOT_PLAIN}")
    with pytest.raises(StatementStopError) as met, translate_stops("CDC_OTHER", NOT_PLAIN):
        raise stage
    assert met.value.__cause__ is stage
    with pytest.raises(SparkException) as passed, translate_stops("CDC_OTHER"):
        raise stage
    assert passed.value is stage
