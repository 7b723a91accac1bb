"""The first records of a table, which bronze has given to the backup, brought back beside the lake for who asks for all events.

They are a restore up to exactly where bronze begins, into a lake of its own (names.past_lake). The jobs read them together with
bronze (spark.bronze.change_log). They are read again from there until maintenance removes them, a day after they came.
"""

from __future__ import annotations

import logging

from cdc_assets.backup.manifest_chain import BackupBase, find_base
from cdc_assets.clients.delta_log import bronze_committed, bronze_floors
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.recovery.backed_up_table import find_backup
from cdc_assets.recovery.restore_point import DAMAGED, RESTORED, AtOffsets, RestoredTable, RestoreRequest
from cdc_assets.recovery.restored_bronze import TableFiles, commit_tables, restore_bronze
from cdc_assets.recovery.row_groups import Reached
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import BronzeExpiredError, quantity
from spark.table.needed_versions import Floor
from spark.table.table_folder import open_folder
from spark.table.topic_commits import CommittedTopic

STAYS_SECONDS = 86_400.0
_BUSY_SECONDS = 600.0
_LOG = logging.getLogger(__name__)


def floor_of_table(lake: str, source: BaseSource, table: Table) -> Floor | None:
    """Up to where bronze has nothing of the table any more; None: it has all."""
    floors = bronze_floors(names.bronze_path(lake, source)).values()
    return next((floor for floor in floors if floor.table == names.table_name(table)), None)


def bring_back(chain: Chain[BaseSource], table: Table, say: Say) -> RestoredTable | None:
    """The first records of a table, restored beside the lake; None: bronze has all of the table.

    What is of epochs that the backup does not keep any more does not come back.

    Raises:
        RefusalError: the backup is damaged there, naming the objects, or has other counts than bronze says went there.
        StoreError: the store cannot be asked.
    """
    name, lake = names.table_name(table), names.past_lake(chain.platform.lake, chain.source, table)
    floor = floor_of_table(chain.platform.lake, chain.source, table)
    if floor is None:
        return None
    if chain.source.backup is None:
        raise RefusalError(
            f"{chain.source.name} declares no backup, and the first records of {name} are in one: put backup: back"
        )
    with table_lock("past", chain.source.name, name, deadline=_BUSY_SECONDS):
        store, point = chain.platform.store(chain.source.backup.store), AtOffsets(floor.epoch, floor.positions)
        request, base = (
            RestoreRequest(chain.source, [table], store, lake, points={name: point}),
            find_base(store, chain.source.name, name),
        )
        first_epoch = base.epoch if base else 0
        kept, epoch, there = floor.records_from(first_epoch), max(floor.epoch, first_epoch), bronze_committed(request.path)
        states = there.of_table(name).values() if there is not None else ()
        # What came back before ends elsewhere once bronze has given more to the backup, and begins elsewhere behind a new base.
        if any((state.all_records, state.epoch) != (kept, epoch) for state in states):
            open_folder(lake).remove_all()
        (result,) = restore_bronze(request, say)
        if base is not None and floor.epoch < base.epoch and result.outcome != DAMAGED:
            result = _begin_behind(request, name, base)
    if result.outcome == DAMAGED:
        raise RefusalError(
            f"the first {quantity(kept, 'record')} of {name} do not come back, and nothing is changed: {'; '.join(result.damage)}"
        )
    if result.records != kept:
        raise RefusalError(f"{name}: bronze gave {quantity(kept, 'record')} to the backup, and {result.records} come back")
    return result


def _begin_behind(request: RestoreRequest, name: str, base: BackupBase) -> RestoredTable:
    """All that bronze has given away is of epochs that the backup does not keep: an empty log says so."""
    state = CommittedTopic(name, base.topic_id, base.epoch, {})
    if bronze_committed(request.path) is None:
        commit_tables(request, [TableFiles(find_backup(request.store, base.source, name), Reached(state), [])])
    return RestoredTable(name, RESTORED).with_state(state)


def bring_back_for_job(platform: Platform, error: BronzeExpiredError) -> bool:
    """Bring back what a job has asked for, so that it can be run again; False where the registry does not know the table.

    Raises:
        RefusalError, StoreError: as bring_back.
    """
    for source in load_sources(settings.sources_folder()):
        for table in source.tables:
            if (source.name, names.table_name(table)) == (error.source, error.table):
                return bring_back(Chain(platform, source), table, _LOG.info) is not None
    return False


def remove_past(lake: str, source: BaseSource) -> list[str]:
    """Remove what came back more than a day ago; the names of its tables."""
    gone = []
    for table in source.tables:
        folder = open_folder(names.past_lake(lake, source, table))
        begun = [file.at for file in folder.tree() if file.name.endswith(".parquet")]
        if begun and folder.now() - max(begun) > STAYS_SECONDS:
            folder.remove_all()
            gone.append(names.table_name(table))
    return gone
