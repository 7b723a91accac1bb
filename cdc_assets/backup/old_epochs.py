"""Epochs of a table's backup that ended long ago go: a later one begins with the whole table, and takes away what was before.

    look     the newest epoch is whole in the backup: up to where its topic ended once it had begun (epoch_reading)
    choose   the newest epoch whose reading, and all before it, is older than the backup keeps
    verify   what stays is whole: its chain, each object by the listing, its counts against bronze's
    base     says where the backup begins; from now on what is before it is no part of the backup
    remove   all objects of the epochs before it

Killed at any point, the backup is what it was before or what it is afterwards, and the next call removes what is left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cdc_assets.backup.backup_base import BackupBase, find_base, is_gone
from cdc_assets.backup.epoch_reading import EpochReading, find_reading, note_reading
from cdc_assets.backup.kept_manifests import KeptManifests
from cdc_assets.backup.layout import epoch_of_key, is_batch_name, manifests_prefix, table_prefix
from cdc_assets.backup.manifest import Manifest
from cdc_assets.backup.position import backup_position
from cdc_assets.backup.verify import verify_from
from cdc_assets.errors import BackupError
from cdc_assets.quantity import quantity
from cdc_assets.resources.object_store import ObjectStore, StoredObject
from spark.delta.floor import Floor
from spark.delta.topic_commits import CommittedTopic, Past

_REQUESTS = 8
_SHOWN = 3
_LAST_MOMENT = 253_402_300_799_000
"""The year 9999 ends: Python's calendar knows no later time, and a producer may."""


@dataclass(frozen=True)
class TableInLake:
    """What the lake knows of a table: its topic in bronze, at this path, and by `ends()` the id and the ends of its topic.

    `gives`: bronze gives its old records to the backup, and has done so up to `floor`. `copies`: a folder for those of manifests.
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
    """What may go of a table's backup: `keys` with all their bytes. `base`: where the backup begins then; `is_new`: it is not
    written yet. `held`: why no later epoch is the first; empty where there is none."""

    table: str
    base: BackupBase | None = None
    is_new: bool = False
    keys: tuple[str, ...] = ()
    bytes: int = 0
    held: str = ""


class _HeldError(Exception):
    """Why nothing more may go."""


def find_old_epochs(store: ObjectStore, lake: TableInLake, *, keep: timedelta, now: float, note: bool = True) -> OldEpochs:
    """What may go at `now` (seconds since 1970). `note`: where the topic ends is written down, if nobody has done so yet.

    Raises:
        BackupError: a manifest, a base or a note is not as it was written.
        StoreError: the store cannot be asked.
        KafkaError: the lake's cluster cannot be asked.
    """
    source, table = lake.source, lake.table
    if not _has_old(store, source, table):
        return OldEpochs(table)
    listed = {item.key: item for item in store.list(table_prefix(source, table))}
    base, found, held = find_base(store, source, table, listed), None, ""
    try:
        until, copies = int((now - keep.total_seconds()) * 1000), KeptManifests(store, lake.copies)
        found = _LookAtEpochs(store, source, table, listed, base, lake, until, note, copies).find()
    except _HeldError as error:
        held = str(error)
    gone = [key for key in listed if is_gone(found or base, key)]
    size = sum(listed[key].size for key in gone)
    return OldEpochs(table, found or base, found is not None, tuple(sorted(gone)), size, held)


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
    """Whether the first manifest that lies there is of an earlier epoch than the newest: a few small requests."""
    newest, folder = backup_position(store, source=source, table=table).epoch, manifests_prefix(source, table)
    keys = (item.key for item in store.list(folder) if newest > 0 and is_batch_name(item.key.removeprefix(folder)))
    first = next(keys, None)
    return first is not None and (epoch_of_key(source, table, first) or 0) < newest


@dataclass(frozen=True)
class _LookAtEpochs:
    """One table's backup as it is listed. What is older than `until` (milliseconds) may go."""

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
            _HeldError: something may go later, or not without being looked at.
        """
        batches = self._batches()
        if len(batches) < 2:
            return None
        whole = dict(self._whole_epochs(batches))
        held = ""
        for epoch in sorted(whole, reverse=True):
            before = [key for other in batches if other < epoch for key in batches[other]]
            if not before:
                continue
            try:
                return self._base_at(epoch, before, whole[epoch])
            except _HeldError as error:
                held = held or str(error)
        raise _HeldError(held or f"of no epoch before {max(batches)} it was noted where its reading ends")

    def _batches(self) -> dict[int, list[str]]:
        folder, found = manifests_prefix(self.source, self.table), dict[int, list[str]]()
        for key in sorted(self.listed):
            if key.startswith(folder) and is_batch_name(key.removeprefix(folder)) and not is_gone(self.base, key):
                found.setdefault(epoch_of_key(self.source, self.table, key) or 0, []).append(key)
        return found

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
                raise _HeldError(f"the reading that epoch {newest} begins with is not whole in the backup yet")

    def _refuse_other(self, newest: int, state: CommittedTopic | None) -> None:
        if state is None:
            raise _HeldError("bronze has nothing of the table, so nothing goes: restore it first")
        begun = [epoch_of_key(self.source, self.table, key) or 0 for key in self.listed]
        if state.epoch != newest or max(begun) > newest:
            raise _HeldError(
                f"the backup has records up to epoch {newest}, and epoch {max(state.epoch, *begun)} has begun: nothing goes "
                "before its reading is whole in the backup"
            )

    def _reading(self, epoch: int) -> EpochReading | None:
        return find_reading(self.store, self.source, self.table, epoch, self.listed)

    def _note(self, epoch: int) -> EpochReading | None:
        """Where the topic ends now that the backup has records of the epoch: its reading was in the topic before."""
        told, state = self.lake.ends(), self.lake.state
        if told is None or state is None or told[0] != state.topic_id:
            raise _HeldError("the lake's topic is gone, or another one than bronze has read, so its reading cannot be told")
        reading = EpochReading(self.source, self.table, epoch, told[0], told[1])
        return note_reading(self.store, reading) if self.note else reading

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
            raise _HeldError(f"what would stay is not whole: {'; '.join(report.differences[:_SHOWN])}")
        return base

    def _refuse_young(self, over: int, epoch: int) -> None:
        if over > self.until:
            moment = datetime.fromtimestamp(min(over, _LAST_MOMENT) / 1000, timezone.utc)
            raise _HeldError(f"what stands before the end of epoch {epoch}'s reading has records up to {moment:%Y-%m-%d %H:%M}")

    def _over(self, manifest: Manifest) -> int:
        """When the newest hour of a batch was over, in milliseconds; 0 where it has no object."""
        place, layout = table_prefix(self.source, self.table), manifest.plan.layout
        folders = {item.key.removeprefix(place).rpartition("/")[0] for item in manifest.objects}
        try:
            return max((layout.end_of_hour(folder) for folder in folders), default=0)
        except ValueError as error:
            raise _HeldError(f"{manifest.key} names an object elsewhere: {error}") from error

    def _refuse_before_bronze(self, last: Manifest) -> None:
        """Bronze proves what it gives away against the backup, so it has to have given it before."""
        floor = self.lake.floor
        if not self.lake.gives and floor is None:
            return
        if floor is None or not Floor("", last.plan.epoch, last.positions).is_within(floor.epoch, floor.positions):
            left = quantity(last.records_total, "record")
            raise _HeldError(f"bronze has not given all of the first {left} to the backup yet (bronze.keep)")


def _has_reading(reading: EpochReading, last: Manifest, state: CommittedTopic | None) -> bool:
    """Whether the backup has all of it. Behind its last record there may be offsets of markers alone, as bronze knows."""
    if reading.topic_id != last.plan.topic_id:
        return False
    if reading.is_within(last.positions):
        return True
    known: list[CommittedTopic | Past] = [state, *state.before, *state.earlier] if state is not None else []
    of_epoch = [each for each in known if each.epoch == reading.epoch]
    return any(reading.is_within(each.positions) and each.records == last.epoch_records for each in of_epoch)
