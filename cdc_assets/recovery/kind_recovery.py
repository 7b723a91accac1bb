"""What recovery and removal do at a server of each kind, a row each.

The table stands above the files of the kinds, and imports them. Modules below it that act by a source's kind import it when they
are called, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.recovery import source_traces
from cdc_assets.recovery.kept_log import KeptLog, PostgresKeptLog
from cdc_assets.recovery.source_traces import Traces
from cdc_assets.registry.kinds import HasKind, row_of


@dataclass(frozen=True, kw_only=True)
class KindRecovery:
    """What is done for one kind; every callable takes the source. None: this kind does not have it."""

    kept_log: Callable[[Any], KeptLog] | None = None
    """A place of the server's log that moves on with the backup."""
    traces: Callable[[Any], Traces] | None = None
    """What `cdc remove` finds at the server."""


RECOVERY: Mapping[str, KindRecovery] = {
    "postgresql": KindRecovery(kept_log=PostgresKeptLog, traces=source_traces.postgresql_traces),
    "mariadb": KindRecovery(traces=source_traces.mariadb_traces),
    "mysql": KindRecovery(traces=source_traces.mysql_traces),
    "sqlserver": KindRecovery(),
    "oracle": KindRecovery(),
    "mongodb": KindRecovery(),
    "topics": KindRecovery(),
}


def recovery_of(source: HasKind) -> KindRecovery:
    """What is done for a source's kind. Raises LookupError: there is no row for the kind."""
    return row_of(RECOVERY, source.kind_name, __name__)
