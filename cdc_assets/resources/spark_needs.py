"""What a Spark server that others run lacks of what the jobs need, with the command that says how to mend it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cdc_assets.errors import SparkRunError

if TYPE_CHECKING:
    from cdc_assets.resources.spark import SparkSessions
    from spark.delta.server_facts import SparkFacts

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

    from spark.delta.server_facts import CATALOG, DELTA, EXTENSION, KAFKA

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
    if not _is_days(facts.settings.get(_SESSION_TIMEOUT, "")):
        told = facts.settings.get(_SESSION_TIMEOUT) or "not set"
        yield SparkLack("session_timeout", f"{_SESSION_TIMEOUT} is {told}: the session of small work ends with it", False)
    if facts.python:
        yield SparkLack("python_of_executors", f"small work is left to Spark's own jobs: {facts.python}", False)


def refuse_lacks(session: Any, remote: str) -> None:
    """At connect, without a job.

    Raises:
        SparkRunError: naming all that no job runs without.
    """
    from spark.delta.server_facts import look_at_driver

    needed = [lack.message for lack in lacks_of(look_at_driver(session)) if lack.is_needed]
    if needed:
        raise SparkRunError(f"Spark Connect at {remote} is not ready for the jobs: {'; '.join(needed)}; {MEND}")


def foreign_facts(sessions: SparkSessions) -> SparkFacts:
    """What a server tells, whatever it lacks; one that is away is told at once.

    Raises:
        SparkRunError: it does not answer, or no executor does.
    """
    place = urlsplit(sessions.remote.partition(";")[0])
    try:
        socket.create_connection((place.hostname or "", place.port or _PORT), timeout=_AWAY_SECONDS).close()
    except OSError as error:
        raise SparkRunError(f"Spark Connect at {sessions.remote} is not reached: {error}") from error
    with sessions.session(any_server=True) as session:
        return _facts_in_time(session, ANSWER_SECONDS)


def _facts_in_time(session: Any, seconds: float) -> SparkFacts:
    """A cluster without an executor lets every job wait."""
    from spark.delta.server_facts import look_at_server

    pool = ThreadPoolExecutor(1, thread_name_prefix="spark-facts")
    try:
        return pool.submit(look_at_server, session).result(timeout=seconds)
    except Late:
        session.interruptAll()
        raise SparkRunError(f"no executor has run a task within {seconds:.0f} s: has the cluster a free core?") from None
    finally:
        pool.shutdown(wait=False)


def _delta_versions(found: str) -> Iterator[SparkLack]:
    from spark.delta.server_facts import is_older

    tried = version("delta-spark")
    executors = [each for each in found.split(", ") if each[:1].isdecimal()]
    if any(is_older(each, tried) for each in executors):
        yield SparkLack("delta_version", f"Delta {found} is older than {tried}, with which the jobs are tried", False)
    if len(executors) > 1:
        yield SparkLack("delta_versions", f"executors have several versions of Delta: {found}")


def _line(number: str) -> list[str]:
    """`4.0` of 4.0.4: within it servers and clients understand each other."""
    return number.split(".")[:2]


def _is_days(text: str) -> bool:
    return text.endswith("d") and text[:-1].isdecimal()
