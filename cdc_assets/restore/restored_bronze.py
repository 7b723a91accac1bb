"""Bronze made again from the backup of a source, table by table, and one commit for all of them at the end.

    refuse    bronze that holds records of a table already is left alone
    write     files of some batches each, which no commit names yet
    commit    all files of all tables that are whole, with the state that the ordinary appends had reached

Nobody sees a part of it: until the commit there is no table. Killed at any point, the same call goes on behind the last file.
The next ordinary append goes on behind the restored offsets, because it reads them from the commit as from any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cdc_assets import names
from cdc_assets.errors import RestoreError
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.table_lock import layer_of_lake, table_lock
from cdc_assets.restore.backed_up_table import BackedUpTable, drop_unfinished, find_backup
from cdc_assets.restore.bronze_commit import TableFiles, commit_tables
from cdc_assets.restore.group_reader import GroupReader
from cdc_assets.restore.kept_groups import File, KeptGroups
from cdc_assets.restore.older_lines import OlderLines
from cdc_assets.restore.restore_point import RestorePoint
from cdc_assets.restore.restore_request import DAMAGED, EMPTY, RESTORED, THERE, RestoredTable, RestoreRequest
from cdc_assets.restore.row_groups import Reached, row_groups
from spark.delta.topic_commits import CommittedTopic, TopicCommit

Say = Callable[[str], object]
_BUSY_SECONDS = 5.0


def plan_bronze(request: RestoreRequest) -> list[RestoredTable]:
    """What a restore would find now: one listing per table, and its manifests. No object is read, and nothing is written.

    Raises:
        RestoreError: bronze holds records of a table already.
        StoreError: the store cannot be asked.
    """
    return [_there(request, table) or _outlook(request, find_backup_of(request, table)) for table in request.tables]


def restore_bronze(request: RestoreRequest, say: Say) -> list[RestoredTable]:
    """Bring bronze to what the backup holds. A table with damage is left out, unless that is to be skipped.

    Raises:
        RestoreError: bronze holds records of a table already, or others write it at the same time.
        StoreError: the store cannot be asked; the next call goes on.
    """
    with table_lock(layer_of_lake("restore", request.lake), request.source.name, "all", deadline=_BUSY_SECONDS):
        there = {table.name: _there(request, table) for table in request.tables}
        outcomes, ready = list[RestoredTable](), list[TableFiles]()
        for table in request.tables:
            outcome, files = (there[table.name], None) if there[table.name] else _write(request, table, say)
            assert outcome is not None
            outcomes.append(outcome)
            ready += [files] if files is not None else []
        commit_tables(request, ready)
        if request.is_successor:
            for each in ready:
                drop_unfinished(request.store, each.found)
        return outcomes


def find_backup_of(request: RestoreRequest, table: Table) -> BackedUpTable:
    """What the request's store has of a table."""
    name = names.table_name(table)
    return request.found.get(name) or find_backup(request.store, request.source.name, name)


def _there(request: RestoreRequest, table: Table) -> RestoredTable | None:
    """A table that was restored before, as the request asks; None where bronze has nothing of it."""
    name, committed = names.table_name(table), bronze_committed(request.path)
    states = committed.of_table(name) if committed else {}
    if not states:
        return None
    (state,) = list(states.values())[:1]
    noted = KeptGroups(request.path).state_of(name, request.point_note(name))
    if noted is not None and _has_all_of(state, noted):
        return RestoredTable(name, THERE).with_state(state)
    raise RestoreError(
        f"{request.path} holds {quantity(state.all_records, 'record')} of {name} already, up to {state.positions}; nothing is "
        f"changed. Beside it: cdc restore {request.source.name} {name} --into FOLDER. In its place: stop the source's runs and "
        f"move {request.path} away first (docs/how-to/restore.md)"
    )


def _has_all_of(state: CommittedTopic, noted: CommittedTopic) -> bool:
    """Whether bronze is what was restored, or has gone on from there."""
    if (state.topic_id, state.epoch) != (noted.topic_id, noted.epoch):
        return state.epoch > noted.epoch and any(past.epoch == noted.epoch for past in (*state.before, *state.earlier))
    return state.all_records >= noted.all_records and all(state.positions.get(p, 0) >= end for p, end in noted.positions.items())


def _outlook(request: RestoreRequest, found: BackedUpTable) -> RestoredTable:
    if not (found.manifests or found.epochs or found.damage):
        return RestoredTable(found.table, EMPTY)
    outcome = DAMAGED if found.damage and not request.skip_damaged else RESTORED
    plans = [*(m.plan for m in found.manifests), *found.epochs]
    told = RestoredTable(found.table, outcome, found.records, found.objects, found.bytes, damage=found.damage)
    if not found.manifests:
        return replace(told, epoch=max((plan.epoch for plan in plans), default=-1))
    return replace(told, epoch=max(plan.epoch for plan in plans), positions=found.manifests[-1].positions)


def _write(request: RestoreRequest, table: Table, say: Say) -> tuple[RestoredTable, TableFiles | None]:
    found = find_backup_of(request, table)
    outlook = _outlook(request, found)
    if outlook.outcome != RESTORED:
        return outlook, None
    files = write_table(request, found, OlderLines.of(request.source, table), say)
    damage = (*found.torn, *files.reached.damage)
    if damage and not request.skip_damaged:
        return replace(outlook, outcome=DAMAGED, damage=damage), None
    told = replace(outlook, damage=damage, unknown=files.reached.unknown).with_state(files.reached.state)
    return (told, files) if files.reached.state is not None else (replace(told, outcome=EMPTY, records=0), None)


def write_table(request: RestoreRequest, found: BackedUpTable, older: OlderLines, say: Say) -> TableFiles:
    """The table's files, none of which is in a commit yet; what an earlier call has written is not written again."""
    point, kept = request.point(found.table), KeptGroups(request.path)
    reader = GroupReader(request.store, point, older, dict(found.broken))
    reached, files = Reached(), list[File]()
    groups = list(row_groups(found, point))
    for number, group in enumerate(groups):
        if reached.stopped and (reached.state is None or group.plan.epoch != reached.state.epoch):
            break
        reached = _pass_empty_epochs(found, point, reached, below=group.plan.epoch)
        known = kept.find(group.identity)
        if known is None:
            rows, after = reader.read(group, reached)
            known = write_rows(request.path, rows), after
            if not known[1].damage:  # else it is read again: the object may have been brought back
                kept.keep(group.identity, found.table, *known)
        file, reached = known
        files += [file] if file is not None else []
        records = reached.state.all_records if reached.state else 0
        say(f"{found.table}: {quantity(records, 'record')}, {number + 1} of {quantity(len(groups), 'part')}")
    if not reached.stopped:
        reached = _pass_empty_epochs(found, point, reached, below=None)
    return TableFiles(found, reached, files)


def _pass_empty_epochs(found: BackedUpTable, point: RestorePoint, reached: Reached, *, below: int | None) -> Reached:
    """Epochs without a record take away what was before, and a number that rises."""
    held = {manifest.plan.epoch for manifest in found.manifests}
    for plan in found.epochs:
        done = reached.state is not None and plan.epoch <= reached.state.epoch
        if done or plan.epoch in held or (below is not None and plan.epoch >= below) or not point.has_epoch(plan.epoch):
            continue
        share = TopicCommit(plan.table, plan.topic_id, plan.epoch, ranges=dict(plan.ranges))
        reached = replace(reached, state=share.after(reached.state))
    return reached


def write_rows(path: str, rows: object) -> File | None:
    """As one file of the table; no commit names it yet."""
    import pyarrow as pa

    from spark.delta.data_files import write_file
    from spark.lake.folder import open_folder

    assert isinstance(rows, pa.Table)
    if not rows.num_rows:
        return None
    folder = open_folder(path)
    folder.make()
    return write_file(folder, rows)
