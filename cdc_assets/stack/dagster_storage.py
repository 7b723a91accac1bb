"""Dagster's PostgreSQL storage with connections that are kept.

dagster-postgres opens a connection for every statement (`NullPool`), which is right for many daemons on one server. Here all
processes share one machine: a start made some thousand connections, each a forked backend and a SCRAM handshake (ADR 0012).

Each tick of a sensor makes an instance of its own, and with it a storage. So the connections belong to the process: a storage
takes those that are there, and looks for its tables only once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dagster_postgres import DagsterPostgresStorage
from dagster_postgres.utils import create_pg_engine, pg_url_from_config
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dagster._serdes import ConfigurableClassData

# Per process, the rest is opened for a moment; the server allows 100, and every run is a process.
KEPT, AT_MOST = 2, 20


_POOLS: dict[tuple[int, str], Any] = {}
"""By process, since a fork must not speak on its parent's connections (runs are forks, ADR 0069), and by address."""


class PooledPostgresStorage(DagsterPostgresStorage):
    """Runs, events and schedules through one pool; a connection that PostgreSQL has dropped is replaced before it is used."""

    def __init__(self, postgres_url: str, *, inst_data: ConfigurableClassData | None = None) -> None:
        # Whoever uses the stack's instance writes the logs of its runs below CDC_HOME: `dg launch` in a shell of the user's, too.
        os.umask(0o077)
        place = (os.getpid(), postgres_url)
        super().__init__(postgres_url, should_autocreate_tables=place not in _POOLS, inst_data=inst_data)
        engine = _POOLS.get(place) or _POOLS.setdefault(place, engine_with_pool(postgres_url))
        for storage in (self._run_storage, self._event_log_storage, self._schedule_storage):
            storage._engine = engine

    @override
    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> PooledPostgresStorage:
        return cls(pg_url_from_config(config_value), inst_data=inst_data)


def engine_with_pool(postgres_url: str) -> Any:
    """Of SQLAlchemy; each statement is a transaction, as dagster-postgres has it."""
    return create_pg_engine(
        postgres_url, isolation_level="AUTOCOMMIT", pool_size=KEPT, max_overflow=AT_MOST - KEPT, pool_pre_ping=True
    )
