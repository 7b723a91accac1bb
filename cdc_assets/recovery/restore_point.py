"""How far a table is restored, and what is asked of a restore: everything, or in each partition what stands before the
first record that is later than a time, a place or offsets, or what a cut holds of it.

A point that lies before what the backup keeps is refused, since it would be another table than that of the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Protocol

from cdc_assets.backup.backup_position import BackupPosition, backup_position
from cdc_assets.backup.kept_cuts import KeptCut, Topics, is_name_of_cut, names_of_cuts, read_cut, write_cuts
from cdc_assets.backup.manifest_chain import BackupBase, find_base
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.backed_up_table import BackedUpTable, find_backup
from cdc_assets.recovery.cut_manifest import name_of_cut, read_cuts
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_settings import Cuts
from cdc_assets.registry.table_declaration import Table
from spark.table.topic_commits import CommittedTopic
from spark.upkeep.replay_spec import ALL_KEYS, WantedKeys

_POSITION = re.compile(r"[0-9a-f]{4,}\.[0-9a-f.]+")


class RestorePoint(Protocol):
    """Where a restore ends.

    A prefix of each partition, and never a choice of records: what silver folds is a log without holes.
    """

    @property
    def text(self) -> str:
        """The point in messages and notes. Two points of equal text end at the same records."""

    def beyond(self, rows: Any, epoch: int) -> Any:
        """For each row of an Arrow table of bronze's columns whether it lies behind the point; null is no."""

    def has_epoch(self, epoch: int) -> bool:
        """Whether an epoch without a record had begun by then."""


@dataclass(frozen=True)
class WholeBackup:
    """All that the backup holds."""

    text: str = "newest"

    def beyond(self, rows: Any, epoch: int) -> Any:
        """False for each row."""
        return _nowhere(rows)

    def has_epoch(self, epoch: int) -> bool:
        """True for each epoch."""
        return True


@dataclass(frozen=True)
class AtTime:
    """Records that Kafka was given up to a moment, itself included."""

    moment: datetime

    @property
    def text(self) -> str:
        """ISO 8601, in UTC."""
        return self.moment.astimezone(timezone.utc).isoformat()

    def beyond(self, rows: Any, epoch: int) -> Any:
        """By the timestamp of Kafka."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.greater(rows["timestamp"], pa.scalar(self.moment, pa.timestamp("us", "UTC")))

    def has_epoch(self, epoch: int) -> bool:
        """False: an epoch without a record has no time."""
        return False


@dataclass(frozen=True)
class AtPosition:
    """Records up to a position as `_cdc_position` shows it; one without a position stands where its partition does."""

    position: str

    @property
    def text(self) -> str:
        """The position as it is."""
        return self.position

    def beyond(self, rows: Any, epoch: int) -> Any:
        """By the position in bronze."""
        import pyarrow.compute as pc

        return pc.greater(rows["position"], self.position)

    def has_epoch(self, epoch: int) -> bool:
        """By the epoch that the position begins with."""
        from spark.events.positions import epoch_prefix

        return epoch_prefix(epoch) <= self.position


@dataclass(frozen=True)
class AtOffsets:
    """What a copy of the table had folded: the earlier epochs, and of its own what stands before these offsets."""

    epoch: int
    offsets: Mapping[int, int]

    @property
    def text(self) -> str:
        """Its epoch and its offsets."""
        return f"epoch {self.epoch} {sorted(self.offsets.items())}"

    def beyond(self, rows: Any, epoch: int) -> Any:
        """By epoch, and within its own by offset."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if epoch < self.epoch:
            return _nowhere(rows)
        ends = [self.offsets.get(p, 0) if epoch == self.epoch else 0 for p in rows["partition"].to_pylist()]
        return pc.greater_equal(rows["offset"], pa.array(ends, pa.int64()))

    def has_epoch(self, epoch: int) -> bool:
        """Whether the epoch is its own, or one before."""
        return epoch <= self.epoch


def parse_restore_point(text: str | None) -> RestorePoint:
    """A time with its zone (`2026-11-25T18:00:00Z`; without one it is UTC), or a position; all without a text.

    Raises:
        RefusalError: it is neither.
    """
    if text is None:
        return WholeBackup()
    if _POSITION.fullmatch(text):
        return AtPosition(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise RefusalError(
            f"--to {text!r} is neither a time (2026-11-25T18:00:00Z) nor the name of a cut (cdc cut list) nor a position as "
            '_cdc_position of silver shows it (0000.…): cdc sql "SELECT max(_cdc_position) FROM silver.SOURCE.TABLE"'
        ) from None
    return AtTime(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))


def _nowhere(rows: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array([False]).take(pa.array([0] * rows.num_rows, pa.int64()))])


RESTORED, RESTORABLE, THERE, EMPTY, DAMAGED = "restored", "restorable", "there", "empty", "damaged"
"""Outcomes: made again; read, and could be (a plan); was there before, as it was restored once; there is no backup; left out."""


@dataclass(frozen=True)
class RestoreRequest:
    """What of a source is restored, from where, and into which lake.

    `points`, by table name, say how far; all that there is without. `skip_damaged` restores a table without its damaged objects.
    `is_successor`: the lake's next backups go on in the same store. `keys`: of the one table, those whose rows stay in its
    silver and history. `backups` are those that were listed already, by table name.
    """

    source: BaseSource
    tables: Sequence[Table]
    store: ObjectStore
    lake: str
    points: Mapping[str, RestorePoint] = field(default_factory=dict)
    skip_damaged: bool = False
    is_successor: bool = False
    keys: WantedKeys = ALL_KEYS
    backups: Mapping[str, BackedUpTable] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The change log in that lake."""
        return names.bronze_path(self.lake, self.source)

    def point(self, table: str) -> RestorePoint:
        """How far a table is restored."""
        return self.points.get(table, WholeBackup())

    def point_note(self, table: str) -> str:
        """By which a later call knows whether it asks for the same."""
        if self.keys.single:
            return f"{self.point(table).text}, keys {sorted(self.keys.single)}"
        return f"{self.point(table).text} {self.keys.text}".rstrip()

    def row_of(self, outcome: RestoredTable) -> dict[str, Any]:
        """What is printed of a table: what became of it, and which rows stay in its silver."""
        return {**outcome.to_json(), "rows": self.keys.text or "all"}


@dataclass(frozen=True)
class RestoredTable:
    """What became of a table: `outcome` is one of five words, `bytes` those of the objects in the store."""

    table: str
    outcome: str
    records: int = 0
    objects: int = 0
    bytes: int = 0
    epoch: int = -1
    positions: Mapping[int, int] = field(default_factory=dict)
    damage: tuple[str, ...] = ()

    def with_state(self, state: CommittedTopic | None) -> RestoredTable:
        """With what bronze has of it then."""
        if state is None:
            return self
        return replace(self, epoch=state.epoch, positions=state.positions, records=state.all_records)

    def to_json(self) -> dict[str, Any]:
        """For people and programs."""
        facts = {name: getattr(self, name) for name in ("table", "outcome", "records", "objects", "bytes", "epoch")}
        return {**facts, "positions": {str(p): end for p, end in sorted(self.positions.items())}, "damage": list(self.damage)}


def refuse_before_base(base: BackupBase | None, point: RestorePoint) -> None:
    """Refuse a time or a position that lies before what the backup keeps; nothing where it keeps all.

    Raises:
        RefusalError: naming the earliest moment that a restore can end at.
    """
    if base is None:
        return
    if isinstance(point, AtTime) and point.moment < datetime.fromisoformat(base.earliest):
        raise RefusalError(before_base(base, f"--to {point.text}"))
    if isinstance(point, AtPosition) and not point.has_epoch(base.epoch):
        raise RefusalError(before_base(base, f"--to {point.text}"))


def before_base(base: BackupBase, what: str) -> str:
    """The refusal, with the next command."""
    return (
        f"{what}: that is before what the backup of {base.source}/{base.table} keeps: it begins with epoch {base.epoch}, and the "
        f"earliest moment is {base.earliest} (backup.keep); nothing is changed. "
        f"Restore to that or later: cdc restore {base.source} {base.table} --to {base.earliest}"
    )


_SHOWN = 5


def keep_cuts(lake: str, source: BaseSource, store: ObjectStore) -> int:
    """Bring the lake's cuts of the source into its backup, and remove those that are older than it keeps any; how many are new.

    A cut is kept once the backup holds each of its tables up to there. So who reads the backup knows by it how far that went.

    Raises:
        BackupError: the newest manifest of a table cannot be read.
        StoreError: the store does not take it.
    """
    made = read_cuts(lake, source)
    if not made and source.cuts is None:
        return 0
    oldest = name_of_cut(source.name, datetime.now(timezone.utc) - (source.cuts or Cuts()).keep)
    kept, ends = {*names_of_cuts(store, source.name)}, _BackupEnds(store, source.name)
    cuts = [
        KeptCut(cut.cut, cut.source, cut.made_at.isoformat(), cut.position, topics)
        for cut in made
        if cut.cut not in kept and ends.hold(topics := {name: entry.topics for name, entry in cut.tables.items()})
    ]
    return write_cuts(store, source.name, cuts, oldest=oldest)


class _BackupEnds:
    """Where the backups of a source's tables end; each is asked once."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        self._store, self._source = store, source
        self._ends: dict[str, BackupPosition] = {}

    def hold(self, tables: Mapping[str, Topics]) -> bool:
        """Whether all of them reach what a cut has of its tables."""
        return all(self._holds(table, state) for table, topics in tables.items() for state in topics.values() if state["records"])

    def _holds(self, table: str, state: Mapping[str, Any]) -> bool:
        if table not in self._ends:
            self._ends[table] = backup_position(self._store, source=self._source, table=table)
        ends = {int(partition): end for partition, end in state["ends"].items()}
        return self._ends[table].holds(state["epoch"], ends, state["records"])


def restore_points(
    store: ObjectStore, source: BaseSource, tables: Sequence[Table], to: str | None, found: dict[str, BackedUpTable] | None = None
) -> dict[str, RestorePoint]:
    """By table name how far it is restored: up to a moment, a position or a cut; whole without. `found` gets the backups that
    were listed for that.

    `--to CUT`: each table ends at what the cut holds of it, so that the restored tables are the cut.

    The table of cuts goes with its lake; the backup keeps what a restore needs of each cut (cdc_assets.backup.kept_cuts).

    Raises:
        RefusalError: it is none of them; the backup has no such cut, ends before it, or begins behind it; the cut has no such
            table.
        BackupError, StoreError: the cut, or where the backup begins, cannot be read.
    """
    if to is None or not is_name_of_cut(to):
        point = parse_restore_point(to)
        for name in map(names.table_name, tables if to is not None else ()):
            refuse_before_base(find_base(store, source.name, name), point)
        return {names.table_name(table): point for table in tables}
    cut_names = names_of_cuts(store, source.name)
    if to not in cut_names:
        newest = ", ".join(reversed(cut_names[-_SHOWN:])) or "none"
        raise RefusalError(f"the backup of {source.name} has no cut {to}; its newest: {newest}")
    cut = read_cut(store, source.name, to)
    listed: dict[str, BackedUpTable] = {} if found is None else found
    return {name: _point(store, cut, name, listed) for name in map(names.table_name, tables)}


def _point(store: ObjectStore, cut: KeptCut, table: str, listed: dict[str, BackedUpTable]) -> RestorePoint:
    cut_entry = cut.tables.get(table)
    if cut_entry is None:
        raise RefusalError(f"cut {cut.cut} has no table {table}: it was declared later; name the others: {', '.join(cut.tables)}")
    if not cut_entry:
        return AtOffsets(-1, {})
    if len(cut_entry) > 1:
        raise RefusalError(f"cut {cut.cut} has {table} of several topics, {', '.join(cut_entry)}: restore to a time instead")
    (state,) = cut_entry.values()
    ends = {int(partition): end for partition, end in state["ends"].items()}
    listed[table] = find_backup(store, cut.source, table)
    if (base := listed[table].base) is not None and state["epoch"] < base.epoch:
        raise RefusalError(before_base(base, f"cut {cut.cut}"))
    if not listed[table].holds(state["epoch"], ends, state["records"]):
        raise RefusalError(f"the backup of {cut.source}/{table} ends before cut {cut.cut}: name an older one, or run the backup")
    return AtOffsets(state["epoch"], ends)
