"""Epochs of a table's backup that ended long ago go: a later one begins with the whole table, and takes away what was
before. What would go is told, or why nothing does.

Killed at any point, the backup is what it was before or what it is afterwards, and the next call removes what is left.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cdc_assets.backup.backup_position import backup_position
from cdc_assets.backup.documents import no_document, read_document, write_document
from cdc_assets.backup.manifest import KeptManifests, Manifest
from cdc_assets.backup.manifest_chain import BackupBase, find_base, is_gone
from cdc_assets.backup.object_layout import epoch_of_key, is_batch_name, manifests_prefix, reading_key, table_prefix
from cdc_assets.backup.verification import verify_from
from cdc_assets.clients.delta_log import bronze_committed, bronze_floors
from cdc_assets.clients.object_store import ObjectStore, StoredObject
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import BackupError, CdcAssetsError, RefusalError
from cdc_assets.registry.retention import backup_keep
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.needed_versions import Floor
from spark.table.topic_commits import CommittedTopic, Past

_KIND = "reading"


@dataclass(frozen=True)
class EpochReading:
    """Where the reading of the whole table ends with which an epoch begins: `ends` by partition (exclusive), of this topic id.

        <source>/<table>/_readings/<epoch>.json    written once, by whoever saw first that the backup has records of the epoch

    Bronze begins an epoch only when the reading is in the lake's topic (cdc_assets.chain.table_reload,
    cdc_assets.chain.new_epoch). So a backup that has come to that end has all of the reading. No record tells: tables are read
    by chunks as well, whose rows stand between others, and a quiet partition gets nothing more.
    """

    source: str
    table: str
    epoch: int
    topic_id: str
    ends: Mapping[int, int]

    @property
    def key(self) -> str:
        """The object that it is."""
        return reading_key(self.source, self.table, self.epoch)

    def is_within(self, positions: Mapping[int, int]) -> bool:
        """Whether a copy that has the topic up to these offsets (by partition, exclusive) has all of the reading."""
        return all(positions.get(partition, 0) >= end for partition, end in self.ends.items())

    def to_bytes(self) -> bytes:
        """As canonical JSON, always alike."""
        return write_document(_KIND, {**asdict(self), "ends": {str(p): end for p, end in self.ends.items()}})

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> EpochReading:
        """Read one.

        Raises:
            BackupError: naming the object, when it is none of this format.
        """
        fields = read_document(_KIND, data, key=key)
        try:
            reading = cls(**{**fields, "ends": {int(p): int(end) for p, end in fields["ends"].items()}})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise no_document(_KIND, key, error) from error
        if reading.key != key:
            raise BackupError(f"{key} holds the reading of {reading.key}: remove the object")
        return reading


_REQUESTS = 8
_SHOWN = 3
_LAST_MOMENT = 253_402_300_799_000
"""The year 9999 ends: Python's calendar knows no later time, and a producer may."""


@dataclass(frozen=True)
class TableInLake:
    """What the lake knows of a table. `state` is that of its topic in bronze; `ends()` asks Kafka for the topic's id and ends.

    `gives`: bronze gives its old records to the backup, and has done so up to `floor`. `copies`: a folder for copies of
    manifests.
    """

    source: str
    table: str
    bronze_path: str
    state: CommittedTopic | None
    ends: Callable[[], tuple[str, Mapping[int, int]] | None]
    gives: bool = False
    floor: Floor | None = None
    copies: Path | None = None


@dataclass(frozen=True)
class OldEpochs:
    """What may go of a table's backup: objects by their `keys`, with all their bytes.

    `base`: where the backup begins then; `is_new`: it is not written yet. `reason`: why no later epoch is the first; empty
    where there is none.
    """

    table: str
    base: BackupBase | None = None
    is_new: bool = False
    keys: tuple[str, ...] = ()
    bytes: int = 0
    reason: str = ""


def find_old_epochs(store: ObjectStore, lake: TableInLake, *, keep: timedelta, now: float, note: bool = True) -> OldEpochs:
    """What may go at `now` (seconds since 1970). `note`: where the topic ends is written down, if nobody has done so yet.

    Raises:
        BackupError: a manifest, a base or a note is not as it was written.
        StoreError: the store cannot be asked.
        ServiceError: the lake's cluster cannot be asked.
    """
    source, table = lake.source, lake.table
    if not _has_old(store, source, table):
        return OldEpochs(table)
    listed = {item.key: item for item in store.list(table_prefix(source, table))}
    base, newer_base, reason = find_base(store, source, table, listed), None, ""
    try:
        until, copies = int((now - keep.total_seconds()) * 1000), KeptManifests(store, lake.copies)
        newer_base = _LookAtEpochs(store, source, table, listed, base, lake, until, note, copies).find()
    except RefusalError as error:
        reason = str(error)
    gone = [key for key in listed if is_gone(newer_base or base, key)]
    size = sum(listed[key].size for key in gone)
    return OldEpochs(table, newer_base or base, newer_base is not None, tuple(sorted(gone)), size, reason)


def remove_old_epochs(store: ObjectStore, source: str, old: OldEpochs) -> None:
    """Write the base, then remove; manifests go last, since they tell that there is something left.

    Raises:
        BackupError: somebody else has written another base for the same epoch.
        StoreError: the store does not take it; the next call goes on.
    """
    if old.base is not None and old.is_new:
        data = old.base.to_bytes()
        if not store.put_if_absent(old.base.key, data) and store.get(old.base.key) != data:
            raise BackupError(
                f"{store.url}/{old.base.key} was written meanwhile with another content: another version of this program removes "
                "epochs there as well; nothing is removed. Run only one of them"
            )
    folder = manifests_prefix(source, old.table)
    manifests = [key for key in old.keys if key.startswith(folder)]
    with ThreadPoolExecutor(_REQUESTS) as pool:
        for keys in ([key for key in old.keys if not key.startswith(folder)], manifests):
            list(pool.map(store.delete, keys))


def _has_old(store: ObjectStore, source: str, table: str) -> bool:
    # By a few small requests: most tables have one epoch, and are asked for it at each run.
    newest, folder = backup_position(store, source=source, table=table).epoch, manifests_prefix(source, table)
    keys = (item.key for item in store.list(folder) if newest > 0 and is_batch_name(item.key.removeprefix(folder)))
    first = next(keys, None)
    return first is not None and (epoch_of_key(source, table, first) or 0) < newest


@dataclass(frozen=True)
class _LookAtEpochs:
    """One table's backup as it is listed. What is older than `until` (milliseconds) may go.

    look     the newest epoch is whole in the backup: up to where its topic ended once it had begun (EpochReading)
    choose   the newest epoch whose reading, and all before it, is older than the backup keeps
    verify   what stays is whole: its chain, each object by the listing, its counts against bronze's
    base     says where the backup begins; from now on what is before it is no part of the backup
    remove   all objects of the epochs before it
    """

    store: ObjectStore
    source: str
    table: str
    listed: Mapping[str, StoredObject]
    base: BackupBase | None
    lake: TableInLake
    until: int
    note: bool
    copies: KeptManifests
    read: dict[str, Manifest] = field(default_factory=dict)

    def find(self) -> BackupBase | None:
        """The base behind what may go; None: there is one epoch.

        Raises:
            RefusalError: something may go later, or not without being looked at.
        """
        batches = self._batches()
        if len(batches) < 2:
            return None
        whole = dict(self._whole_epochs(batches))
        reason = ""
        for epoch in sorted(whole, reverse=True):
            before = [key for other in batches if other < epoch for key in batches[other]]
            if not before:
                continue
            try:
                return self._base_at(epoch, before, whole[epoch])
            except RefusalError as error:
                reason = reason or str(error)
        raise RefusalError(reason or f"of no epoch before {max(batches)} it was noted where its reading ends")

    def _batches(self) -> dict[int, list[str]]:
        folder, batches = manifests_prefix(self.source, self.table), dict[int, list[str]]()
        for key in sorted(self.listed):
            if key.startswith(folder) and is_batch_name(key.removeprefix(folder)) and not is_gone(self.base, key):
                batches.setdefault(epoch_of_key(self.source, self.table, key) or 0, []).append(key)
        return batches

    def _whole_epochs(self, batches: Mapping[int, Sequence[str]]) -> Iterator[tuple[int, Sequence[str]]]:
        """The epochs whose reading is whole in the backup, with the batches up to its end; among them the newest."""
        newest, state = max(batches), self.lake.state
        self._refuse_other(newest, state)
        for epoch, keys in batches.items():
            reading = self._reading(epoch) or (self._note(newest) if epoch == newest else None)
            if reading is not None and _has_reading(reading, self._manifest(keys[-1]), state):
                # Positions rise from batch to batch.
                ends = bisect_left(keys, True, key=lambda key: reading.is_within(self._manifest(key).positions))
                yield epoch, keys[: ends + 1]
            elif epoch == newest:
                raise RefusalError(f"the reading that epoch {newest} begins with is not whole in the backup yet")

    def _refuse_other(self, newest: int, state: CommittedTopic | None) -> None:
        if state is None:
            raise RefusalError("bronze has nothing of the table, so nothing goes: restore it first")
        begun = [epoch_of_key(self.source, self.table, key) or 0 for key in self.listed]
        if state.epoch != newest or max(begun) > newest:
            raise RefusalError(
                f"the backup has records up to epoch {newest}, and epoch {max(state.epoch, *begun)} has begun: nothing goes "
                "before its reading is whole in the backup"
            )

    def _reading(self, epoch: int) -> EpochReading | None:
        key = reading_key(self.source, self.table, epoch)
        return EpochReading.from_bytes(self.store.get(key), key=key) if key in self.listed else None

    def _note(self, epoch: int) -> EpochReading | None:
        # The backup has records of the epoch by now, so its reading was in the topic before: it ends where the topic ends now.
        bronze_ends, state = self.lake.ends(), self.lake.state
        if bronze_ends is None or state is None or bronze_ends[0] != state.topic_id:
            raise RefusalError("the lake's topic is gone, or another one than bronze has read, so its reading cannot be told")
        reading = EpochReading(self.source, self.table, epoch, bronze_ends[0], bronze_ends[1])
        if not self.note or self.store.put_if_absent(reading.key, reading.to_bytes()):
            return reading
        # Somebody has noted it before: that holds.
        return EpochReading.from_bytes(self.store.get(reading.key), key=reading.key)

    def _manifest(self, key: str) -> Manifest:
        if key not in self.read:
            self.read[key] = Manifest.from_bytes(self.copies.read(self.listed[key]), key=key)
        return self.read[key]

    def _base_at(self, epoch: int, before: Sequence[str], reading: Sequence[str]) -> BackupBase:
        # The last ones are the youngest, mostly: while these are, no others are read.
        for key in (before[-1], reading[-1]):
            self._refuse_young(self._over(self._manifest(key)), epoch)
        with ThreadPoolExecutor(_REQUESTS) as pool:
            earliest = max(pool.map(lambda key: self._over(self._manifest(key)), (*before, *reading)))
        self._refuse_young(earliest, epoch)
        last = self._manifest(before[-1])
        self._refuse_before_bronze(last)
        base = BackupBase.behind(last, epoch=epoch, earliest_ms=earliest)
        report = verify_from(base, self.store, bronze_path=self.lake.bronze_path, kept=self.lake.copies)
        if not report.ok:
            raise RefusalError(f"what would stay is not whole: {'; '.join(report.wrong[:_SHOWN])}")
        return base

    def _refuse_young(self, over: int, epoch: int) -> None:
        if over > self.until:
            moment = datetime.fromtimestamp(min(over, _LAST_MOMENT) / 1000, timezone.utc)
            raise RefusalError(f"what stands before the end of epoch {epoch}'s reading has records up to {moment:%Y-%m-%d %H:%M}")

    def _over(self, manifest: Manifest) -> int:
        """When the newest hour of a batch was over, in milliseconds; 0 where it has no object."""
        prefix, layout = table_prefix(self.source, self.table), manifest.plan.layout
        folders = {item.key.removeprefix(prefix).rpartition("/")[0] for item in manifest.objects}
        try:
            return max((layout.end_of_hour(folder) for folder in folders), default=0)
        except ValueError as error:
            raise RefusalError(f"{manifest.key} names an object elsewhere: {error}") from error

    def _refuse_before_bronze(self, last: Manifest) -> None:
        # Bronze proves what it gives away against the backup, so it has to have given it before.
        floor = self.lake.floor
        if not self.lake.gives and floor is None:
            return
        if floor is None or not floor.reaches(last.plan.epoch, last.positions):
            left = quantity(last.records_total, "record")
            raise RefusalError(f"bronze has not given all of the first {left} to the backup yet (bronze.keep)")


def _has_reading(reading: EpochReading, last: Manifest, state: CommittedTopic | None) -> bool:
    """Whether the backup has all of it. Behind its last record there may be offsets of markers alone, as bronze knows."""
    if reading.topic_id != last.plan.topic_id:
        return False
    if reading.is_within(last.positions):
        return True
    topics: list[CommittedTopic | Past] = [state, *state.before, *state.earlier] if state is not None else []
    of_epoch = [topic for topic in topics if topic.epoch == reading.epoch]
    return any(reading.is_within(topic.positions) and topic.records == last.epoch_records for topic in of_epoch)


_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class ExpiredTable:
    """What became of a table's backup; `failed`: it could not be looked at, or not all went, as `epochs.reason` says."""

    table: Table
    epochs: OldEpochs
    failed: bool = False


def expire_backups(chain: Chain[BaseSource], *, dry_run: bool = False, now: float | None = None) -> Iterator[ExpiredTable]:
    """Tables of which the backup keeps all are left out. With `dry_run` nothing is changed, and nothing noted.

    One table's failure is its own.
    """
    for table in chain.source.tables:
        if backup_keep(chain.source, table) is None:
            continue
        try:
            yield ExpiredTable(table, _expire(chain, table, dry_run, time.time() if now is None else now))
        except CdcAssetsError as error:
            yield ExpiredTable(table, OldEpochs(names.table_name(table), reason=str(error)), failed=True)


def _expire(chain: Chain[BaseSource], table: Table, dry_run: bool, now: float) -> OldEpochs:
    name, keep = names.table_name(table), backup_keep(chain.source, table)
    assert chain.source.backup is not None
    assert keep is not None
    store = chain.platform.store(chain.source.backup.store)
    with table_lock("backup", chain.source.name, name, deadline=_BUSY_SECONDS):
        lake = _look_at_lake(chain, table)
        epochs = find_old_epochs(store, lake, keep=keep, now=now, note=not dry_run)
        if not dry_run:
            remove_old_epochs(store, chain.source.name, epochs)
    return epochs


def _look_at_lake(chain: Chain[BaseSource], table: Table) -> TableInLake:
    path, name = chain.bronze_path, names.table_name(table)
    committed = bronze_committed(path)
    states = committed.of_table(name) if committed is not None else {}
    topic = names.lake_topic(chain.source, table)

    def topic_ends() -> tuple[str, Mapping[int, int]] | None:
        topic_state = chain.platform.lake_kafka().states([topic]).get(topic)
        return None if topic_state is None else (topic_state.topic_id, topic_state.ends)

    return TableInLake(
        chain.source.name,
        name,
        path,
        states.get(topic) if len(states) == 1 else None,
        topic_ends,
        gives=chain.source.bronze.keep is not None,
        floor=bronze_floors(path).get(topic),
        copies=settings.home() / "cache" / "manifests",
    )
