"""`--to CUT`: each table ends at what the cut holds of it, so that the restored tables are the cut.

The table of cuts goes with its lake; the backup keeps what a restore needs of each cut (cdc_assets.backup.kept_cuts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from cdc_assets import names
from cdc_assets.backup.backup_base import find_base
from cdc_assets.backup.kept_cuts import KeptCut, is_name_of_cut, names_of_cuts, read_cut, write_cuts
from cdc_assets.cuts.cut_manifest import CutManifest, name_of_cut, read_cuts
from cdc_assets.errors import RestoreError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.source_settings import Cuts
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.restore.backed_up_table import BackedUpTable, find_backup
from cdc_assets.restore.before_base import before_base, refuse_before_base
from cdc_assets.restore.restore_point import AtOffsets, RestorePoint, parse_restore_point

_SHOWN = 5


def keep_cuts(lake: str, source: BaseSource, store: ObjectStore) -> int:
    """Bring the lake's cuts of the source into its backup, and remove those that are older than it keeps any; how many are new.

    Raises:
        StoreError: the store does not take it.
    """
    kept = read_cuts(lake, source)
    if not kept and source.cuts is None:
        return 0
    oldest = name_of_cut(source.name, datetime.now(timezone.utc) - (source.cuts or Cuts()).keep)
    return write_cuts(store, source.name, [_form_for_backup(cut) for cut in kept], oldest=oldest)


def restore_points(
    store: ObjectStore, source: BaseSource, tables: Sequence[Table], to: str | None, found: dict[str, BackedUpTable] | None = None
) -> dict[str, RestorePoint]:
    """By table name how far it is restored: up to a moment, a position or a cut; whole without. `found` gets the backups that
    were listed for that.

    Raises:
        RestoreError: it is none of them; the backup has no such cut, ends before it, or begins behind it; the cut has no such
            table.
        BackupError, StoreError: the cut, or where the backup begins, cannot be read.
    """
    if to is None or not is_name_of_cut(to):
        point = parse_restore_point(to)
        for name in map(names.table_name, tables if to is not None else ()):
            refuse_before_base(find_base(store, source.name, name), point)
        return {names.table_name(table): point for table in tables}
    known = names_of_cuts(store, source.name)
    if to not in known:
        newest = ", ".join(reversed(known[-_SHOWN:])) or "none"
        raise RestoreError(f"the backup of {source.name} has no cut {to}; its newest: {newest}")
    cut = read_cut(store, source.name, to)
    listed: dict[str, BackedUpTable] = {} if found is None else found
    return {name: _point(store, cut, name, listed) for name in map(names.table_name, tables)}


def _point(store: ObjectStore, cut: KeptCut, table: str, listed: dict[str, BackedUpTable]) -> RestorePoint:
    held = cut.tables.get(table)
    if held is None:
        raise RestoreError(f"cut {cut.cut} has no table {table}: it was declared later; name the others: {', '.join(cut.tables)}")
    if not held:
        return AtOffsets(-1, {})
    if len(held) > 1:
        raise RestoreError(f"cut {cut.cut} has {table} of several topics, {', '.join(held)}: restore to a time instead")
    (state,) = held.values()
    ends = {int(partition): end for partition, end in state["ends"].items()}
    listed[table] = find_backup(store, cut.source, table)
    if (base := listed[table].base) is not None and state["epoch"] < base.epoch:
        raise RestoreError(before_base(base, f"cut {cut.cut}"))
    if not listed[table].holds(state["epoch"], ends, state.get("records")):
        raise RestoreError(f"the backup of {cut.source}/{table} ends before cut {cut.cut}: name an older one, or run the backup")
    return AtOffsets(state["epoch"], ends)


def _form_for_backup(cut: CutManifest) -> KeptCut:
    tables: dict[str, Mapping[str, Mapping[str, Any]]] = {name: entry.topics for name, entry in cut.tables.items()}
    return KeptCut(cut.cut, cut.source, cut.made_at.isoformat(), cut.position, tables)
