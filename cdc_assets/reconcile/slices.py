"""Which slice of a large table is compared now: another one each time, all of the table in as many runs as it has shares.

Of a key whose order is the same on both sides (spark.reconcile.key_order) the next range of keys, from where the last run
ended (`cursors`): at the source that is a range of the key's index. Its end is chosen by the keys that silver has; the source
may have more of them in it, which are all compared. Of other primary keys the next range in the source's own order, and the next
one in silver's (spark.reconcile.own_order). Of what is left (no primary key, a sensitive one, types that are not asked for by
their texts) a share by the clock: with a rhythm of five minutes, each of N is looked at every N times five minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.reconcile import cursors, lake, unordered_keys
from cdc_assets.reconcile.lake import ComparedTable
from cdc_assets.reconcile.result import TableResult
from cdc_assets.reconcile.verdict import NOT_COMPARED
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import Source
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.databases.cuts import OwnOrderRows, open_rows
from cdc_assets.resources.delta_log import SilverState, silver_state
from cdc_assets.resources.platform import Platform

if TYPE_CHECKING:
    from spark.reconcile.key_order import KeyRange
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import Slice

Share = tuple[int, int]
Slices: TypeAlias = "Mapping[str, Slice]"
CutSlices: TypeAlias = "Mapping[str, Slice | TwoRanges]"
"""By short table name; two ranges only where rows are read at a cut."""
WHOLE: Share = (0, 1)
STATEMENT_TIMEOUT = 600.0
# Keys and hashes of two ranges are brought here: of tables above 12,700,000 rows more runs than `shares` make a round.
MOST_KEYS = 100_000


def share_at(shares: int, *, every: float, now: float) -> Share:
    """(part, parts); `every` and `now` in seconds."""
    return int(now // max(60.0, every)) % shares, shares


def slices_now(platform: Platform, source: Source, tables: Sequence[Table]) -> dict[str, Slice | TwoRanges]:
    """By short table name; tables that are compared whole are left out."""
    large = {}
    for table in tables:
        wanted = source.reconciliation_of(table)
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


def advance_cursors(source: Source, slices: CutSlices, results: Mapping[str, TableResult]) -> None:
    """The ranges of these results need not be read again in this round."""
    from spark.reconcile.key_order import KeyRange
    from spark.reconcile.own_order import TwoRanges

    ends = {}
    for name, part in slices.items():
        if results[name].verdict == NOT_COMPARED:
            continue
        if isinstance(part, TwoRanges):
            for place, keys in ((cursors.of_source(name), part.source), (cursors.of_silver(name), part.lake)):
                ends[place] = keys.columns, keys.to
        elif isinstance(part, KeyRange):
            ends[name] = part.columns, part.to
    cursors.advance(source.name, ends)


def _slice(
    platform: Platform, source: Source, table: Table, state: SilverState, shares: int, found: CatalogueTable | None
) -> Slice | TwoRanges:
    every = (table.volumetry or source.volumetry).every.total_seconds()
    by_clock = share_at(shares, every=every, now=time.time())
    if found is None:
        return by_clock
    try:
        text = lake.row_text(platform, source, table, found)
        # A range's ends are values of the key, which are kept and shown: not those of sensitive columns.
        if set(text.keys) & set(table.sensitive):
            return by_clock
        compared = ComparedTable(platform, source, table, text)
        in_own_order = text.own is not None and text.keys == found.primary_key and source.reconciliation.standby is None
        if text.order is not None and (text.order.by_index() or not in_own_order):
            return _range(compared, state, shares)
        if not in_own_order:
            return by_clock
        with open_rows(platform.database(source), statement_timeout=STATEMENT_TIMEOUT) as rows:
            if text.order is not None and text.order.by_index(rows.bytewise(table.id)):
                return _range(compared, state, shares)
            return _two_ranges(compared, state, shares, rows)
    except CdcAssetsError:
        return by_clock


def _range(compared: ComparedTable, state: SilverState, shares: int) -> KeyRange:
    from spark.reconcile.job import Next, range_end
    from spark.reconcile.key_order import KeyRange

    text = compared.text
    after = cursors.after(compared.source.name, names.table_name(compared.table), text.keys)
    asked = Next(text.spec, state.version, after, max(1, state.rows // shares))
    return KeyRange(text.keys, after, compared.platform.spark().compare(range_end, asked))


def _two_ranges(compared: ComparedTable, state: SilverState, shares: int, rows: OwnOrderRows) -> TwoRanges:
    table, text, source = compared.table, compared.text, compared.source.name
    count, name = max(1, min(state.rows // shares, MOST_KEYS)), names.table_name(table)
    key = text.in_own_order.declared
    after = (cursors.after(source, cursors.of_source(name), key), cursors.after(source, cursors.of_silver(name), key))
    there = unordered_keys.OwnOrderTable(rows, table.id, text)
    sessions = compared.platform.spark()
    return unordered_keys.following(sessions, there, version=state.version, count=count, after=after)
