"""Copies what bronze has committed beyond the backup, batch by batch: objects first, then their manifest.

A batch starts where the newest manifest ends. Killed before its manifest is written, it is written again: its
objects are named by their first offset, so a longer batch (bronze has grown meanwhile) writes the same keys.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.backup.lines import Row, compressed, hour_folder, read_rows
from cdc_assets.backup.manifest import BackupPosition, Manifest, ManifestObject, backup_position, table_prefix
from cdc_assets.errors import BackupError
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.object_store import ObjectStore
from spark.commits import TopicState

_MAX_RECORDS = 100_000


@dataclass(frozen=True)
class BackupResult:
    """What one call has written, and what the backup holds with it."""

    records: int
    objects: int
    bytes: int
    manifests: int
    records_total: int
    seconds: float


def backup_table(
    store: ObjectStore, *, source: str, table: str, bronze_path: str, max_records: int = _MAX_RECORDS
) -> BackupResult:
    """Bring the backup of one table up to what bronze has committed now.

    Raises:
        BackupError: when bronze contradicts the backup, or another backup of the table is at work.
        StoreError: when the store does not take it; the next call goes on.
    """
    started = time.monotonic()
    at = backup_position(store, source=source, table=table)
    committed = bronze_committed(bronze_path)
    states = committed.of_table(table) if committed else {}
    written: list[Manifest] = []
    if committed and states:
        from deltalake import DeltaTable

        bronze = DeltaTable(bronze_path, version=committed.version)
        if len(states) > 1:
            raise BackupError(f"{source}/{table}: bronze has records of several topics: {', '.join(sorted(states))}")
        ((topic, state),) = states.items()
        at = _continued(at, state, f"{store.url}/{table_prefix(source, table)}")
        while left := _next_ranges(at.positions, state.positions, max_records):
            manifest = _write_batch(store, bronze, source, topic, state, left, at)
            written.append(manifest)
            at = BackupPosition(state.epoch, state.topic_id, manifest.positions, manifest.records_total)
    return BackupResult(
        records=sum(m.records for m in written),
        objects=sum(len(m.objects) for m in written),
        bytes=sum(o.size for m in written for o in m.objects),
        manifests=len(written),
        records_total=at.records,
        seconds=time.monotonic() - started,
    )


def _continued(at: BackupPosition, state: TopicState, place: str) -> BackupPosition:
    """The position to go on from; a new epoch starts anew beside the old one."""
    if state.epoch > at.epoch:
        return BackupPosition(state.epoch, state.topic_id, {}, at.records)
    if state.epoch < at.epoch or state.topic_id != at.topic_id:
        raise BackupError(
            f"{place} holds topic {at.topic_id} (epoch {at.epoch}), bronze has {state.topic_id} (epoch {state.epoch}): "
            "this is another lake's backup; give the source another prefix"
        )
    ahead = {p: o for p, o in at.positions.items() if o > state.positions.get(p, 0)}
    if ahead:
        raise BackupError(
            f"{place} is ahead of bronze at offsets {ahead}: bronze was rebuilt or restored; give it another prefix"
        )
    return at


def _next_ranges(at: Mapping[int, int], upto: Mapping[int, int], max_records: int) -> dict[int, tuple[int, int]]:
    share = max(1, max_records // max(1, len(upto)))
    ranges = {p: (at.get(p, 0), min(end, at.get(p, 0) + share)) for p, end in upto.items()}
    return ranges if any(end > start for start, end in ranges.values()) else {}


def _write_batch(
    store: ObjectStore,
    bronze: object,
    source: str,
    topic: str,
    state: TopicState,
    ranges: dict[int, tuple[int, int]],
    at: BackupPosition,
) -> Manifest:
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    by_op: Counter[str] = Counter()
    for row in read_rows(bronze, topic, ranges):
        groups[hour_folder(row.timestamp), row.partition].append(row)
        by_op[row.op or "tombstone"] += 1
    objects = []
    for (folder, partition), rows in sorted(groups.items()):
        name = f"{topic}+{state.epoch}+{partition}+{rows[0].offset:020d}.json.gz"
        data = compressed([row.line for row in rows])
        key = f"{table_prefix(source, state.table)}{folder}/{name}"
        if not store.put_if_absent(key, data):
            store.put(key, data)  # of a batch that was not finished: no manifest names it yet
        objects.append(
            ManifestObject(
                key=key,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
                records=len(rows),
                partition=partition,
                min_offset=rows[0].offset,
                max_offset=rows[-1].offset,
            )
        )
    records = sum(by_op.values())
    manifest = Manifest(
        source=source,
        table=state.table,
        topic=topic,
        topic_id=state.topic_id,
        epoch=state.epoch,
        ranges=ranges,
        records=records,
        by_op=dict(by_op),
        objects=tuple(objects),
        bronze_version=int(bronze.version()),  # type: ignore[attr-defined]
        positions={**at.positions, **{p: end for p, (_, end) in ranges.items()}},
        records_total=at.records + records,
    )
    if not store.put_if_absent(manifest.key, manifest.to_bytes()):
        raise BackupError(
            f"{store.url}/{manifest.key} was written meanwhile: another backup of {source}/{state.table} is at work"
        )
    return manifest
