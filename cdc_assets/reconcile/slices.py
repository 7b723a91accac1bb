"""Which slice of a large table is compared now: another one each time, all of the table in as many runs as it has shares.

Of a key whose order is the same on both sides (spark.reconcile.key_order) the next range of keys, from where the last run
ended (`cursors`): at the source that is a range of the key's index. Its end is chosen by the keys that silver has; the source
may have more of them in it, which are all compared. Of other keys a share by the clock: with a rhythm of five minutes, each of
N is looked at every N times five minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.reconcile import cursors, lake
from cdc_assets.reconcile.result import NOT_COMPARED, TableResult
from cdc_assets.registry.models import Source, Table
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.delta_log import SilverState, silver_state
from cdc_assets.resources.platform import Platform

if TYPE_CHECKING:
    from spark.reconcile.row_text import Slice

Share = tuple[int, int]
WHOLE: Share = (0, 1)


def share_at(shares: int, *, every: float, now: float) -> Share:
    """(part, parts); `every` and `now` in seconds."""
    return int(now // max(60.0, every)) % shares, shares


def slices_now(platform: Platform, source: Source, tables: Sequence[Table]) -> dict[str, Slice]:
    """By short table name; tables that are compared whole are left out."""
    large = {}
    for table in tables:
        wanted = table.reconciliation or source.reconciliation
        state = silver_state(names.silver_path(platform.lake, source, table))
        if state is not None and state.rows > wanted.max_rows and wanted.shares > 1:
            large[table.name] = (table, state, wanted.shares)
    if not large:
        return {}
    try:
        catalogue = platform.database(source).tables([table.id for table, _, _ in large.values()])
    except CdcAssetsError:
        # The comparison meets it as well, and says so.
        catalogue = {}
    return {
        names.table_name(table): _slice(platform, source, table, state, shares, catalogue.get(table.id))
        for table, state, shares in large.values()
    }


def compared(source: Source, slices: Mapping[str, Slice], results: Mapping[str, TableResult]) -> None:
    """The ranges of these results need not be read again in this round."""
    from spark.reconcile.key_order import KeyRange

    done = {name for name, result in results.items() if result.verdict != NOT_COMPARED}
    ranges = {name: part for name, part in slices.items() if name in done and isinstance(part, KeyRange)}
    cursors.advance(source.name, {name: (part.columns, part.to) for name, part in ranges.items()})


def _slice(
    platform: Platform, source: Source, table: Table, state: SilverState, shares: int, found: CatalogueTable | None
) -> Slice:
    from spark.reconcile.job import Next, range_end
    from spark.reconcile.key_order import KeyRange

    every = (table.volumetry or source.volumetry).every.total_seconds()
    by_clock = share_at(shares, every=every, now=time.time())
    if found is None:
        return by_clock
    try:
        text = lake.row_text(platform, source, table, found)
        # A range's ends are values of the key, which are kept and shown: not those of sensitive columns.
        if text.order is None or set(text.keys) & set(table.sensitive):
            return by_clock
        after = cursors.after(source.name, names.table_name(table), text.order.names)
        asked = Next(text.spec, state.version, after, max(1, state.rows // shares))
        return KeyRange(text.order.names, after, platform.spark().run(range_end, asked))
    except CdcAssetsError:
        return by_clock
