"""A source's backup, table by table: epochs that are older than it keeps go, or it is told what would, and why nothing does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from cdc_assets import names, settings
from cdc_assets.backup.old_epochs import OldEpochs, TableInLake, find_old_epochs, remove_old_epochs
from cdc_assets.errors import CdcAssetsError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.retention import backup_keep
from cdc_assets.resources.delta_log import bronze_committed, bronze_floors
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock

_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class ExpiredTable:
    """What became of a table's backup; `failed`: it could not be looked at, or not all went, for the reason in `found.held`."""

    table: Table
    found: OldEpochs
    failed: bool = False


def expire_backups(
    platform: Platform, source: BaseSource, *, dry_run: bool = False, now: float | None = None
) -> Iterator[ExpiredTable]:
    """Tables of which the backup keeps all are left out. With `dry_run` nothing is changed, and nothing noted.

    One table's failure is its own.
    """
    for table in source.tables:
        if backup_keep(source, table) is None:
            continue
        try:
            yield ExpiredTable(table, _expire(platform, source, table, dry_run, time.time() if now is None else now))
        except CdcAssetsError as error:
            yield ExpiredTable(table, OldEpochs(names.table_name(table), held=str(error)), failed=True)


def _expire(platform: Platform, source: BaseSource, table: Table, dry_run: bool, now: float) -> OldEpochs:
    name, keep = names.table_name(table), backup_keep(source, table)
    assert source.backup is not None
    assert keep is not None
    store = platform.store(source.backup.store)
    with table_lock("backup", source.name, name, deadline=_BUSY_SECONDS):
        lake = _look_at_lake(platform, source, table)
        found = find_old_epochs(store, lake, keep=keep, now=now, note=not dry_run)
        if not dry_run:
            remove_old_epochs(store, source.name, found)
    return found


def _look_at_lake(platform: Platform, source: BaseSource, table: Table) -> TableInLake:
    path, name = names.bronze_path(platform.lake, source), names.table_name(table)
    committed = bronze_committed(path)
    states = committed.of_table(name) if committed is not None else {}
    topic = names.lake_topic(source, table)
    return TableInLake(
        source.name,
        name,
        path,
        states.get(topic) if len(states) == 1 else None,
        partial(_topic_ends, platform, topic),
        gives=source.bronze.keep is not None,
        floor=bronze_floors(path).get(topic),
        copies=settings.home() / "cache" / "manifests",
    )


def _topic_ends(platform: Platform, topic: str) -> tuple[str, Mapping[int, int]] | None:
    state = platform.lake_kafka().states([topic]).get(topic)
    return None if state is None else (state.topic_id, state.ends)
