"""A drill: the newest backup of a source, restored beside its lake, is compared with what silver holds there.

choose    the newest version of each silver that has folded no more than the backup holds
restore   bronze up to exactly that, into a scratch lake
fold      silver and history of it, by the ordinary jobs
compare   every row with that version
note      when it was, how long it took, and what differs
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.errors import RestoreError, TableFailuresError
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import open_table, version_that_folded, versions_of_folds
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.restore.backed_up_table import BackedUpTable, find_backup
from cdc_assets.restore.drill_record import Drill, DrilledTable, DrillPlan, keep_drill, note_drill, scratch_of
from cdc_assets.restore.restore_point import AtOffsets
from cdc_assets.restore.restore_request import DAMAGED, RestoreRequest
from cdc_assets.restore.restore_source import fold_restored
from cdc_assets.restore.restored_bronze import restore_bronze
from cdc_assets.restore.table_comparison import compare_tables
from spark.delta.commits import Folded
from spark.delta.topic_commits import CommittedTopic
from spark.lake.folder import open_folder
from spark.schema.column_ledger import ledger_in

Say = Callable[[str], None]
_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class Chosen:
    """A table that is compared: which version of silver, and what it has folded of the backup's topic."""

    table: Table
    version: int
    folded: Folded
    state: CommittedTopic


def drill_source(platform: Platform, source: BaseSource, say: Say, *, keep: bool = False) -> Drill:
    """Restore, fold and compare; the scratch lake goes afterwards, unless it is to be kept.

    Raises:
        RestoreError: the source declares no backup.
        StoreError: the store cannot be asked.
    """
    store = _store_of(platform, source)
    began = time.time()
    with table_lock("drill", source.name, "all", deadline=_BUSY_SECONDS):
        found = {table.name: find_backup(store, source.name, names.table_name(table)) for table in source.tables}
        tables, chosen = list[DrilledTable](), list[Chosen]()
        for table in source.tables:
            each = _choose(platform.lake, source, table, found[table.name])
            if isinstance(each, Chosen):
                chosen.append(each)
            else:
                tables.append(each)
        scratch = scratch_of(platform.lake, source)
        open_folder(scratch).remove_all()
        points = {names.table_name(each.table): AtOffsets(each.state.epoch, each.state.positions) for each in chosen}
        request = RestoreRequest(source, [each.table for each in chosen], store, scratch, points=points)
        tables += _play(platform, request, chosen, say)
        drill = Drill(
            source.name,
            began,
            time.time() - began,
            sum(found[each.table.name].bytes for each in chosen),
            tuple(sorted(tables, key=lambda each: each.table)),
        )
        note_drill(platform.lake, source, drill)
        keep_drill(store, drill)
        if not keep:
            open_folder(scratch).remove_all()
        return drill


def plan_drill(platform: Platform, source: BaseSource) -> list[DrillPlan]:
    """What a drill would compare now: by listings and manifests. No object is read, and nothing is written.

    Raises:
        RestoreError: the source declares no backup.
        StoreError: the store cannot be asked.
    """
    store = _store_of(platform, source)
    plans = []
    for table in source.tables:
        found = find_backup(store, source.name, names.table_name(table))
        each = _choose(platform.lake, source, table, found)
        if isinstance(each, Chosen):
            plans.append(DrillPlan(names.table_name(table), each.version, each.state.all_records, found.objects, found.bytes))
        else:
            plans.append(DrillPlan(each.table, problem=each.problem))
    return sorted(plans, key=lambda plan: plan.table)


def _store_of(platform: Platform, source: BaseSource) -> ObjectStore:
    if source.backup is None:
        raise RestoreError(f"source {source.name} declares no backup: there is nothing to drill (backup: in its file)")
    store: ObjectStore = platform.store(source.backup.store)
    return store


def _choose(lake: str, source: BaseSource, table: Table, found: BackedUpTable) -> Chosen | DrilledTable:
    name, path = names.table_name(table), names.silver_path(lake, source, table)
    if found.damage:
        return DrilledTable(name, problem="; ".join(found.damage[:3]))
    if open_table(path) is None:
        return DrilledTable(name) if not found.records else DrilledTable(name, problem="there is a backup and no silver")
    for version, folded in versions_of_folds(path):
        states = [state for state in folded.topics.values() if found.holds(state.epoch, state.positions, state.records)]
        if len(states) == len(folded.topics) == 1:
            return Chosen(table, version, folded, states[0])
    return DrilledTable(name, problem="the backup holds less than the oldest version of silver that is left: cdc status")


def _play(platform: Platform, request: RestoreRequest, chosen: list[Chosen], say: Say) -> list[DrilledTable]:
    restored = {each.table: each for each in restore_bronze(request, say)}
    whole = [each for each in chosen if restored[names.table_name(each.table)].outcome != DAMAGED]
    told = [DrilledTable(name, problem="; ".join(each.damage[:3])) for name, each in restored.items() if each.outcome == DAMAGED]
    failures: dict[str, str] = {}
    try:
        fold_restored(platform, request, [each.table for each in whole], say)
    except TableFailuresError as error:
        failures = error.failures
    for each in whole:
        name = names.table_name(each.table)
        drilled = _compare(platform.lake, request, each, failures.get(name, failures.get(each.table.name, "")))
        say(f"{name}: {drilled.sentence} ({quantity(restored[name].records, 'record')} of the backup)")
        told.append(drilled)
    return told


def _compare(lake: str, request: RestoreRequest, each: Chosen, failure: str) -> DrilledTable:
    """Silver, and the history where the table has one that has folded as much."""
    name = names.table_name(each.table)
    if failure:
        return DrilledTable(name, problem=failure)
    pairs = [(names.silver_path(lake, request.source, each.table), each.version, names.silver_path)]
    if each.table.history == "scd2":
        path = names.history_path(lake, request.source, each.table)
        version = version_that_folded(path, each.folded)
        pairs += [(path, version, names.history_path)] if version is not None else []
    rows, differing, problems = 0, 0, list[str]()
    for path, version, path_in in pairs:
        second = path_in(request.lake, request.source, each.table)
        made = open_table(second)
        if made is None:
            problems.append(f"{second} was not made")
            continue
        try:
            told = ledger_in(made.metadata().configuration)
            # What it held stands in the renamed column as well, which is compared.
            left = told.leftovers() if told else ()
            found = compare_tables((path, version), (second, int(made.version())), leave_out=left)
        except RestoreError as error:
            problems.append(str(error))
            continue
        rows, differing = rows + found.rows, differing + found.only_first + found.only_second
        problems += [f"{path} and the restored one have other columns: {', '.join(found.columns)}"] if found.columns else []
        problems += [f"{path} version {version} (a) and {second} (b): {'; '.join(found.examples)}"] if found.examples else []
    return DrilledTable(name, each.version, rows, differing, "; ".join(problems))
