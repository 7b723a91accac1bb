"""What this home asks Spark for now, and what takes far longer than its like did.

Spark Connect tells nobody what it works on, and the server has no page. So each job has a file while it lasts, and a kind of job
on a table has one with the seconds of its longest ones. A file is left behind by a process that was killed: Spark ends such work
by itself, unless a task is within one value (cdc_assets.stack.components.spark_connect_server).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from uuid import uuid4

from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import read_json, replace_json
from spark.errors import quantity
from spark.specs import Column

RESTART = "cdc restart spark-connect"
"""Ends whatever the stack's own Spark works on; its supervisor starts it again, and jobs that are lost are done again."""
# Far beyond its like: ten times the longest of the last twenty, and never less than five minutes. The first of its like, such as
# a first load, has an hour.
_TIMES, _LEAST_SECONDS, _FIRST_SECONDS, _KEPT = 10, 300.0, 3600.0, 20
# What is shorter says nothing beside the least.
_WORTH_SECONDS = _LEAST_SECONDS / _TIMES
_MOST_NAMES, _DEPTH = 3, 3
_KINDS = {
    "history_job": "a history",
    "ledger_job": "a count",
    "replay_job": "a replay",
    "proof": "a comparison",
    "silver": "a fold",
    "bronze": "an append",
    "upkeep": "maintenance",
}
"""By the name of a job's module, or of its room."""


@dataclass(frozen=True)
class SparkWork:
    """One job: its kind, its tables (`source.table`), the process that asked, since when (epoch seconds).

    `columns`: of a job on one table, those in which one value can be long. A task is within one value, or between two: Spark
    tells no column, and a value of any other cannot take long.
    """

    kind: str
    tables: tuple[str, ...]
    pid: int
    since: float
    columns: tuple[str, ...] = ()

    def sentence(self, now: float, longest: float | None) -> str:
        """What it works on, since when and for whom, beside the seconds of the longest of its like."""
        like = "it is the first of its like" if longest is None else f"its like took at most {max(1.0, longest):.0f} s"
        tables = f" of {', '.join(self.tables)}" if self.tables else ""
        long = f"; long values can be in {', '.join(self.columns)}" if self.columns else ""
        minutes = quantity(int(now - self.since) // 60, "minute")
        return f"{self.kind}{tables} works for {minutes} (process {self.pid}), and {like}{long}"


@contextmanager
def note_work(job: Callable[..., object], spec: object) -> Iterator[None]:
    """Keep what Spark is asked for in a file for the block, and how long it took."""
    on = [*_walk(spec, _DEPTH)]
    work = SparkWork(
        _kind(job), _first([*dict.fromkeys(table for table, _ in on)], "more table"), os.getpid(), time.time(), _long_columns(on)
    )
    file = _folder() / f"{uuid4()}.json"
    replace_json(file, asdict(work))
    began = time.monotonic()
    try:
        yield
        _keep_seconds(work, time.monotonic() - began)
    finally:
        file.unlink(missing_ok=True)


def overlong_work(now: float) -> list[str]:
    """A sentence for each job that takes far longer than its like, the longest first. Files of processes that are gone go."""
    found = []
    for file in _folder().glob("*.json"):
        data = read_json(file)
        if data is None:
            continue
        work = SparkWork(**{**data, "tables": tuple(data["tables"]), "columns": tuple(data["columns"])})
        if not _is_alive(work):
            file.unlink(missing_ok=True)
            continue
        kept = read_json(_seconds_file(work))
        longest = max(kept) if kept else None
        limit = _FIRST_SECONDS if longest is None else max(_LEAST_SECONDS, _TIMES * longest)
        if now - work.since > limit:
            found.append((work.since, work.sentence(now, longest)))
    return [sentence for _, sentence in sorted(found)]


def _folder() -> Path:
    return settings.home() / "run" / "spark-work"


def _seconds_file(work: SparkWork) -> Path:
    like = hashlib.sha256("\0".join((work.kind, *work.tables)).encode()).hexdigest()[:16]
    return _folder() / "seconds" / f"{like}.json"


def _keep_seconds(work: SparkWork, seconds: float) -> None:
    file = _seconds_file(work)
    kept = read_json(file)
    if kept is None or seconds >= _WORTH_SECONDS:
        replace_json(file, [*(kept or ()), round(seconds, 1)][-_KEPT:])


def _is_alive(work: SparkWork) -> bool:
    """Whether the process that asked lives, and is no other of its number."""
    import psutil

    try:
        return psutil.Process(work.pid).create_time() <= work.since
    except psutil.Error:
        return False


def _kind(job: Callable[..., object]) -> str:
    parts = f"{getattr(job, '__module__', '')}".split(".")
    return next((_KINDS[name] for name in reversed(parts) if name in _KINDS), f"the job {getattr(job, '__qualname__', job)}")


def _long_columns(on: Sequence[tuple[str, tuple[Column, ...]]]) -> tuple[str, ...]:
    if len({table for table, _ in on}) != 1:
        return ()
    from spark.values.lake_types import can_be_long

    return _first([*dict.fromkeys(column.name for _, columns in on for column in columns if can_be_long(column))], "more column")


def _first(names: Sequence[str], noun: str) -> tuple[str, ...]:
    more = [quantity(len(names) - _MOST_NAMES, noun)] if len(names) > _MOST_NAMES else []
    return (*names[:_MOST_NAMES], *more)


def _walk(spec: object, depth: int) -> Iterator[tuple[str, tuple[Column, ...]]]:
    """Each table that is worked on, with its columns."""
    source, table = getattr(spec, "source", None), getattr(spec, "table", None)
    if isinstance(source, str) and isinstance(table, str):
        yield f"{source}.{table}", getattr(spec, "columns", ())
    elif depth and is_dataclass(spec):
        for each in fields(spec):
            yield from _walk(getattr(spec, each.name), depth - 1)
    elif depth and isinstance(spec, Sequence) and not isinstance(spec, str | bytes):
        for part in spec:
            yield from _walk(part, depth)
