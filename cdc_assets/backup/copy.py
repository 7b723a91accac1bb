"""Copies what bronze has committed beyond the backup, batch by batch: its plan, its objects, then its manifest.

Killed at any point, the next call finds the plan and finishes exactly that batch, also when bronze has grown since.
Two calls at the same time make the same batches from the same plans: the bytes are the same, so it does not matter who
writes an object, and each manifest is written once. An object that a manifest names is never written again.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from cdc_assets.backup.batch_form import BatchForm
from cdc_assets.backup.bronze import BronzeSlice, cut, oldest_timestamp, open_bronze
from cdc_assets.backup.epochs import bronze_epochs, position_in_epoch
from cdc_assets.backup.hour_object import HourObject
from cdc_assets.backup.layout import Ranges, object_name, table_prefix
from cdc_assets.backup.manifest import BatchPlan, Manifest, ManifestObject, facts_of
from cdc_assets.backup.position import BackupPosition, find_newest, refuse_expired, write_newest
from cdc_assets.errors import BackupError
from cdc_assets.quantity import quantity
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.object_store import ObjectStore
from spark.delta.commits import CommittedTopic


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
        lost = lost or newest.lost
        try:
            at = backup.copy_epochs(newest.position, written)
        except _OvertakenError:
            continue  # by a backup that has seen a newer bronze: look at it again
        break
    if written:
        write_newest(store, written[-1])
    return BackupResult(
        records=sum(m.records for m in written),
        objects=sum(len(m.objects) for m in written),
        bytes=sum(o.size for m in written for o in m.objects),
        manifests=len(written),
        position=at,
        seconds=time.monotonic() - started,
        lost=lost,
    )


class _OvertakenError(Exception):
    """A plan of another backup goes beyond the version of bronze that this one looks at."""


@dataclass(frozen=True)
class _TableBackup:
    """What one call backs up, where to, and in which batches."""

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
        bronze = open_bronze(self.bronze_path, committed.version, topic)
        bronze = replace(bronze, since=oldest_timestamp(committed, topic, at.version_of(bronze.id)))
        epochs, place = bronze_epochs(newest), f"{self.store.url}/{table_prefix(self.source, self.table)}"
        refuse_expired(bronze.floor, at, place)
        for before, state in zip([None, *epochs], epochs, strict=False):
            if state.epoch < at.epoch:
                continue
            at = _next_position(position_in_epoch(at, before, state), topic, state, place)
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
            cuts = cut(
                self.bronze.windows(ranges),
                start=at.positions,
                end=self.state.positions,
                max_records=self.of.form.max_records,
                max_bytes=self.of.form.max_bytes,
            )
            reached = at
            for batch in cuts:
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

    def _next(self, at: BackupPosition) -> Ranges | None:
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
        found = BatchPlan.from_bytes(self.store.get(plan.key), key=plan.key)
        begins_elsewhere = any(start != at.positions.get(p, 0) for p, (start, _) in found.ranges.items())
        ends_beyond = any(end > self.state.positions.get(p, 0) for p, (_, end) in found.ranges.items())
        if ends_beyond and not begins_elsewhere and found.topic_id == plan.topic_id and self._has_grown(found):
            raise _OvertakenError
        if ends_beyond or begins_elsewhere or (found.topic, found.topic_id) != (plan.topic, plan.topic_id):
            raise BackupError(
                f"{self.store.url}/{plan.key} plans a batch that bronze does not have (topic {found.topic} {found.topic_id}, "
                f"ranges {dict(found.ranges)}): bronze was rebuilt or restored; give the source another prefix"
            )
        return found

    def _has_grown(self, found: BatchPlan) -> bool:
        """Is bronze, by now, at the version of a plan that is newer than ours?"""
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
        objects = [self._object(*place, groups.pop(place)) for place in sorted(groups)]
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
            found = self.store.get(key)
            if hour.has_same_lines(found):
                data = found
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
    """The position to go on from."""
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
