"""How far a table's backup has come, by its newest manifest, found without listing all of them; and where it begins in each
epoch that bronze knows of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_assets.backup.manifest import Manifest, NamedObject, newest_of_table
from cdc_assets.backup.object_layout import is_batch_name, manifests_prefix
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError
from spark.errors import quantity
from spark.table.commit_metadata import CommittedTopic
from spark.table.needed_versions import Floor


@dataclass(frozen=True)
class BackupPosition:
    """How far the backup of a table has come; `epoch` -1: there is none.

    `positions` and `records` are those of the epoch, `records_total` counts all epochs. `bronze_version` is None
    where bronze had more at that version than the backup holds. `digest` is the newest manifest's.
    """

    epoch: int = -1
    topic: str = ""
    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    records_total: int = 0
    bronze_version: int | None = None
    bronze_id: str = ""
    digest: str = ""

    @classmethod
    def after(cls, manifest: Manifest) -> BackupPosition:
        """Where the backup stands with this manifest as its newest."""
        plan = manifest.plan
        return cls(
            epoch=plan.epoch,
            topic=plan.topic,
            topic_id=plan.topic_id,
            positions=manifest.positions,
            records=manifest.epoch_records,
            records_total=manifest.records_total,
            bronze_version=plan.bronze_version if plan.complete else None,
            bronze_id=plan.bronze_id,
            digest=manifest.sha256,
        )

    def holds(self, epoch: int, ends: Mapping[int, int], records: int) -> bool:
        """Whether the backup has all records of an epoch up to these ends, `records` of them. Offsets of markers alone make no
        difference."""
        if self.epoch != epoch:
            return self.epoch > epoch
        if all(end <= self.positions.get(p, 0) for p, end in ends.items()):
            return True
        return records == self.records and all(end >= self.positions.get(p, 0) for p, end in ends.items())

    def version_of(self, bronze_id: str) -> int | None:
        """The version of that bronze up to which the backup has all; None where nobody knows, or it is another bronze."""
        return self.bronze_version if self.bronze_id == bronze_id else None


@dataclass(frozen=True)
class NewestManifest:
    """The newest manifest that there is, and the one that `_newest` names.

    `_newest` names a manifest; only those after it are listed. Where it is lost, that costs a longer listing. Where it names a
    manifest which is gone, the backup goes on behind the newest that there is, and says so.
    """

    manifest: Manifest | None
    named: NamedObject | None

    @property
    def position(self) -> BackupPosition:
        """Where the backup stands."""
        return BackupPosition.after(self.manifest) if self.manifest else BackupPosition()

    @property
    def lost(self) -> str:
        """The manifest that is named, and gone with all behind it; empty: none."""
        there = self.manifest.key if self.manifest else ""
        return self.named.key if self.named and self.named.key > there else ""

    @property
    def is_unnamed(self) -> bool:
        """Whether nothing names the newest: a backup was killed before it could. A named one that is gone stays named."""
        if self.manifest is None or self.lost:
            return False
        return self.named is None or self.named.key != self.manifest.key

    def refuse_replaced(self, url: str) -> None:
        """A backup does not go on behind a manifest that somebody has replaced: its positions may be anything.

        Raises:
            BackupError: saying what to do.
        """
        named, there = self.named, self.manifest
        if named and there and named.key == there.key and named.digest != there.sha256:
            raise BackupError(
                f"{url}/{named.key} is another than when it was written: sha256 {there.sha256}, _newest says {named.digest}; "
                "put it back as it was, or remove it: the next backup makes it again of what bronze has"
            )

    def name(self, store: ObjectStore) -> None:
        """Let `_newest` name the newest, where nothing does."""
        if self.manifest is not None and self.is_unnamed:
            write_newest(store, self.manifest)


def backup_position(store: ObjectStore, *, source: str, table: str) -> BackupPosition:
    """Where the backup stands: three small requests, however many manifests there are.

    Raises:
        BackupError: when the newest manifest cannot be read.
        StoreError: when the store cannot be asked.
    """
    return find_newest(store, source, table).position


def find_newest(store: ObjectStore, source: str, table: str) -> NewestManifest:
    """The newest manifest of a table and what `_newest` names, by three small requests, however many manifests there are.

    Raises:
        BackupError: when the newest manifest cannot be read.
        StoreError: when the store cannot be asked.
    """
    folder, named = manifests_prefix(source, table), newest_of_table(source, table).read(store)
    # Listed from just before it, so that the listing itself shows whether it is still there.
    keys = _manifests(store, folder, after=named.key[:-1]) if named else []
    is_there = named is not None and named.key in keys
    key = max(keys if is_there else _manifests(store, folder), default=None)
    return NewestManifest(Manifest.from_bytes(store.get(key), key=key) if key else None, named)


def write_newest(store: ObjectStore, manifest: Manifest) -> None:
    """Let the next look begin at this one, which is the newest."""
    newest_of_table(manifest.plan.source, manifest.plan.table).write(store, manifest.key, manifest.sha256)


def refuse_expired(floor: Floor | None, at: BackupPosition, place: str) -> None:
    """A backup that ends before what bronze has no more would have a hole: only an earlier one has these records.

    Raises:
        BackupError: saying where it ends.
    """
    if floor is None or floor.is_within(at.epoch, at.positions):
        return
    ends = f"ends at epoch {at.epoch}, offsets {dict(at.positions)}" if at.epoch >= 0 else "is empty"
    raise BackupError(
        f"{place} {ends}, and bronze has given its first {quantity(floor.records, 'record')} (up to epoch {floor.epoch}, offsets "
        f"{dict(floor.positions)}) to an earlier backup, which alone has them: go on in that store and prefix (backup: in the "
        "source's file), or copy its objects here first"
    )


def _manifests(store: ObjectStore, folder: str, *, after: str = "") -> list[str]:
    return [item.key for item in store.list(folder, after=after) if is_batch_name(item.key.removeprefix(folder))]


def bronze_epochs(newest: CommittedTopic) -> list[CommittedTopic]:
    """Those that bronze knows of, oldest first; `earlier` of each is empty where it begins at its topic's begin."""
    first = [replace(past, topic_id=newest.topic_id) for past in newest.earlier[:1]]
    topics: list[CommittedTopic] = []
    for past in (*newest.before, *first, *newest.earlier[1:]):
        topic_id = past.topic_id or topics[-1].topic_id
        earlier = () if past.topic_id else (*topics[-1].earlier, past)
        topics.append(CommittedTopic(newest.table, topic_id, past.epoch, past.positions, records=past.records, earlier=earlier))
    return [*topics, newest]


def position_in_epoch(at: BackupPosition, before: CommittedTopic | None, state: CommittedTopic) -> BackupPosition:
    """In the epoch after the one that the backup has all of: behind it in the same topic, or at the begin of another."""
    if before is None or (at.epoch, at.topic_id) != (before.epoch, before.topic_id):
        return at
    positions = at.positions if state.earlier else {}
    return replace(at, epoch=state.epoch, topic_id=state.topic_id, positions=positions, records=0)
