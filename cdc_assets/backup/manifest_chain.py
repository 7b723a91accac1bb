"""The manifests of a table as a chain: what is wrong where one is gone, was written again, or does not go on behind others;
and its base, which stands for the manifests that went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from cdc_assets.backup.documents import no_document, read_document, write_document
from cdc_assets.backup.manifest import Manifest
from cdc_assets.backup.object_layout import base_key, bases_prefix, epoch_of_key
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError
from spark.errors import quantity

_KIND = "base"


@dataclass(frozen=True)
class BackupBase:
    """The backup begins with `epoch`. `previous` is the SHA-256 of the last manifest that went, `last_epoch`, `topic_id`,
    `positions` and `records_total` are what it said.

    `earliest`: from that moment on (ISO 8601, UTC) a restore to a time is what it was before they went.

        <source>/<table>/_bases/<epoch>.json    the digest and the totals of the last manifest that went; the highest counts

    A base is written before anything is removed, and never again. What is of an epoch before it is no part of the backup any
    more, whether it still lies there or not: everybody who reads the backup asks for its base first.
    """

    source: str
    table: str
    topic: str
    epoch: int
    last_epoch: int
    topic_id: str
    positions: Mapping[int, int]
    records_total: int
    previous: str
    earliest: str

    @classmethod
    def behind(cls, last: Manifest, *, epoch: int, earliest_ms: int) -> BackupBase:
        """The base of a backup that begins with an epoch, of which this is the last manifest before it."""
        plan = last.plan
        return cls(
            source=plan.source,
            table=plan.table,
            topic=plan.topic,
            epoch=epoch,
            last_epoch=plan.epoch,
            topic_id=plan.topic_id,
            positions=dict(last.positions),
            records_total=last.records_total,
            previous=last.digest,
            earliest=datetime.fromtimestamp(earliest_ms / 1000, timezone.utc).isoformat(),
        )

    @property
    def key(self) -> str:
        """The object that it is."""
        return base_key(self.source, self.table, self.epoch)

    def to_bytes(self) -> bytes:
        """As canonical JSON with the digest of what it says: equal bases have equal bytes."""
        return write_document(
            _KIND, {**asdict(self), "positions": {str(p): end for p, end in self.positions.items()}}, sealed=True
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> BackupBase:
        """Read one. Raises BackupError: naming the object, when it is none of this format, or not as it was written."""
        fields = read_document(_KIND, data, key=key, sealed=True)
        try:
            base = cls(**{**fields, "positions": {int(p): int(end) for p, end in fields["positions"].items()}})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise no_document(_KIND, key, error) from error
        if base.key != key:
            raise BackupError(f"{key} holds the base of {base.key}")
        return base


def find_base(store: ObjectStore, source: str, table: str, keys: Iterable[str] | None = None) -> BackupBase | None:
    """Where the backup begins; None: with its first manifest. `keys`: those of the table, where they have been listed.

    Raises:
        BackupError: the base is not as it was written.
        StoreError: the store cannot be asked.
    """
    folder = bases_prefix(source, table)
    base_keys = (item.key for item in store.list(folder)) if keys is None else keys
    bases = [key for key in base_keys if key.startswith(folder) and epoch_of_key(source, table, key) is not None]
    if not bases:
        return None
    key = max(bases, key=lambda each: epoch_of_key(source, table, each) or 0)
    return BackupBase.from_bytes(store.get(key), key=key)


def is_gone(base: BackupBase | None, key: str) -> bool:
    """Whether an object is of an epoch before the base: it is no part of the backup, and anybody may remove it at any time."""
    if base is None:
        return False
    epoch = epoch_of_key(base.source, base.table, key)
    own = not key.endswith(".json.gz") or key.rsplit("/", 1)[-1].startswith(f"{base.topic}+")
    return own and epoch is not None and epoch < base.epoch


def chain_differences(manifests: Sequence[Manifest], base: BackupBase | None = None) -> Iterator[str]:
    """Each manifest names the one before it, begins where that ended, and its totals are theirs and its own. The first one
    does so with the base, where there is one."""
    at: dict[int, int] = dict(base.positions) if base else {}
    epoch, epoch_records, total, topic_id = -1, 0, base.records_total if base else 0, base.topic_id if base else ""
    before = (base.key, base.previous) if base else ("", "")
    if base and (not manifests or manifests[0].plan.epoch != base.epoch):
        begins = f"epoch {manifests[0].plan.epoch}" if manifests else "none"
        yield f"{base.key}: the first manifest is to be of epoch {base.epoch}, there is {begins}"
    for manifest in manifests:
        if manifest.plan.epoch != epoch:
            # Of the same topic an epoch begins where the one before it ended; behind a hole at 0, as that of another topic.
            goes_on = manifest.plan.topic_id == topic_id and any(start for start, _ in manifest.plan.ranges.values())
            at = at if goes_on else {}
            epoch, epoch_records, topic_id = manifest.plan.epoch, 0, manifest.plan.topic_id
        differences = [*_begin_differences(manifest, at), *_count_differences(manifest)]
        at.update({p: end for p, (_, end) in manifest.plan.ranges.items()})
        epoch_records, total = epoch_records + manifest.records, total + manifest.records
        counts = (dict(manifest.positions), manifest.epoch_records, manifest.records_total)
        if counts != (at, epoch_records, total):
            differences.append(
                f"{manifest.key}: the backup up to here has {quantity(total, 'record')} and ends at {at}, "
                f"it says {manifest.records_total} and {dict(manifest.positions)}"
            )
            # Go on from what it says: one manifest that is gone is one difference, not one for each after it.
            epoch_records, total = manifest.epoch_records, manifest.records_total
        yield from differences or _link_differences(before, manifest)
        before = (manifest.key, manifest.digest)


def _begin_differences(manifest: Manifest, at: Mapping[int, int]) -> Iterator[str]:
    for partition, (start, _) in manifest.plan.ranges.items():
        expected = at.get(partition, 0)
        if start != expected:
            kind = "gap" if start > expected else "overlap"
            ended = f"it begins at offset {start}, the one before ended at {expected}"
            yield f"{manifest.key}: {kind} in partition {partition}: {ended}"


def _count_differences(manifest: Manifest) -> Iterator[str]:
    counted = sum(item.records for item in manifest.objects)
    if counted != manifest.records or sum(manifest.by_op.values()) != manifest.records:
        kinds = f"by kind {dict(manifest.by_op)}"
        yield f"{manifest.key}: {quantity(manifest.records, 'record')}, {counted} in its objects, {kinds}"


def _link_differences(before: tuple[str, str], manifest: Manifest) -> Iterator[str]:
    """`before`: key and digest of the manifest, or of the base, that this one has to name; empty: it is the first."""
    key, digest = before
    if manifest.previous != digest:
        named = f"sha256 {manifest.previous}" if manifest.previous else "none"
        lies = f"{key} has sha256 {digest}" if key else "none lies there"
        yield f"{manifest.key}: the manifest before it is another than when it was written: it names {named}, {lies}"
