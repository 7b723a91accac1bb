"""Copies what bronze has and the backup lacks: a slice of bronze by offsets, as objects by hour, under a manifest put last.

A copy that was killed anywhere is done again: objects without a manifest count for nothing.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import time
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from isal import igzip

from cdc_assets.backup.backup_end import manifest_gone, remember_end
from cdc_assets.backup.backup_position import (
    BackupPosition,
    bronze_epochs,
    find_newest,
    position_in_epoch,
    refuse_expired,
    write_newest,
)
from cdc_assets.backup.json_lines import BronzeRow, LineRun, Lines, line_runs
from cdc_assets.backup.manifest import BatchPlan, Manifest, ManifestObject, facts_of
from cdc_assets.backup.object_layout import ObjectLayout, OffsetRanges, object_name, table_prefix
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError, TableBusyError
from cdc_assets.registry.source_settings import Backup
from spark.errors import quantity
from spark.table.commit_metadata import Committed, CommittedTopic
from spark.table.delta_rs import open_delta
from spark.table.needed_versions import Floor, floors_of

# A table's slice of its source's change log at one version, read through delta-rs: no JVM, bounded memory.
#
# Two passes over what is new: the first one measures (offset windows with their records and bytes, a few numbers per
# thousand records), from which batches are made; the second one reads one batch at a time.
# Offsets per window of the first pass: batches end where a window ends.
_WINDOW = 500
# pyarrow's defaults hold 16 batches of 131,072 rows of several files at a time: gigabytes of change events.
_SCAN = {"batch_size": 8192, "batch_readahead": 2, "fragment_readahead": 1}
Windows = Mapping[int, Mapping[int, tuple[int, int]]]
"""Per partition, first offset of the window -> (records, bytes)."""


@dataclass(frozen=True)
class BronzeSlice:
    """The rows of one epoch of a topic; `since` (microseconds) lets files be skipped by the timestamps in their statistics.
    `id` is the table's own. `floor`: up to where only an earlier backup has the topic."""

    dataset: Any
    topic: str
    epoch: int = 0
    since: int | None = None
    id: str = ""
    floor: Floor | None = None

    def windows(self, ranges: OffsetRanges) -> Windows:
        """First pass: where the records are, and how large."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        size = pc.add(_length(ds.field("key")), _length(ds.field("value")))
        columns = {"partition": ds.field("partition"), "window": pc.divide(ds.field("offset"), _WINDOW), "bytes": size}
        records: Counter[tuple[int, int]] = Counter()
        sizes: Counter[tuple[int, int]] = Counter()
        for batch in self.dataset.to_batches(columns=columns, filter=self._filter(ranges), **_SCAN):
            grouped = pa.Table.from_batches([batch]).group_by(["partition", "window"])
            for row in grouped.aggregate([("bytes", "sum"), ([], "count_all")]).to_pylist():
                records[row["partition"], row["window"]] += row["count_all"]
                sizes[row["partition"], row["window"]] += row["bytes_sum"]
        windows: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        for partition, window in sorted(records):
            windows[partition][window * _WINDOW] = (records[partition, window], sizes[partition, window])
        return windows

    def runs(self, ranges: OffsetRanges, layout: ObjectLayout | None = None) -> Iterator[LineRun]:
        """Second pass: the lines in order of partition and offset, by runs of one hour and partition.

        Raises:
            BackupError: when bronze holds an offset twice, or a record without a timestamp.
        """
        import pyarrow as pa

        table = self.dataset.to_table(columns=list(BronzeRow._fields), filter=self._filter(ranges), **_SCAN)
        if not _is_ordered(table):
            table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
        self._assert_sound(table)
        moments = table["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        table = table.set_column(table.column_names.index("timestamp"), "timestamp", moments)
        micros = table["source_ts"].cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
        table = table.set_column(table.column_names.index("source_ts"), "source_ts", micros)
        lines = Lines(self.topic, layout)
        for batch in table.to_batches(max_chunksize=4096):
            if len(batch):
                yield from line_runs(batch, lines)
        del table
        pa.default_memory_pool().release_unused()

    def _assert_sound(self, table: Any) -> None:
        import numpy as np

        partitions, offsets = (table[name].to_numpy() for name in ("partition", "offset"))
        twice = np.flatnonzero((np.diff(partitions) == 0) & (np.diff(offsets) == 0))
        without = np.flatnonzero(table["timestamp"].is_null().to_numpy())
        for places, wrong in ((twice, "twice"), (without, "without a timestamp")):
            if len(places):
                at = f"offset {offsets[places[0]]} of {self.topic} partition {partitions[places[0]]}"
                raise BackupError(f"bronze has {at} {wrong}: repair bronze")

    def _filter(self, ranges: OffsetRanges) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        offset = ds.field("offset")
        anywhere = pc.scalar(False)
        for partition, (first, end) in ranges.items():
            if end > first:
                anywhere |= (ds.field("partition") == partition) & (offset >= first) & (offset < end)
        condition = (ds.field("topic") == self.topic) & anywhere & (ds.field("epoch") == self.epoch)
        if self.since is not None:
            condition &= ds.field("timestamp") >= pa.scalar(self.since, pa.timestamp("us", "UTC"))
        return condition


def oldest_timestamp(committed: Committed, topic: str, after_version: int | None) -> int | None:
    """Lowest Kafka timestamp (microseconds) among a topic's appends after a version; None when not all are known."""
    if after_version is None or committed.oldest_seen > after_version + 1:
        return None
    shares = [
        topics[topic]
        for version, topics in committed.appends
        if version > after_version and topic in topics and topics[topic].records
    ]
    if any(share.min_timestamp is None for share in shares):
        return None
    return min((share.min_timestamp for share in shares if share.min_timestamp is not None), default=None)


def split_batches(
    windows: Windows, *, start: Mapping[int, int], end: Mapping[int, int], max_records: int, max_bytes: int
) -> Iterator[dict[int, tuple[int, int]]]:
    """Consecutive batches from `start` to `end`, each within both bounds, or of one window.

    Every batch names every partition; one that it takes nothing of has an empty range. Without any record there is
    no batch: nothing would be in it.
    """
    at = {partition: start.get(partition, 0) for partition in end}
    batch, records, size = dict(at), 0, 0
    for partition in sorted(end):
        for window, (more_records, more_size) in sorted(windows.get(partition, {}).items()):
            if records and (records + more_records > max_records or size + more_size > max_bytes):
                yield {p: (at[p], batch[p]) for p in at}
                at, records, size = dict(batch), 0, 0
            batch[partition] = min(window + _WINDOW, end[partition])
            records, size = records + more_records, size + more_size
        if partition in windows:
            batch[partition] = end[partition]
    if records:
        yield {p: (at[p], end[p]) for p in at}


def _is_ordered(table: Any) -> bool:
    # Files of one partition are, mostly. A sort copies all of the columns into new memory.
    import numpy as np

    partitions, offsets = (np.diff(table[name].to_numpy()) for name in ("partition", "offset"))
    return bool(np.all((partitions > 0) | ((partitions == 0) & (offsets >= 0))))


def _length(column: Any) -> Any:
    import pyarrow.compute as pc

    return pc.coalesce(pc.binary_length(column), pc.scalar(0))


# Copies what bronze has committed beyond the backup, batch by batch: its plan, its objects (gzip JSON lines by hour), then
# its manifest.
#
# Killed at any point, the next call finds the plan and finishes exactly that batch, to the same bytes; an object that a
# manifest names is never written again.
@dataclass(frozen=True)
class BatchForm:
    """A batch ends before either bound, unless one window of offsets is larger. Batches that were begun keep their own layout.

    Bytes are of keys and values: a batch's columns are in memory, twice while they are sorted. A row group of bronze is 32 to 40
    MB of them, and is read for each batch that touches it.
    """

    layout: ObjectLayout = field(default_factory=ObjectLayout)
    max_records: int = 200_000
    max_bytes: int = 64 << 20

    @classmethod
    def of(cls, backup: Backup | None) -> BatchForm:
        """As a source declares it."""
        return cls(ObjectLayout(backup.hours, backup.values)) if backup is not None else cls()


_LEVEL = 1
# Below this the lines wait uncompressed: a compressor takes 256 KB, and timestamps may be spread over very many hours.
_WAITING_BYTES = 1 << 18
_PIECES_AHEAD = 32
"""Pieces of that size which may wait for the thread: 8 MB."""


@dataclass
class HourObject:
    """Gzip without a time stamp, always packed by pieces alike: the same lines give the same bytes.

    `packing` is one thread, so that pieces are compressed in their order.

    By ISA-L, in a tenth of zlib's time for as many bytes (ADR 0111). It lets other threads work meanwhile.
    """

    packing: ThreadPoolExecutor
    records: int = 0
    min_offset: int = -1
    max_offset: int = -1
    _waiting: list[bytes] = field(default_factory=list)
    _waiting_bytes: int = 0
    _packed: io.BytesIO = field(default_factory=io.BytesIO)
    _packer: igzip.IGzipFile | None = None
    _ahead: deque[Future[None]] = field(default_factory=deque)

    def add(self, run: LineRun) -> None:
        """Append lines of JSON, each of which ends with a newline; offsets ascend."""
        if not self.records:
            self.min_offset = run.min_offset
        self.max_offset = run.max_offset
        self.records += run.records
        self._waiting.append(run.lines)
        self._waiting_bytes += len(run.lines)
        if self._waiting_bytes >= _WAITING_BYTES:
            self._pack()

    def finish(self) -> bytes:
        """The object; nothing can be added any more."""
        self._pack()
        self._await_pieces(0)
        assert self._packer is not None
        self._packer.close()
        return self._packed.getvalue()

    def has_same_lines(self, data: bytes) -> bool:
        """Does a stored object hold the lines of this finished one? Another version may have packed them into other bytes."""
        ours = gzip.decompress(self._packed.getvalue())
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stored:
                # One byte more: behind the last one the checksum is compared. No more, whatever the object unpacks to.
                return stored.read(len(ours) + 1) == ours
        except (OSError, EOFError, zlib.error):
            return False

    def _pack(self) -> None:
        self._ahead.append(self.packing.submit(self._pack_piece, b"".join(self._waiting)))
        self._waiting, self._waiting_bytes = [], 0
        self._await_pieces(_PIECES_AHEAD)

    def _await_pieces(self, left: int) -> None:
        # At most _PIECES_AHEAD of them are in memory; an error of the thread is raised here.
        while len(self._ahead) > left:
            self._ahead.popleft().result()

    def _pack_piece(self, piece: bytes) -> None:
        if self._packer is None:
            self._packer = igzip.IGzipFile(filename="", fileobj=self._packed, mode="wb", compresslevel=_LEVEL, mtime=0)
        self._packer.write(piece)


@dataclass(frozen=True)
class BackupResult:
    """What one call has written, and what the backup holds with it. `lost` is the manifest that was the newest and was gone;
    empty: none."""

    records: int
    objects: int
    bytes: int
    manifests: int
    position: BackupPosition
    seconds: float
    lost: str = ""


def backup_table(store: ObjectStore, *, source: str, table: str, bronze_path: str, form: BatchForm | None = None) -> BackupResult:
    """Bring the backup of one table up to what bronze has committed now.

    Raises:
        BackupError: when bronze contradicts the backup; says what to do.
        StoreError: when the store does not take it; the next call goes on.
    """
    started, written, lost = time.monotonic(), list[Manifest](), ""
    backup = _TableBackup(store, source, table, bronze_path, form or BatchForm())
    while True:
        newest = find_newest(store, source, table)
        newest.refuse_replaced(store.url)
        newest.name(store)
        lost = lost or newest.lost or manifest_gone(store, source, table, newest.position)
        try:
            at = backup.copy_epochs(newest.position, written)
        except TableBusyError:
            continue  # by a backup that has seen a newer bronze: look at it again
        break
    if written:
        write_newest(store, written[-1])
    if last := (written[-1] if written else newest.manifest):
        remember_end(store, last)
    return BackupResult(
        records=sum(m.records for m in written),
        objects=sum(len(m.objects) for m in written),
        bytes=sum(o.size for m in written for o in m.objects),
        manifests=len(written),
        position=at,
        seconds=time.monotonic() - started,
        lost=lost,
    )


@dataclass(frozen=True)
class _TableBackup:
    """What one call backs up, where to, and in which batches.

    Killed at any point, the next call finds the plan and finishes exactly that batch, also when bronze has grown since. Two
    calls at the same time make the same batches from the same plans: the bytes are the same, so it does not matter who writes
    an object, and each manifest is written once. An object that a manifest names is never written again.
    """

    store: ObjectStore
    source: str
    table: str
    bronze_path: str
    form: BatchForm

    def copy_epochs(self, at: BackupPosition, written: list[Manifest]) -> BackupPosition:
        """All that bronze has committed now, one epoch after another; appends the manifests that this call has written."""
        committed = bronze_committed(self.bronze_path)
        states = committed.of_table(self.table) if committed else {}
        if committed is None or not states:
            return at
        topic, newest = _only_topic(states, f"{self.source}/{self.table}")
        table = open_delta(self.bronze_path, version=committed.version)
        metadata = table.metadata()
        bronze = BronzeSlice(
            open_dataset(table, self.bronze_path),
            topic,
            since=oldest_timestamp(committed, topic, at.version_of(str(metadata.id))),
            id=str(metadata.id),
            floor=floors_of(metadata.configuration).get(topic),
        )
        epochs, folder = bronze_epochs(newest), f"{self.store.url}/{table_prefix(self.source, self.table)}"
        refuse_expired(bronze.floor, at, folder)
        for before, state in zip([None, *epochs], epochs, strict=False):
            if state.epoch < at.epoch:
                continue
            at = _next_position(position_in_epoch(at, before, state), topic, state, folder)
            copy = _Copy(self, replace(bronze, epoch=state.epoch), topic, state, newest, committed.version)
            at = copy.all_batches(at, written)
            copy.assert_complete(at.records)
            if not state.records:
                copy.note_epoch(at)
        return at


@dataclass(frozen=True)
class _Copy:
    """One call's work on one epoch of one topic; `newest` is the epoch that bronze is in."""

    of: _TableBackup
    bronze: BronzeSlice
    topic: str
    state: CommittedTopic
    newest: CommittedTopic
    version: int

    @property
    def store(self) -> ObjectStore:
        """Where the backup is."""
        return self.of.store

    def all_batches(self, at: BackupPosition, written: list[Manifest]) -> BackupPosition:
        """Batches until bronze's end; appends the manifests that this call has written."""
        while (ranges := self._next(at)) is not None:
            batches = split_batches(
                self.bronze.windows(ranges),
                start=at.positions,
                end=self.state.positions,
                max_records=self.of.form.max_records,
                max_bytes=self.of.form.max_bytes,
            )
            reached = at
            for batch in batches:
                plan = self._write_plan(batch, reached)
                reached = self._write(plan, reached, written)
                if plan.ranges != batch:
                    break  # somebody had planned it otherwise: measure again from where that ended
            else:
                return reached
            at = reached
        return at

    def assert_complete(self, records: int) -> None:
        """The end of bronze is reached: is that all that its commits say?"""
        if records != self.state.records:
            raise BackupError(
                f"{self.of.source}/{self.state.table}: bronze has {quantity(records, 'row')} of {self.topic} at version "
                f"{self.version}, its commits say {self.state.records}: find out which rows are missing or doubled first"
            )

    def note_epoch(self, at: BackupPosition) -> None:
        """Without a record there is no manifest, and the epoch takes the rows of earlier ones away all the same."""
        plan = self._plan({p: (at.positions.get(p, end), end) for p, end in self.state.positions.items()})
        self.store.put_if_absent(plan.epoch_key, plan.to_bytes())

    def _next(self, at: BackupPosition) -> OffsetRanges | None:
        ranges = {p: (at.positions.get(p, 0), end) for p, end in self.state.positions.items()}
        return ranges if any(end > start for start, end in ranges.values()) else None

    def _plan(self, ranges: dict[int, tuple[int, int]]) -> BatchPlan:
        ends, state = self.newest.positions, self.state
        complete = state.epoch == self.newest.epoch and all(end == ends[p] for p, (_, end) in ranges.items())
        of = (self.of.source, state.table, self.topic, state.topic_id, state.epoch)
        return BatchPlan(*of, ranges, self.version, complete, facts_of(state), self.bronze.id, layout=self.of.form.layout)

    def _write_plan(self, ranges: dict[int, tuple[int, int]], at: BackupPosition) -> BatchPlan:
        plan = self._plan(ranges)
        if self.store.put_if_absent(plan.key, plan.to_bytes()):
            return plan
        stored = BatchPlan.from_bytes(self.store.get(plan.key), key=plan.key)
        begins_elsewhere = any(start != at.positions.get(p, 0) for p, (start, _) in stored.ranges.items())
        ends_beyond = any(end > self.state.positions.get(p, 0) for p, (_, end) in stored.ranges.items())
        if ends_beyond and not begins_elsewhere and stored.topic_id == plan.topic_id and self._has_grown(stored):
            raise TableBusyError(f"{plan.key} is planned by a backup that has seen a newer bronze")
        if ends_beyond or begins_elsewhere or (stored.topic, stored.topic_id) != (plan.topic, plan.topic_id):
            raise BackupError(
                f"{self.store.url}/{plan.key} plans a batch that bronze does not have (topic {stored.topic} {stored.topic_id}, "
                f"ranges {dict(stored.ranges)}): bronze was rebuilt or restored; give the source another prefix"
            )
        return stored

    def _has_grown(self, found: BatchPlan) -> bool:
        if found.bronze_version <= self.version:
            return False
        committed = bronze_committed(self.of.bronze_path)
        return committed is not None and committed.version >= found.bronze_version

    def _write(self, plan: BatchPlan, at: BackupPosition, written: list[Manifest]) -> BackupPosition:
        with ThreadPoolExecutor(1) as packing:
            return self._write_objects(plan, at, written, packing)

    def _write_objects(
        self, plan: BatchPlan, at: BackupPosition, written: list[Manifest], packing: ThreadPoolExecutor
    ) -> BackupPosition:
        groups: dict[tuple[str, int], HourObject] = defaultdict(partial(HourObject, packing))
        by_op: Counter[str] = Counter()
        for run in self.bronze.runs(plan.ranges, plan.layout):
            groups[run.folder, run.partition].add(run)
            by_op += run.kinds
        records = sum(by_op.values())
        if plan.complete and plan.bronze_version == self.version:
            self.assert_complete(at.records + records)
        objects = [self._object(*path, groups.pop(path)) for path in sorted(groups)]
        manifest = Manifest(
            plan=plan,
            records=records,
            by_op=dict(by_op),
            objects=tuple(objects),
            positions={**at.positions, **{p: end for p, (_, end) in plan.ranges.items()}},
            epoch_records=at.records + records,
            records_total=at.records_total + records,
            previous=at.digest,
        )
        if self.store.put_if_absent(manifest.key, manifest.to_bytes()):
            written.append(manifest)
            if not manifest.previous:
                write_newest(self.store, manifest)  # the later ones of a long first backup may take hours
        elif self.store.get(manifest.key) != manifest.to_bytes():
            raise BackupError(
                f"{self.store.url}/{manifest.key} was written meanwhile with another content: another version of this "
                "program makes backups there as well; run only one of them"
            )
        return BackupPosition.after(manifest)

    def _object(self, folder: str, partition: int, hour: HourObject) -> ManifestObject:
        name = object_name(self.topic, self.state.epoch, partition, hour.min_offset)
        key = f"{table_prefix(self.of.source, self.state.table)}{folder}/{name}"
        data = hour.finish()
        if not self.store.put_if_absent(key, data):
            stored = self.store.get(key)
            if hour.has_same_lines(stored):
                data = stored
            else:
                self.store.put(key, data)  # damaged, and in no manifest: that would have been an earlier batch
        return ManifestObject(
            key=key,
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
            records=hour.records,
            partition=partition,
            min_offset=hour.min_offset,
            max_offset=hour.max_offset,
        )


def _only_topic(states: dict[str, CommittedTopic], what: str) -> tuple[str, CommittedTopic]:
    if len(states) > 1:
        raise BackupError(f"{what}: bronze has records of several topics: {', '.join(sorted(states))}")
    ((topic, state),) = states.items()
    return topic, state


def _next_position(at: BackupPosition, topic: str, state: CommittedTopic, place: str) -> BackupPosition:
    if at.epoch < 0:
        return BackupPosition(state.epoch, topic, state.topic_id)
    if (at.epoch, at.topic, at.topic_id) != (state.epoch, topic, state.topic_id):
        raise BackupError(
            f"{place} holds {at.topic} with topic id {at.topic_id} (epoch {at.epoch}), bronze has {topic} with "
            f"{state.topic_id} (epoch {state.epoch}): give the source another prefix"
        )
    ahead = {p: o for p, o in at.positions.items() if o > state.positions.get(p, 0)}
    if ahead:
        raise BackupError(
            f"{place} is ahead of bronze at offsets {ahead}: bronze was rebuilt or restored; give the source another prefix"
        )
    return at
