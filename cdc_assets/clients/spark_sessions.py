"""Spark jobs through one long-lived Spark Connect server: 0.1 s for a session, never a JVM per run.

The session of the calling thread comes from dagster-pyspark. Each worker thread gets a session of its own:
the commit metadata of a MERGE can only be set as a session conf, which threads of one session would share.
What a server that others run lacks is told with the command that mends it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from cdc_assets.clients.spark_work import note_work
from cdc_assets.clients.table_concurrency import turn_of
from cdc_assets.registry.errors import SparkRunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.errors import BronzeExpiredError
    from spark.table.server_facts import SparkFacts

MEND = "cdc render --target spark --out deploy"
"""Writes the settings, jars and packages of a server (docs/how-to/your-own-platform.md)."""
ANSWER_SECONDS = 45.0
_PORT, _AWAY_SECONDS = 15002, 3.0
_EXTENSIONS, _CATALOG, _SESSION_TIMEOUT = (
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.connect.session.manager.defaultSessionTimeout",
)


@dataclass(frozen=True)
class SparkLack:
    """One thing; where `is_needed`, no job runs without it, else the chain is slower."""

    rule: str
    message: str
    is_needed: bool = True


def lacks_of(facts: SparkFacts) -> Iterator[SparkLack]:
    """What of the facts is not as it must be; nothing is asked here."""
    import pyspark

    from spark.table.server_facts import CATALOG, DELTA, EXTENSION, KAFKA

    if _line(facts.spark) != _line(pyspark.__version__):
        yield SparkLack("spark_version", f"it is Spark {facts.spark}, and the client {pyspark.__version__}")
    if EXTENSION not in facts.settings.get(_EXTENSIONS, ""):
        yield SparkLack("delta_extension", f"{_EXTENSIONS} does not name {EXTENSION}")
    if facts.settings.get(_CATALOG) != CATALOG:
        yield SparkLack("delta_catalog", f"{_CATALOG} is not {CATALOG}")
    for jar in (DELTA, KAFKA):
        if not facts.jars.get(jar):
            yield SparkLack(jar.replace("-", "_"), f"the jar {jar} is not there")
    yield from _delta_versions(facts.jars.get(DELTA, ""))
    timeout = facts.settings.get(_SESSION_TIMEOUT, "")
    if not (timeout.endswith("d") and timeout[:-1].isdecimal()):
        message = f"{_SESSION_TIMEOUT} is {timeout or 'not set'}: the session of small work ends with it"
        yield SparkLack("session_timeout", message, False)
    if facts.python:
        yield SparkLack("python_of_executors", f"small work is left to Spark's own jobs: {facts.python}", False)


def refuse_lacks(session: Any, remote: str) -> None:
    """At connect, without a job. Raises SparkRunError: naming all that no job runs without."""
    from spark.table.server_facts import look_at_driver

    needed = [lack.message for lack in lacks_of(look_at_driver(session)) if lack.is_needed]
    if needed:
        raise SparkRunError(f"Spark Connect at {remote} is not ready for the jobs: {'; '.join(needed)}; {MEND}")


def foreign_facts(sessions: SparkSessions) -> SparkFacts:
    """What a server tells, whatever it lacks; one that is away is told at once.
    Raises SparkRunError: it does not answer, or no executor does."""
    address = urlsplit(sessions.remote.partition(";")[0])
    try:
        socket.create_connection((address.hostname or "", address.port or _PORT), timeout=_AWAY_SECONDS).close()
    except OSError as error:
        raise SparkRunError(f"Spark Connect at {sessions.remote} is not reached: {error}") from error
    with sessions.session(any_server=True) as session:
        return _facts_in_time(session, ANSWER_SECONDS)


def _facts_in_time(session: Any, seconds: float) -> SparkFacts:
    """A cluster without an executor lets every job wait."""
    from spark.table.server_facts import look_at_server

    pool = ThreadPoolExecutor(1, thread_name_prefix="spark-facts")
    try:
        return pool.submit(look_at_server, session).result(timeout=seconds)
    except Late:
        session.interruptAll()
        raise SparkRunError(f"no executor has run a task within {seconds:.0f} s: has the cluster a free core?") from None
    finally:
        pool.shutdown(wait=False)


def _delta_versions(found: str) -> Iterator[SparkLack]:
    from spark.table.server_facts import is_older

    tried = version("delta-spark")
    executors = [executor for executor in found.split(", ") if executor[:1].isdecimal()]
    if any(is_older(executor, tried) for executor in executors):
        yield SparkLack("delta_version", f"Delta {found} is older than {tried}, with which the jobs are tried", False)
    if len(executors) > 1:
        yield SparkLack("delta_versions", f"executors have several versions of Delta: {found}")


def _line(number: str) -> list[str]:
    """`4.0` of 4.0.4: within it servers and clients understand each other."""
    return number.split(".")[:2]


Result = TypeVar("Result")
_SESSIONS, _TASK_SESSIONS = 3, 8
# Foreign servers that had all when this process asked them.
_COMPLETE: set[str] = set()
# Sessions in which this process works now, and whether others work there too. Of those its own operations have the tag.
_RUNNING: dict[SparkSession, bool] = {}
_ENDING = threading.Event()
_TAG = f"cdc-{uuid4()}"
_END_SECONDS, _END_PAUSE = 5.0, 0.2
_COMPARISONS = "comparisons"
_ENDED = "this process was told to end, so it asks Spark for nothing more"


class SparkSessions:
    """Sessions on one Spark Connect server; one that is foreign, served by others, is asked at first whether it has all.

    Raises:
        SparkRunError: `remote` holds a token, which every message about it would show.
    """

    def __init__(
        self,
        remote: str,
        token: str = "",
        *,
        is_foreign: bool = False,
        bring_back: Callable[[BronzeExpiredError], bool] | None = None,
    ) -> None:
        if ";token=" in remote:
            why = "its address is shown in logs and pages: write the token into a file, mode 0600"
            raise SparkRunError(f"Spark Connect: {why}, and let CDC_SPARK_TOKEN_FILE name that")
        self.remote, self._token, self._is_foreign, self._bring_back = remote, token, is_foreign, bring_back

    def run(self, job: Callable[[SparkSession, Any], Result], spec: Any) -> Result:
        """Run one job in a session of its own; in another one where the server has forgotten that, since it was restarted; and
        again where it asked for records that bronze has no more, once they are brought back.
        Raises SparkRunError: with the job's own reason, first line; RefusalError: such records do not come back from the
        backup."""
        from spark.errors import BronzeExpiredError

        try:
            return self._run(job, spec)
        except SparkRunError as error:
            reason = error.__cause__
            if self._bring_back is None or not isinstance(reason, BronzeExpiredError) or not self._bring_back(reason):
                raise
        return self._run(job, spec)

    def compare(self, job: Callable[[SparkSession, Any], Result], spec: Any) -> Result:
        """As `run`, for which the chain does not wait: one such job of a home at a time, with a slot less than the server has.

        Three comparisons of large rows held both slots, and every fold waited for them (ADR 134).

        Raises SparkRunError: as `run`.
        """
        from spark.table.spark_plans import leave_a_slot

        @wraps(job)
        def beside_the_chain(session: SparkSession, asked: Any) -> Result:
            leave_a_slot(session)
            return job(session, asked)

        try:
            with turn_of(_COMPARISONS, _ENDING):
                return self.run(beside_the_chain, spec)
        except InterruptedError as error:
            raise SparkRunError(f"{_ENDED}: {error}") from error

    def _run(self, job: Callable[[SparkSession, Any], Result], spec: Any) -> Result:
        from spark.table.spark_failures import is_lost_session

        for attempt in range(1, _SESSIONS + 1):
            with self.session() as session, note_work(job, spec):
                try:
                    return job(session, spec)
                except Exception as error:
                    if attempt == _SESSIONS or not is_lost_session(error):
                        raise SparkRunError(self._reason(error)) from error
            time.sleep(attempt)
        raise AssertionError("unreachable")

    def run_in_tasks(self, job: Callable[[SparkSession, Any], Result], spec: Any) -> Result:
        """Run a job whose tasks run Python, in the session that all such jobs share (spark.table.spark_session.task_session_id).
        Raises SparkRunError: with the job's own reason, first line."""
        from spark.table.spark_failures import is_closed_session
        from spark.table.spark_session import leave, task_session_id

        for number in range(_TASK_SESSIONS):
            try:
                session = self._open_complete(task_session_id(number))
                with _active(session, is_shared=True), note_work(job, spec):
                    try:
                        return job(session, spec)
                    finally:
                        leave(session)
            except SparkRunError:
                raise
            except Exception as error:
                if number == _TASK_SESSIONS - 1 or not is_closed_session(error):
                    raise SparkRunError(f"Spark Connect at {self.remote}: {self._reason(error)}; ./cdc status") from error
        raise AssertionError("unreachable")

    @contextmanager
    def session(self, *, any_server: bool = False) -> Iterator[SparkSession]:
        """A new session, closed at the end; on `any_server`, whatever that lacks."""
        try:
            session = self.open_session(self._token) if any_server else self._open_complete()
        except SparkRunError:
            raise
        except Exception as error:
            raise SparkRunError(f"Spark Connect at {self.remote}: {self._reason(error)}; ./cdc status") from error
        with _active(session):
            try:
                yield session
            finally:
                session.stop()

    def open_session(self, token: str, session_id: str = "") -> SparkSession:
        """A new session on the server, or the one of that id; whoever opens it closes it."""
        from spark.table.spark_session import connect

        return connect(self.remote, token, session_id=session_id)

    def _open_complete(self, session_id: str = "") -> SparkSession:
        """As `open_session`, on a server that has all that jobs need.
        Raises SparkRunError: it is foreign, and lacks something."""
        from spark.table.spark_session import leave

        session = self.open_session(self._token, session_id)
        if self._is_foreign and self.remote not in _COMPLETE:
            try:
                refuse_lacks(session, self.remote)
            except BaseException:
                leave(session)
                raise
            _COMPLETE.add(self.remote)
        return session

    @staticmethod
    def _reason(error: Exception) -> str:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        return lines[0][:600] if lines else type(error).__name__


def end_jobs() -> None:
    """End what this process has asked Spark for; it asks no more. A server runs a job to its end, whoever has gone away.

    https://spark.apache.org/docs/latest/api/python/reference/pyspark.sql/api/pyspark.sql.SparkSession.interruptTag.html
    """
    _ENDING.set()
    until = time.monotonic() + _END_SECONDS
    # Again: a session's next operation may be on its way.
    while _RUNNING and time.monotonic() < until:
        for session, is_shared in list(_RUNNING.items()):
            with suppress(Exception):  # the server is away: so are its jobs
                session.interruptTag(_TAG) if is_shared else session.interruptAll()
        time.sleep(_END_PAUSE)


@contextmanager
def _active(session: SparkSession, *, is_shared: bool = False) -> Iterator[None]:
    """`session` is the thread's active one, also where the thread has another: localCheckpoint() answers in the active
    session, whichever it was asked in (pyspark 4.0.4, connect/conversion.py, proto_to_remote_cached_dataframe)."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    if _ENDING.is_set():
        raise SparkRunError(_ENDED)
    if is_shared:
        session.addTag(_TAG)
    _RUNNING[session] = is_shared
    threads: Any = ConnectSession._active_session
    before = getattr(threads, "session", None)
    threads.session = session
    try:
        yield
    finally:
        _RUNNING.pop(session, None)
        # A thread's first session becomes its active one as it is made; it is closed by then.
        threads.session = None if before is session else before
