"""Where a table's backup begins once its first epochs are gone: its base stands for the manifests that went.

    <source>/<table>/_bases/<epoch>.json    the digest and the totals of the last manifest that went; the highest counts

A base is written before anything is removed, and never again. What is of an epoch before it is no part of the backup any more,
whether it still lies there or not: everybody who reads the backup asks for its base first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from cdc_assets.backup.layout import base_key, bases_prefix, epoch_of_key
from cdc_assets.backup.manifest import Manifest
from cdc_assets.backup.platform.document import seal, unseal
from cdc_assets.errors import BackupError
from cdc_assets.resources.object_store import ObjectStore

FORMAT = 1


@dataclass(frozen=True)
class BackupBase:
    """The backup begins with `epoch`. `previous` is the SHA-256 of the last manifest that went, `last_epoch`, `topic_id`,
    `positions` and `records_total` are what it said; `linked`: it named one before it, so the next one names it.

    `earliest`: from that moment on (ISO 8601, UTC) a restore to a time is what it was before they went.
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
    linked: bool
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
            linked=bool(last.previous),
            earliest=datetime.fromtimestamp(earliest_ms / 1000, timezone.utc).isoformat(),
        )

    @property
    def key(self) -> str:
        """The object that it is."""
        return base_key(self.source, self.table, self.epoch)

    def to_bytes(self) -> bytes:
        """As canonical JSON with the digest of what it says: equal bases have equal bytes."""
        said = {"cdc_assets": FORMAT, "kind": "base", **asdict(self)}
        said["positions"] = {str(p): end for p, end in sorted(self.positions.items())}
        return seal(said)

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> BackupBase:
        """Read one.

        Raises:
            BackupError: naming the object, when it is none of this format, or not as it was written.
        """
        try:
            raw = unseal(data, key=key)
            kind, version = raw.pop("kind"), raw.pop("cdc_assets")
            if (kind, version) != ("base", FORMAT):
                raise BackupError(f"{key} holds {kind} of format {version}, this version reads base of {FORMAT}: upgrade it")
            found = cls(**{**raw, "positions": {int(p): int(end) for p, end in raw["positions"].items()}})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BackupError(f"{key} is no base of a backup: {type(error).__name__}: {error}") from error
        if found.key != key:
            raise BackupError(f"{key} holds the base of {found.key}")
        return found


def find_base(store: ObjectStore, source: str, table: str, keys: Iterable[str] | None = None) -> BackupBase | None:
    """Where the backup begins; None: with its first manifest. `keys`: those of the table, where they have been listed.

    Raises:
        BackupError: the base is not as it was written.
        StoreError: the store cannot be asked.
    """
    folder = bases_prefix(source, table)
    known = (item.key for item in store.list(folder)) if keys is None else keys
    bases = [key for key in known if key.startswith(folder) and epoch_of_key(source, table, key) is not None]
    if not bases:
        return None
    key = max(bases, key=lambda each: epoch_of_key(source, table, each) or 0)
    return BackupBase.from_bytes(store.get(key), key=key)


def is_gone(base: BackupBase | None, key: str) -> bool:
    """Whether an object is of an epoch before the base: it is not in the backup, and may be removed by anybody at any time."""
    if base is None:
        return False
    epoch = epoch_of_key(base.source, base.table, key)
    own = not key.endswith(".json.gz") or key.rsplit("/", 1)[-1].startswith(f"{base.topic}+")
    return own and epoch is not None and epoch < base.epoch
