"""Which share of a large table's keys is compared now: another one each time, all of them in turn.

The turn follows the clock, so that nothing has to be remembered: with N shares and a rhythm of five minutes, each share
is looked at every N times five minutes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from cdc_assets import names
from cdc_assets.registry.models import Source, Table
from cdc_assets.resources.delta_log import silver_rows
from cdc_assets.resources.platform import Platform

Share = tuple[int, int]


def share_at(rows: int, *, max_rows: int, shares: int, every: float, now: float) -> Share:
    """(part, parts) of a table of so many rows; `every` and `now` in seconds."""
    parts = shares if rows > max_rows else 1
    return int(now // max(60.0, every)) % parts, parts


def shares_now(platform: Platform, source: Source, tables: Sequence[Table]) -> dict[str, Share]:
    """By short table name."""
    now = time.time()
    found = {}
    for table in tables:
        rows = silver_rows(names.silver_path(platform.lake, source, table)) or 0
        every = (table.volumetry or source.volumetry).every.total_seconds()
        wanted = table.reconciliation or source.reconciliation
        found[names.table_name(table)] = share_at(rows, max_rows=wanted.max_rows, shares=wanted.shares, every=every, now=now)
    return found
