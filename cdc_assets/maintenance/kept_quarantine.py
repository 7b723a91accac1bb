"""Which records of a table's quarantine may go: those folded after all longer ago than it declares, and heeded by all readers."""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_committed
from spark.maintenance.settled_records import SettledRecords

_MICROSECONDS = 1_000_000


def find_settled_records(lake: str, source: BaseSource, table: Table) -> SettledRecords | None:
    """None where the table keeps all of them, or has not been folded since."""
    keep, folded = table.quarantine.keep, silver_committed(names.silver_path(lake, source, table))
    if keep is None or folded is None:
        return None
    until = int((time.time() - keep.total_seconds()) * _MICROSECONDS)
    if table.history == "scd2":
        # It folds the keys of records anew that were redriven since; until then their rows have to tell which.
        history = silver_committed(names.history_path(lake, source, table))
        until = min(until, history.settled + 1) if history is not None else 0
    return SettledRecords(until, folded.version)
