"""Which windows of a source's ledger may go: those older than it declares, but for those that do not balance."""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.ledger.balance import hops
from cdc_assets.ledger.read import places, read_windows
from cdc_assets.registry.models import BaseSource
from spark.maintenance.old_windows import OldWindows


def find_old_windows(lake: str, source: BaseSource) -> OldWindows | None:
    """None where the source keeps all of its ledger, or has none yet."""
    counted = places(lake, source)
    if source.ledger.keep is None or not counted:
        return None
    until, kept = int(time.time() - source.ledger.keep.total_seconds()), set[tuple[str, int, str]]()
    for table in source.tables:
        name = names.table_name(table)
        if name not in counted:
            continue
        for hop in hops(read_windows(lake, source, table), counted[name], mirrored=names.is_mirrored(source)):
            kept |= {(name, int(window.start.timestamp()), window.op) for window in hop.differing}
    return OldWindows(until, frozenset(kept))
