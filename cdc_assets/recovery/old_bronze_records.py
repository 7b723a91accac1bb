"""Which records may go from a source's change log: older than it keeps them, read by everyone, and proven to be in the
backup.

What goes is whole batches from the first on. Records of epochs that the backup does not keep prove nothing, and all stay.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cdc_assets.backup.manifest import Manifest
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.delta_log import bronze_committed, ledger_counted, open_table, silver_committed
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.backed_up_table import BackedUpTable, find_backup
from cdc_assets.recovery.restore_point import WholeBackup
from cdc_assets.recovery.row_groups import GroupReader, Reached, RowGroup
from cdc_assets.registry import names
from cdc_assets.registry.errors import BackupError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.delta_rs import open_delta
from spark.table.needed_versions import Floor, floors_of
from spark.upkeep.row_retention import OldRecords

if TYPE_CHECKING:
    import pyarrow as pa

    from cdc_assets.clients.object_store import ObjectStore


Found: TypeAlias = tuple[OldRecords, Mapping[str, str]]
A_DAY = 86_400.0
"""So often at most: files of which a part goes are written anew."""
_DUE_SHARE = 0.1
"""Of a log that keeps less than ten days, sooner."""
_ALL = 1 << 62
_COMPARED = 200_000
"""Records that are compared at once."""


@dataclass(frozen=True)
class Limit:
    """Up to where somebody has read a topic: partitions that are not named up to `others`."""

    epoch: int
    positions: Mapping[int, int]
    others: int = 0

    def allows(self, manifest: Manifest) -> bool:
        """Whether all records up to a batch's end have been read."""
        if manifest.plan.epoch != self.epoch:
            return manifest.plan.epoch < self.epoch
        return all(end <= self.positions.get(partition, self.others) for partition, end in manifest.positions.items())


def find_old_records(chain: Chain[BaseSource], now: float | None = None) -> Found | None:
    """What may go, and of tables of which nothing may, why. None where the source keeps all of its records, or has none.

        limits   what silver, history and ledger have of a table, and its oldest open record in quarantine
        verify   the table's whole backup: its chain of manifests, each object by the listing, its counts against bronze's
        prove    each batch of the prefix, read as a restore would read it, has bronze's records there, column by column

    What goes is whole batches from the first on: the floor that is left is the end of a manifest.

    Raises:
        StoreError: the backup's store cannot be asked.
    """
    keep, path = chain.source.bronze.keep, chain.bronze_path
    committed = bronze_committed(path) if keep is not None and chain.source.backup is not None else None
    if keep is None or chain.source.backup is None or committed is None:
        return None
    now = time.time() if now is None else now
    bronze, store = open_delta(path), chain.platform.store(chain.source.backup.store)
    if not _may_have_older(bronze, now - keep.total_seconds()):
        return None
    floors_before = floors_of(bronze.metadata().configuration)
    floors, left = dict[str, Floor](), dict[str, str]()
    for table in chain.source.tables:
        name = names.table_name(table)
        topics = sorted(committed.of_table(name))
        before = floors_before.get(topics[0]) if topics else None
        if not topics or (before and now - before.at < min(A_DAY, keep.total_seconds() * _DUE_SHARE)):
            continue
        try:
            looked = _OldOfTable(chain.platform, chain.source, table, store, now, keep.total_seconds(), topics)
            if (higher := looked.higher_floor(before, open_dataset(bronze, path))) is not None:
                floors[topics[0]] = higher
        except BackupError as error:
            left[name] = str(error)
    return OldRecords(floors, now - keep.total_seconds()), left


def _may_have_older(bronze: Any, until: float) -> bool:
    # By the bounds of bronze's files alone: to ask the backup costs a manifest for each batch.
    files = bronze.get_add_actions(flatten=True)
    if "min.timestamp" not in files.schema.names:
        return True
    return any(least is None or least.timestamp() < until for least in files["min.timestamp"].to_pylist())


@dataclass(frozen=True)
class _OldOfTable:
    """One table, and who has read how much of its topic."""

    platform: Platform
    source: BaseSource
    table: Table
    store: ObjectStore
    now: float
    keep: float
    topics: list[str]

    @property
    def name(self) -> str:
        return names.table_name(self.table)

    @property
    def topic(self) -> str:
        return self.topics[0]

    def higher_floor(self, before: Floor | None, bronze: Any) -> Floor | None:
        """The floor after what may go; None: nothing may.

        Raises:
            BackupError: the backup is not whole, or has not what bronze has.
        """
        if len(self.topics) > 1:
            raise BackupError(f"bronze has records of several topics: {', '.join(self.topics)}")
        limits = list(self._limits())
        table_backup = find_backup(self.store, self.source.name, self.name)
        base = table_backup.base
        if base is not None and (before is None or not before.reaches(base.last_epoch, base.positions)):
            # Nothing proves records of epochs that the backup does not keep, and what goes from bronze is a prefix.
            raise BackupError(f"bronze has records of epochs before {base.epoch}, which its backup does not keep: all stay")
        left = [m for m in table_backup.manifests if before is None or not before.reaches(m.plan.epoch, m.positions)]
        batches = list(_while_allowed(left, limits))
        if not batches:
            return None
        path = names.bronze_path(self.platform.lake, self.source)
        self._verify(table_backup, before, path)
        return self._prove(table_backup, batches, before, bronze)

    def _limits(self) -> Iterator[Limit]:
        """Up to where each of them has read the topic; one that has read nothing holds all of it."""
        lake, of = self.platform.lake, (self.source, self.table)
        paths = [names.silver_path(lake, *of)] + ([names.history_path(lake, *of)] if self.table.history == "scd2" else [])
        states = [folded.topics if (folded := silver_committed(path)) is not None else {} for path in paths]
        counted = ledger_counted(names.ledger_path(lake, self.source)).get(self.name)
        states.append(counted.folded if counted is not None else {})
        for committed in states:
            state = committed.get(self.topic)
            yield Limit(state.epoch, state.positions) if state is not None else Limit(-1, {})
        yield from self._quarantine_limits()

    def _quarantine_limits(self) -> Iterator[Limit]:
        """Open records of the quarantine, each as a limit of its own partition."""
        path = names.quarantine_path(self.platform.lake, self.source, self.table)
        quarantine = open_table(path)
        if quarantine is None:
            return
        columns = ["topic", "epoch", "partition", "offset", "redriven_at", "dropped_at", "superseded_by"]
        for row in open_dataset(quarantine, path).to_table(columns=columns).to_pylist():
            is_open = row["redriven_at"] is None and row["dropped_at"] is None and row["superseded_by"] is None
            if is_open and row["topic"] == self.topic:
                yield Limit(row["epoch"], {row["partition"]: row["offset"]}, others=_ALL)

    def _verify(self, found: BackedUpTable, before: Floor | None, path: str) -> None:
        if found.damage:
            raise BackupError(f"its backup is damaged: {'; '.join(found.damage[:3])}")
        ends = {(m.plan.epoch, tuple(sorted(m.positions.items()))) for m in found.manifests}
        kept = before is not None and (found.base is None or before.epoch >= found.base.epoch)
        if before is not None and kept and (before.epoch, tuple(sorted(before.positions.items()))) not in ends:
            raise BackupError("no manifest of its backup ends where bronze begins: is it another store or prefix?")
        report = verify_backup(self.store, source=self.source.name, table=self.name, bronze_path=path)
        if not report.ok:
            raise BackupError(f"its backup is not whole: {'; '.join(report.wrong[:3])}")

    def _prove(self, found: BackedUpTable, batches: list[Manifest], before: Floor | None, bronze: Any) -> Floor | None:
        """The end of the last batch of which each record is old enough; each one up to there is as bronze has it."""
        floor = before or Floor(self.name, 0, {})
        pending = list[_Batch]()
        for batch in self._old_batches(found, batches):
            if pending and (batch.epoch != pending[0].epoch or sum(waiting.rows.num_rows for waiting in pending) > _COMPARED):
                _assert_same(pending, bronze, self.topic)
                pending = []
            pending.append(batch)
            floor = _after(floor, batch, self.name)
        if pending:
            _assert_same(pending, bronze, self.topic)
        return replace(floor, at=self.now) if floor.records > (before.records if before else 0) else None

    def _old_batches(self, found: BackedUpTable, batches: list[Manifest]) -> Iterator[_Batch]:
        """As a restore reads them, up to the first with a record that is too young."""
        reader = GroupReader(self.store, WholeBackup(), dict(found.broken))
        for manifest in batches:
            rows, reached = reader.read(RowGroup((manifest,), ""), Reached())
            if reached.damage:
                raise BackupError(f"its backup is damaged: {'; '.join(reached.damage[:3])}")
            if not _is_older(rows, self.now - self.keep):
                return
            yield _Batch(manifest, rows)


@dataclass(frozen=True)
class _Batch:
    """A batch of the backup with its rows in bronze's columns."""

    manifest: Manifest
    rows: pa.Table

    @property
    def epoch(self) -> int:
        return self.manifest.plan.epoch


def _while_allowed(manifests: list[Manifest], limits: list[Limit]) -> Iterator[Manifest]:
    for manifest in manifests:
        if not all(limit.allows(manifest) for limit in limits):
            return
        yield manifest


def _is_older(rows: pa.Table, until: float) -> bool:
    import pyarrow.compute as pc

    newest = pc.max(rows["timestamp"]).as_py()
    return newest is None or newest.timestamp() < until


def _assert_same(batches: Sequence[_Batch], bronze: Any, topic: str) -> None:
    """What a restore would bring back is what would go.

    Raises:
        BackupError: naming the batches, and the column or the counts.
    """
    import pyarrow as pa

    from spark.events.arrow_records import sort_rows

    order, (first, last) = ("partition", "offset"), (batches[0].manifest.key, batches[-1].manifest.key)
    rows_held = sort_rows(pa.concat_tables([batch.rows for batch in batches]), order)
    rows = sort_rows(_rows_of(batches, bronze, topic), order)
    if rows_held.num_rows != rows.num_rows:
        raise BackupError(
            f"{first} to {last} have {quantity(rows_held.num_rows, 'record')}, and bronze has {rows.num_rows} there"
        )
    for name in rows_held.column_names:
        if not rows_held[name].equals(rows[name]):
            raise BackupError(f"{first} to {last} have another {name} than bronze: cdc backup verify")


def _rows_of(batches: Sequence[_Batch], bronze: Any, topic: str) -> pa.Table:
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from spark.events.arrow_records import BRONZE_ARROW

    anywhere = pc.scalar(False)
    for partition, (_, end) in batches[-1].manifest.plan.ranges.items():
        start = min(batch.manifest.plan.ranges.get(partition, (end, end))[0] for batch in batches)
        anywhere |= (ds.field("partition") == partition) & (ds.field("offset") >= start) & (ds.field("offset") < end)
    condition = (ds.field("topic") == topic) & (ds.field("epoch") == batches[0].epoch) & anywhere
    return bronze.to_table(columns=BRONZE_ARROW.names, filter=condition).cast(BRONZE_ARROW)


def _after(floor: Floor, batch: _Batch, table: str) -> Floor:
    placed = batch.rows["position"].drop_null().to_pylist()
    return Floor(
        table,
        batch.epoch,
        dict(batch.manifest.positions),
        _with_more(floor.counts, batch.epoch, _by_partition(batch.rows)),
        dict(Counter(floor.by_op) + Counter(batch.manifest.by_op)),
        highest=max([floor.highest, *placed]),
    )


def _by_partition(rows: pa.Table) -> dict[int, int]:
    return {count["values"]: count["counts"] for count in rows["partition"].value_counts().to_pylist()}


def _with_more(known: Mapping[int, Mapping[int, int]], epoch: int, more: Mapping[int, int]) -> dict[int, dict[int, int]]:
    counts = {ends: dict(of) for ends, of in known.items()}
    if more:
        counts[epoch] = dict(Counter(counts.get(epoch, {})) + Counter(more))
    return counts
