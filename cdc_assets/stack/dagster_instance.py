"""Parts of the stack's Dagster instance that dagster.yaml names: its storage and its run launcher.

dagster-postgres opens a connection for every statement (`NullPool`). Here all processes share one machine: a start made some
thousand connections, each a forked backend and a SCRAM handshake (ADR 0012). Each tick of a sensor makes an instance, and with
it a storage, so connections and what was found of the schema belong to the process (ADR 0081).

Dagster's code server tells when a run of its own dies; a run that died with it stays STARTED for good. Dagster's run monitoring
asks the launcher about each run, which Dagster's own launcher does not answer, and this one does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg
import psutil
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster_postgres import DagsterPostgresStorage
from dagster_postgres.utils import create_pg_engine, pg_url_from_config
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster._serdes import ConfigurableClassData

# Per process, the rest is opened for a moment; the server allows 100, and every run is a process.
KEPT, AT_MOST = 2, 20
_FRESH_SECONDS = 1.0
"""A connection that was used so recently is not asked whether it lives: a tick makes a dozen statements one after the other."""
_SCHEMA_QUESTIONS = {
    "_event_log_storage": ("has_asset_key_col", "has_secondary_index"),
    "_run_storage": ("has_built_index", "has_run_stats_index_cols", "has_bulk_actions_selector_cols", "has_backfill_tags_table"),
    "_schedule_storage": ("has_instigators_table", "has_secondary_index_table", "has_built_index"),
}


@dataclass(frozen=True)
class _Kept:
    """What a process keeps of a database: its connections, and what it has been asked of its schema and has."""

    engine: Any
    there: set[tuple[str, ...]] = field(default_factory=set)

    def remember(self, name: str, storage: Any) -> None:
        """Ask no more for what was there once. What is not there is asked for again: a migration may make it."""
        for question in _SCHEMA_QUESTIONS[name]:
            setattr(storage, question, partial(self._is_there, (name, question), getattr(storage, question)))

    def _is_there(self, of: tuple[str, str], ask: Callable[..., bool], *named: str) -> bool:
        if (*of, *named) not in self.there and ask(*named):
            self.there.add((*of, *named))
        return (*of, *named) in self.there


_BY_PROCESS: dict[tuple[int, str], _Kept] = {}
"""By process, since a fork must not speak on its parent's connections (runs are forks, ADR 0069), and by address."""


class PooledPostgresStorage(DagsterPostgresStorage):
    """Runs, events and schedules through one pool; a connection that PostgreSQL has dropped is replaced before it is used.

    A connection for every statement (`NullPool`) is right for many daemons on one server. A storage takes those that are there,
    and looks for its tables only once: a tick looked for the same tables, columns and indexes a dozen times, for half of its
    processor time (ADR 0081).
    """

    def __init__(self, postgres_url: str, *, inst_data: ConfigurableClassData | None = None) -> None:
        # Whoever uses the stack's instance writes the logs of its runs below CDC_HOME: `dg launch` in a shell of the user's, too.
        os.umask(0o077)
        key = (os.getpid(), postgres_url)
        super().__init__(postgres_url, should_autocreate_tables=key not in _BY_PROCESS, inst_data=inst_data)
        kept = _BY_PROCESS.get(key) or _BY_PROCESS.setdefault(key, _Kept(engine_with_pool(postgres_url)))
        for name in _SCHEMA_QUESTIONS:
            storage = getattr(self, name)
            storage._engine = kept.engine
            kept.remember(name, storage)

    @override
    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> PooledPostgresStorage:
        return cls(pg_url_from_config(config_value), inst_data=inst_data)


def engine_with_pool(postgres_url: str) -> Any:
    """Of SQLAlchemy; each statement is a transaction, as dagster-postgres has it."""
    engine = create_pg_engine(postgres_url, isolation_level="AUTOCOMMIT", pool_size=KEPT, max_overflow=AT_MOST - KEPT)
    event.listen(engine, "checkin", lambda _, record: record.info.update(used=time.monotonic()))
    event.listen(engine, "checkout", partial(_refuse_dropped, engine.dialect))
    return engine


def _refuse_dropped(dialect: Any, connection: Any, record: Any, _: Any) -> None:
    """As `pool_pre_ping` does it at every use. The pool opens another one (SQLAlchemy, "Dealing with Disconnects").
    Raises DisconnectionError: it does not answer."""
    if time.monotonic() - record.info.get("used", time.monotonic()) < _FRESH_SECONDS:
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise DisconnectionError(f"PostgreSQL has dropped the connection: {error}") from error


_BEFORE_ITS_REPORT = 1.0
"""Seconds by which clocks may differ: a process reports itself after it has begun."""


class WatchedRunLauncher(DefaultRunLauncher):
    """Dagster's own, for runs that are processes of this machine: those whose process is gone are found.

    After a kill of the stack, or of its machine, nobody else would ever end them: the tables of one that stays STARTED count as
    in a run, and the sensor waits for it for good. Dagster's own launcher does not answer when it is asked about a run
    (dagster._core.launcher.DefaultRunLauncher).
    """

    @override
    @property
    def supports_check_run_worker_health(self) -> bool:
        """It does: a run is a process of this machine."""
        return True

    @override
    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process that has reported itself for the run is there; one that has not yet is taken to be."""
        process = _process_of(self._instance, run)
        if process is None or _is_there(*process):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        reason = f"its process {process[0]} is gone: it was killed, or the stack or the machine was stopped meanwhile"
        return CheckRunHealthResult(WorkerStatus.FAILED, reason)


def _process_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int, float] | None:
    """Its pid, and when it told that (epoch seconds)."""
    records = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
    for record in records:
        event = record.event_log_entry.dagster_event
        pid = event.engine_event_data.metadata.get("pid") if event else None
        if pid is not None:
            return int(str(pid.value)), record.event_log_entry.timestamp
    return None


def _is_there(pid: int, told: float) -> bool:
    """Not another process that was given the same number later."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= told + _BEFORE_ITS_REPORT
    except psutil.NoSuchProcess:
        return False
