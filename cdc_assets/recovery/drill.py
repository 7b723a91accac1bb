"""A drill: the newest backup of a source, restored beside its lake, is compared row by row with what silver holds there, by
a reader that has written neither; what it found is kept beside the lake's tables.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from cdc_assets.backup.documents import no_document, read_document, write_document
from cdc_assets.backup.object_layout import last_drill_key
from cdc_assets.clients import delta_rows
from cdc_assets.clients.delta_log import open_table, version_that_folded, versions_of_folds
from cdc_assets.clients.object_store import MissingObjectError, ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.recovery.backed_up_table import BackedUpTable, find_backup
from cdc_assets.recovery.restore_point import DAMAGED, AtOffsets, RestoreRequest
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.recovery.restored_source import fold_restored
from cdc_assets.registry import names
from cdc_assets.registry.errors import FailuresError, RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.silver.column_ledger import ledger_in
from spark.table.commit_metadata import Folded
from spark.table.delta_rs import open_delta
from spark.table.identifiers import double_quote, text_literal
from spark.table.table_folder import open_folder
from spark.table.topic_commits import CommittedTopic

_SLICE_ROWS = 500_000
_DIGITS = "0123456789abcdef"
_SHOWN = 3
_POSITION = "_cdc_position"


@dataclass(frozen=True)
class TablesCompared:
    """`rows` of the first table, rows that only one of the two has, columns of only one; `examples`: differing rows as texts."""

    rows: int
    only_first: int = 0
    only_second: int = 0
    columns: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.only_first or self.only_second or self.columns)


def compare_tables(first: tuple[str, int], second: tuple[str, int], *, leave_out: Collection[str] = ()) -> TablesCompared:
    """Each is a path and a version. Values of the columns in `leave_out` are not compared; that both have them is.

    Rows are counted by their values, so that of equal rows (a table without a key) each has to be there as often. In slices, by
    the end of a row's position, which an equal row has as well: what is compared at a time fits into memory.

    Raises:
        RefusalError: delta-rs reads one of them not at all.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    tables = [open_delta(path, version=version) for path, version in (first, second)]
    for (path, _), table in zip((first, second), tables, strict=True):
        if unread := delta_rows.unread_features(table):
            raise RefusalError(f"{path} cannot be compared: delta-rs does not read {', '.join(unread)}; cdc reconcile can")
    names = [[field.name for field in table.schema().fields] for table in tables]
    columns = [name for name in names[0] if name in names[1] and name not in leave_out]
    query = QueryBuilder().register("a", tables[0]).register("b", tables[1])
    try:
        rows = delta_rows.count_where(tables[0], "true") or 0
        only, examples = [0, 0], list[str]()
        for where in _slices(rows, _POSITION in columns):
            for number, (mine, other) in enumerate((("a", "b"), ("b", "a"))):
                differing = pa.table(query.execute(_difference(columns, where, mine, other)).read_all())
                only[number] += sum(differing["_cdc_count"].to_pylist())
                examples += [f"{mine}: {row}" for row in differing.slice(0, _SHOWN - len(examples) // 2).to_pylist()]
    except (DeltaError, FileNotFoundError, OSError) as error:
        raise RefusalError(f"{first[0]} at version {first[1]} cannot be compared: {str(error)[:300]}") from error
    apart = tuple(sorted(set(names[0]) ^ set(names[1])))
    return TablesCompared(rows, only[0], only[1], apart, tuple(examples))


def _slices(rows: int, has_position: bool) -> list[str]:
    if rows <= _SLICE_ROWS or not has_position:
        return ["true"]
    digits = 1 if rows <= 16 * _SLICE_ROWS else 2
    ends = list(_DIGITS) if digits == 1 else [high + low for high in _DIGITS for low in _DIGITS]
    end = f"right(coalesce({double_quote(_POSITION)}, ''), {digits})"
    listed = ", ".join(text_literal(value) for value in ends)
    return [*(f"{end} = {text_literal(value)}" for value in ends), f"{end} NOT IN ({listed})"]


def _difference(columns: list[str], where: str, mine: str, other: str) -> str:
    listed = ", ".join(double_quote(name) for name in columns)

    def count(table: str) -> str:
        return f"SELECT {listed}, count(*) AS _cdc_count FROM {table} WHERE {where} GROUP BY {listed}"

    return f"{count(mine)} EXCEPT {count(other)}"


_NAME, _KIND = "last.json", "drill"


@dataclass(frozen=True)
class DrilledTable:
    """`rows` of silver at `version`, and its history's; `differing` are those that only one of the two has."""

    table: str
    version: int | None = None
    rows: int = 0
    differing: int = 0
    problem: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether the backup gives the table back."""
        return not (self.differing or self.problem)

    @property
    def sentence(self) -> str:
        """What people are told."""
        if self.is_equal:
            return f"{quantity(self.rows, 'row')} equal" if self.version is not None else "nothing to compare yet"
        return f"{quantity(self.differing, 'row')} of {self.rows} differ" if self.differing else self.problem


@dataclass(frozen=True)
class DrillPlan:
    """What a drill would restore of a table, and with which version of silver it would compare that."""

    table: str
    version: int | None = None
    records: int = 0
    objects: int = 0
    bytes: int = 0
    problem: str = ""

    def to_json(self, source: str) -> dict[str, Any]:
        """What people and programs are told."""
        return {"source": source, **asdict(self)}


@dataclass(frozen=True)
class Drill:
    """`at` in seconds since 1970; `bytes` of the backup's objects."""

    source: str
    at: float
    seconds: float
    bytes: int
    tables: tuple[DrilledTable, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all tables are."""
        return all(table.is_equal for table in self.tables)

    @property
    def moment(self) -> str:
        """When it was, ISO 8601 in UTC."""
        return datetime.fromtimestamp(self.at, timezone.utc).isoformat(timespec="seconds")

    def to_bytes(self) -> builtins.bytes:
        """The note of it: a sealed document of a backup."""
        return write_document(_KIND, asdict(self), sealed=True)

    @classmethod
    def from_bytes(cls, data: builtins.bytes, *, key: str) -> Drill:
        """Read a note. Raises BackupError: naming the object, when it is no note of this format, or not as it was written."""
        fields = read_document(_KIND, data, key=key, sealed=True)
        try:
            return cls(**{**fields, "tables": tuple(DrilledTable(**table) for table in fields["tables"])})
        except (TypeError, KeyError) as error:
            raise no_document(_KIND, key, error) from error

    def to_json(self) -> dict[str, Any]:
        """What programs are told."""
        return {**asdict(self), "moment": self.moment, "minutes": round(self.seconds / 60, 2), "equal": self.is_equal}


def scratch_of(lake: str, source: BaseSource) -> str:
    """The lake that a source's drill restores into."""
    return f"{names.drills_path(lake, source)}/lake"


def note_drill(lake: str, source: BaseSource, drill: Drill) -> None:
    """Instead of the one before.

    The backup has it too: whoever begins from the bucket alone learns how long a restore takes.

    <source>/last-drill    written over by each drill; no table's folder has a hyphen
    """
    folder = open_folder(names.drills_path(lake, source))
    folder.make()
    folder.put(_NAME, drill.to_bytes())


def last_drill(lake: str, source: BaseSource) -> Drill | None:
    """The newest note beside the lake's tables; None: there was no drill yet.

    Raises:
        BackupError: the note is not as it was written; another drill writes it anew.
    """
    folder = open_folder(names.drills_path(lake, source))
    try:
        return Drill.from_bytes(folder.read(_NAME), key=f"{names.drills_path(lake, source)}/{_NAME}")
    except FileNotFoundError:
        return None


def drill_of_backup(store: ObjectStore, source: str) -> Drill | None:
    """The last one that the backup knows; None: of none.

    Raises:
        BackupError: the note is not as it was written; another drill writes it anew.
        StoreError: the store cannot be asked.
    """
    key = last_drill_key(source)
    try:
        return Drill.from_bytes(store.get(key), key=key)
    except MissingObjectError:
        return None


_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class Chosen:
    """A table that is compared: which version of silver, and what it has folded of the backup's topic."""

    table: Table
    version: int
    folded: Folded
    state: CommittedTopic


def drill_source(chain: Chain[BaseSource], say: Say, *, keep: bool = False) -> Drill:
    """Restore, fold and compare; the scratch lake goes afterwards, unless it is to be kept.

        choose    the newest version of each silver that has folded no more than the backup holds
        restore   bronze up to exactly that, into a scratch lake
        fold      silver and history of it, by the ordinary jobs
        compare   every row with that version
        note      when it was, how long it took, and what differs

    Raises:
        RefusalError: the source declares no backup.
        StoreError: the store cannot be asked.
    """
    store = _store_of(chain)
    began = time.time()
    with table_lock("drill", chain.source.name, "all", deadline=_BUSY_SECONDS):
        backups = {table.name: find_backup(store, chain.source.name, names.table_name(table)) for table in chain.source.tables}
        tables, chosen = list[DrilledTable](), list[Chosen]()
        for table in chain.source.tables:
            choice = _choose(chain.platform.lake, chain.source, table, backups[table.name])
            if isinstance(choice, Chosen):
                chosen.append(choice)
            else:
                tables.append(choice)
        scratch = scratch_of(chain.platform.lake, chain.source)
        open_folder(scratch).remove_all()
        points = {names.table_name(choice.table): AtOffsets(choice.state.epoch, choice.state.positions) for choice in chosen}
        request = RestoreRequest(chain.source, [choice.table for choice in chosen], store, scratch, points=points)
        tables += _play(chain.platform, request, chosen, say)
        drill = Drill(
            chain.source.name,
            began,
            time.time() - began,
            sum(backups[choice.table.name].bytes for choice in chosen),
            tuple(sorted(tables, key=lambda each: each.table)),
        )
        note_drill(chain.platform.lake, chain.source, drill)
        store.put(last_drill_key(drill.source), drill.to_bytes())
        if not keep:
            open_folder(scratch).remove_all()
        return drill


def plan_drill(chain: Chain[BaseSource]) -> list[DrillPlan]:
    """What a drill would compare now: by listings and manifests. No object is read, and nothing is written.

    Raises:
        RefusalError: the source declares no backup.
        StoreError: the store cannot be asked.
    """
    store = _store_of(chain)
    plans = []
    for table in chain.source.tables:
        backup = find_backup(store, chain.source.name, names.table_name(table))
        choice = _choose(chain.platform.lake, chain.source, table, backup)
        if isinstance(choice, Chosen):
            plans.append(
                DrillPlan(
                    names.table_name(table),
                    choice.version,
                    choice.state.all_records,
                    backup.objects,
                    backup.bytes,
                )
            )
        else:
            plans.append(DrillPlan(choice.table, problem=choice.problem))
    return sorted(plans, key=lambda plan: plan.table)


def _store_of(chain: Chain[BaseSource]) -> ObjectStore:
    if chain.source.backup is None:
        raise RefusalError(f"source {chain.source.name} declares no backup: there is nothing to drill (backup: in its file)")
    store: ObjectStore = chain.platform.store(chain.source.backup.store)
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
    restored = {result.table: result for result in restore_bronze(request, say)}
    whole = [choice for choice in chosen if restored[names.table_name(choice.table)].outcome != DAMAGED]
    drilled_tables = [
        DrilledTable(name, problem="; ".join(result.damage[:3])) for name, result in restored.items() if result.outcome == DAMAGED
    ]
    failures: dict[str, str] = {}
    try:
        fold_restored(platform, request, [choice.table for choice in whole], say)
    except FailuresError as error:
        failures = error.failures
    for choice in whole:
        name = names.table_name(choice.table)
        drilled = _compare(platform.lake, request, choice, failures.get(name, failures.get(choice.table.name, "")))
        say(f"{name}: {drilled.sentence} ({quantity(restored[name].records, 'record')} of the backup)")
        drilled_tables.append(drilled)
    return drilled_tables


def _compare(lake: str, request: RestoreRequest, choice: Chosen, failure: str) -> DrilledTable:
    name = names.table_name(choice.table)
    if failure:
        return DrilledTable(name, problem=failure)
    pairs = [(names.silver_path(lake, request.source, choice.table), choice.version, names.silver_path)]
    if choice.table.history == "scd2":
        path = names.history_path(lake, request.source, choice.table)
        version = version_that_folded(path, choice.folded)
        pairs += [(path, version, names.history_path)] if version is not None else []
    rows, differing, problems = 0, 0, list[str]()
    for path, version, path_in in pairs:
        second = path_in(request.lake, request.source, choice.table)
        made = open_table(second)
        if made is None:
            problems.append(f"{second} was not made")
            continue
        try:
            bronze_ledger = ledger_in(made.metadata().configuration)
            # What it held stands in the renamed column as well, which is compared.
            left = bronze_ledger.leftovers() if bronze_ledger else ()
            difference = compare_tables((path, version), (second, int(made.version())), leave_out=left)
        except RefusalError as error:
            problems.append(str(error))
            continue
        rows, differing = rows + difference.rows, differing + difference.only_first + difference.only_second
        problems += (
            [f"{path} and the restored one have other columns: {', '.join(difference.columns)}"] if difference.columns else []
        )
        problems += (
            [f"{path} version {version} (a) and {second} (b): {'; '.join(difference.examples)}"] if difference.examples else []
        )
    return DrilledTable(name, choice.version, rows, differing, "; ".join(problems))
