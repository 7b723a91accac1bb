"""Bronze made again from the backup of a source, table by table, and one commit for all of them at the end, or nothing.

What is written and no commit names yet is noted in the table's own folder: a restore that was killed finds it there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.source_chain import Say
from cdc_assets.clients.table_concurrency import layer_of_lake, table_lock
from cdc_assets.recovery.backed_up_table import BackedUpTable, drop_unfinished, find_backup
from cdc_assets.recovery.restore_point import (
    DAMAGED,
    EMPTY,
    RESTORABLE,
    RESTORED,
    THERE,
    RestoredTable,
    RestorePoint,
    RestoreRequest,
)
from cdc_assets.recovery.row_groups import GroupReader, Reached, row_groups
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.table_declaration import Table
from spark.errors import LeftToSparkError, other_format, quantity
from spark.table.commit_metadata import fold
from spark.table.table_folder import LakeFolder, open_folder
from spark.table.topic_commits import CommittedTopic, TopicCommit

_NOTES, _FORMAT = "_restore", 1
File = dict[str, Any]
"""The `add` of a Parquet file; None where a group has no rows."""


class KeptGroups:
    """The notes of one bronze table.

    What a restore has written and no commit names yet, noted in the table's own folder: a restore that was killed finds it
    there.

    Delta's readers and its VACUUM leave folders alone whose name begins with an underscore.
    """

    def __init__(self, path: str) -> None:
        self.folder: LakeFolder = open_folder(path)

    def find(self, identity: str) -> tuple[File | None, Reached] | None:
        """What was written of a group; None: nothing, or it is gone."""
        note = self._read(f"{identity}.json")
        if note is None:
            return None
        file: File | None = note["file"]
        if file is not None and self._sizes.get(file["path"]) != file["size"]:
            return None
        return file, Reached.from_dict(note["reached"])

    def keep(self, identity: str, table: str, file: File | None, reached: Reached) -> None:
        """Note what was written of a group."""
        self._write(f"{identity}.json", {"table": table, "file": file, "reached": reached.to_dict()})

    def note_state(self, table: str, point: str, state: CommittedTopic) -> None:
        """What the commit that follows makes of a table."""
        self._write(f"of-{table}.json", {"table": table, "point": point, "state": state.to_dict()})

    def state_of(self, table: str, point: str) -> CommittedTopic | None:
        """The same of a table that was restored up to this point; None: it was not."""
        note = self._read(f"of-{table}.json")
        return CommittedTopic.from_dict(note["state"]) if note is not None and note["point"] == point else None

    def forget(self, tables: Collection[str], named: Collection[str]) -> None:
        """Notes of groups of these tables go, and files of theirs that the commit has not named."""
        for name in self.folder.names(_NOTES):
            note = None if name.startswith("of-") else self._read(name)
            if note is None or note["table"] not in tables:
                continue
            if note["file"] is not None and note["file"]["path"] not in named:
                self.folder.delete(note["file"]["path"])
            self.folder.delete(f"{_NOTES}/{name}")

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {file.name: file.size for file in self.folder.tree()}

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            note: dict[str, Any] = json.loads(self.folder.read(f"{_NOTES}/{name}"))
        except (FileNotFoundError, ValueError):
            return None
        if refusal := other_format(f"{self.folder.path}/{_NOTES}/{name}", "a note of a restore", note.get("cdc_assets"), _FORMAT):
            raise RefusalError(refusal)
        return note

    def _write(self, name: str, note: dict[str, Any]) -> None:
        # Put where there is none, so the note is whole or not there, also where the process ends meanwhile.
        note_path = f"{_NOTES}/{name}"
        self.folder.make()
        self.folder.delete(note_path)
        self.folder.put_if_absent(note_path, json.dumps({"cdc_assets": _FORMAT, **note}).encode())


@dataclass(frozen=True)
class TableFiles:
    """The files of one table, and the state of its topic that they make."""

    backup: BackedUpTable
    reached: Reached
    files: Sequence[File]

    @property
    def topic(self) -> str:
        """The topic that its records are of."""
        return [*self.backup.epochs, *(manifest.plan for manifest in self.backup.manifests)][-1].topic

    @property
    def state(self) -> CommittedTopic:
        """What bronze has committed of it then."""
        assert self.reached.state is not None
        return self.reached.state


def commit_tables(request: RestoreRequest, ready: Sequence[TableFiles]) -> None:
    """One commit for all tables. It says the state of each, and no share: to backup and ledger no record of these is new.

    Raises:
        RefusalError: somebody else has written bronze meanwhile.
    """
    if not ready:
        return
    kept = KeptGroups(request.path)
    for table_files in ready:
        kept.note_state(table_files.backup.table, request.point_note(table_files.backup.table), table_files.state)
    files = [file for table_files in ready for file in table_files.files]
    try:
        _commit(request, ready, files)
    except LeftToSparkError as error:
        raise RefusalError(f"{request.path} is not restored yet: {error}; run the same command again, it goes on") from error
    kept.forget({table_files.backup.table for table_files in ready}, {file["path"] for file in files})


def _commit(request: RestoreRequest, ready: Sequence[TableFiles], files: Sequence[File]) -> None:
    from spark.bronze.part_files import commit_files
    from spark.specs import BronzeSpec
    from spark.table.write_lease import lend_to_task

    with lend_to_task(request.path):
        committed = bronze_committed(request.path) or fold([])
        if committed.version >= 0 and not committed.topics:
            raise RefusalError(
                f"{request.path} is a table of somebody else; nothing is changed. Name another lake: --into FOLDER"
            )
        if taken := sorted(table_files.backup.table for table_files in ready if committed.of_table(table_files.backup.table)):
            raise RefusalError(
                f"{request.path} has records of {', '.join(taken)} since a moment ago: a run of {request.source.name} reads its "
                "topics. Stop its sensor, move that folder away, and run the same command again"
            )
        states = {**committed.topics, **{table_files.topic: table_files.state for table_files in ready}}
        spec = BronzeSpec(request.path, "", (), f"restore:{uuid.uuid4().hex}")
        commit_files(spec, replace(committed, topics=states), files, {})


_BUSY_SECONDS = 5.0


def plan_bronze(request: RestoreRequest, say: Say) -> list[RestoredTable]:
    """What a restore would find now: it reads what the restore would read, up to the same point. Nothing is written.

    Raises:
        RefusalError: bronze holds records of a table already.
        StoreError: the store cannot be asked.
    """
    return [_there(request, table) or _pass(request, table, say, is_plan=True)[0] for table in request.tables]


def restore_bronze(request: RestoreRequest, say: Say) -> list[RestoredTable]:
    """Bring bronze to what the backup holds. A table with damage is left out, unless that is to be skipped.

        refuse    bronze that holds records of a table already is left alone
        write     files of some batches each, which no commit names yet
        commit    all files of all tables that are whole, with the state that the ordinary appends had reached

    Nobody sees half of it: until the commit there is no table. Killed at any point, the same call goes on behind the last
    file. The next ordinary append goes on behind the restored offsets, because it reads them from the commit as from any other.

    Raises:
        RefusalError: bronze holds records of a table already, or others write it at the same time.
        StoreError: the store cannot be asked; the next call goes on.
    """
    with table_lock(layer_of_lake("restore", request.lake), request.source.name, "all", deadline=_BUSY_SECONDS):
        there = {table.name: _there(request, table) for table in request.tables}
        outcomes, ready = list[RestoredTable](), list[TableFiles]()
        for table in request.tables:
            restored_before = there[table.name]
            outcome, files = (restored_before, None) if restored_before is not None else _pass(request, table, say)
            outcomes.append(outcome)
            ready += [files] if files is not None else []
        commit_tables(request, ready)
        if request.is_successor:
            for table_files in ready:
                drop_unfinished(request.store, table_files.backup)
        return outcomes


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
    raise RefusalError(
        f"{request.path} holds {quantity(state.all_records, 'record')} of {name} already, up to {state.positions}; nothing is "
        f"changed. Beside it: cdc restore {request.source.name} {name} --into FOLDER. In its place: stop the source's runs and "
        f"move {request.path} away first (docs/how-to/restore.md)"
    )


def _has_all_of(state: CommittedTopic, noted: CommittedTopic) -> bool:
    if (state.topic_id, state.epoch) != (noted.topic_id, noted.epoch):
        return state.epoch > noted.epoch and any(past.epoch == noted.epoch for past in (*state.before, *state.earlier))
    return state.all_records >= noted.all_records and all(state.positions.get(p, 0) >= end for p, end in noted.positions.items())


def _outlook(request: RestoreRequest, found: BackedUpTable) -> RestoredTable:
    if not (found.manifests or found.epochs or found.damage):
        return RestoredTable(found.table, EMPTY)
    outcome = DAMAGED if found.damage and not request.skip_damaged else RESTORED
    plans = [*(m.plan for m in found.manifests), *found.epochs]
    restored = RestoredTable(found.table, outcome, found.records, found.objects, found.bytes, damage=found.damage)
    if not found.manifests:
        return replace(restored, epoch=max((plan.epoch for plan in plans), default=-1))
    return replace(restored, epoch=max(plan.epoch for plan in plans), positions=found.manifests[-1].positions)


def _pass(request: RestoreRequest, table: Table, say: Say, *, is_plan: bool = False) -> tuple[RestoredTable, TableFiles | None]:
    name = names.table_name(table)
    # As the request has listed it already, else by a listing of its store.
    table_backup = request.backups.get(name) or find_backup(request.store, request.source.name, name)
    outlook = _outlook(request, table_backup)
    if outlook.outcome != RESTORED:
        return outlook, None
    files = pass_groups(request, table_backup, say, is_plan=is_plan)
    damage = (*table_backup.torn, *files.reached.damage)
    if damage and not request.skip_damaged:
        return replace(outlook, outcome=DAMAGED, damage=damage), None
    restored = replace(outlook, outcome=RESTORABLE if is_plan else RESTORED, damage=damage).with_state(files.reached.state)
    return (restored, files) if files.reached.state is not None else (replace(restored, outcome=EMPTY, records=0), None)


def pass_groups(request: RestoreRequest, found: BackedUpTable, say: Say, *, is_plan: bool = False) -> TableFiles:
    """The table's files, none of which is in a commit yet; what an earlier call has written is not written again.

    `is_plan`: each group is read, and nothing is written.
    """
    point, kept = request.point(found.table), KeptGroups(request.path)
    reader = GroupReader(request.store, point, dict(found.broken))
    reached, files = Reached(), list[File]()
    groups = list(row_groups(found, point))
    for number, group in enumerate(groups):
        if reached.stopped and (reached.state is None or group.plan.epoch != reached.state.epoch):
            break
        reached = _pass_empty_epochs(found, point, reached, below=group.plan.epoch)
        written = None if is_plan else kept.find(group.identity)
        if written is None:
            rows, after = reader.read(group, reached)
            written = None if is_plan else write_rows(request.path, rows), after
            if not (is_plan or after.damage):  # else it is read again: the object may have been brought back
                kept.keep(group.identity, found.table, *written)
        file, reached = written
        files += [file] if file is not None else []
        records = reached.state.all_records if reached.state else 0
        say(f"{found.table}: {quantity(records, 'record')}, {number + 1} of {quantity(len(groups), 'row group')}")
    if not reached.stopped:
        reached = _pass_empty_epochs(found, point, reached, below=None)
    return TableFiles(found, reached, files)


def _pass_empty_epochs(found: BackedUpTable, point: RestorePoint, reached: Reached, *, below: int | None) -> Reached:
    """Epochs without a record take away what was before, and a number that rises."""
    epochs_held = {manifest.plan.epoch for manifest in found.manifests}
    for plan in found.epochs:
        done = reached.state is not None and plan.epoch <= reached.state.epoch
        if done or plan.epoch in epochs_held or (below is not None and plan.epoch >= below) or not point.has_epoch(plan.epoch):
            continue
        share = TopicCommit(plan.table, plan.topic_id, plan.epoch, ranges=dict(plan.ranges))
        reached = replace(reached, state=share.after(reached.state))
    return reached


def write_rows(path: str, rows: object) -> File | None:
    """As one file of the table; no commit names it yet."""
    import pyarrow as pa

    from spark.table.data_files import write_file

    assert isinstance(rows, pa.Table)
    if not rows.num_rows:
        return None
    folder = open_folder(path)
    folder.make()
    return write_file(folder, rows)
