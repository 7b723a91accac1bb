"""What the backup has of a table's newest topic, as records in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from cdc_assets.backup.backup_base import find_base, is_gone
from cdc_assets.backup.layout import is_batch_name, manifests_prefix, table_prefix
from cdc_assets.backup.manifest import Manifest, ManifestObject
from cdc_assets.backup.object_layout import Values
from cdc_assets.backup.position import BackupPosition, backup_position
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.topic_state import Record
from cdc_assets.restore.stored_rows import read_object, read_rows

_READERS = 8


@dataclass(frozen=True)
class KeptTopic:
    """The batches of the newest topic of a table, and where they end; `oldest`: by partition the first batch that is taken."""

    store: ObjectStore
    position: BackupPosition
    manifests: tuple[Manifest, ...]
    oldest: Mapping[int, int]

    @property
    def objects(self) -> list[ManifestObject]:
        """Those that are taken, in the order of the batches."""
        return [item for number in range(len(self.manifests)) for item in self._objects_of(number)]

    @property
    def records(self) -> int:
        """Of all objects that are taken, together."""
        return sum(item.records for item in self.objects)

    def read(self) -> Iterator[Record]:
        """Batch by batch, those of a partition in their order.

        Raises:
            DamagedObjectError: an object is not what its manifest says.
        """
        for number in range(len(self.manifests)):
            yield from _records(self.store, self._objects_of(number), self.manifests[number].plan.layout.values)

    def check(self) -> None:
        """Read every object once, so that nothing is begun that cannot be ended.

        Raises:
            DamagedObjectError: one is not what its manifest says.
        """
        with ThreadPoolExecutor(_READERS) as pool:
            for number in range(len(self.manifests)):
                list(pool.map(lambda item: len(read_object(self.store, item)), self._objects_of(number)))

    def last_records(self) -> dict[int, Record]:
        """Of each partition that has one."""
        last = dict[int, tuple[ManifestObject, Values]]()
        for number, manifest in enumerate(self.manifests):
            for item in sorted(self._objects_of(number), key=lambda item: item.max_offset):
                last[item.partition] = item, manifest.plan.layout.values
        return {p: list(_records(self.store, [item], values))[-1] for p, (item, values) in last.items()}

    def _objects_of(self, number: int) -> list[ManifestObject]:
        return [item for item in self.manifests[number].objects if number >= self.oldest.get(item.partition, len(self.manifests))]


def find_kept_topic(store: ObjectStore, source: str, table: str, *, since_ms: int) -> KeptTopic | None:
    """Of each partition the batches from the first one on that has a record of `since_ms` or later: Kafka's retention removes
    what is older. None: the backup has nothing of the table.

    Raises:
        StoreError: the store cannot be asked.
        BackupError: a manifest, or the base, cannot be read.
    """
    position = backup_position(store, source=source, table=table)
    if position.epoch < 0:
        return None
    folder, base = manifests_prefix(source, table), find_base(store, source, table)
    listed = (item.key for item in store.list(folder) if is_batch_name(item.key.removeprefix(folder)))
    keys = sorted(key for key in listed if not is_gone(base, key))
    with ThreadPoolExecutor(_READERS) as pool:
        read = list(pool.map(lambda key: Manifest.from_bytes(store.get(key), key=key), keys))
    manifests = tuple(each for each in read if each.plan.topic_id == position.topic_id)
    place = table_prefix(source, table)
    newest, oldest = dict[int, int](), dict[int, int]()
    for number, manifest in enumerate(manifests):
        hour = manifest.plan.layout.hour_folder(since_ms)
        for item in manifest.objects:
            newest[item.partition] = number
            if item.key.removeprefix(place) >= hour:
                oldest.setdefault(item.partition, number)
    # The last record of each: by it the copy's place in the core's topic is found.
    return KeptTopic(store, position, manifests, {**newest, **oldest})


def _records(store: ObjectStore, objects: Sequence[ManifestObject], values: Values) -> Iterator[Record]:
    import pyarrow as pa

    if not objects:
        return
    with ThreadPoolExecutor(_READERS) as pool:
        parts = list(pool.map(partial(_rows, store, values), objects))
    rows = pa.concat_tables(parts).sort_by([("partition", "ascending"), ("offset", "ascending")])
    for batch in rows.to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row.pop("headers") or ())
            yield Record(**row, headers=headers)


def _rows(store: ObjectStore, values: Values, item: ManifestObject) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = read_rows(read_object(store, item), item, values)
    millis = pc.divide(rows["timestamp"].cast(pa.int64()), 1000)
    rows = rows.set_column(rows.column_names.index("timestamp"), "timestamp", millis)
    return rows.select(["partition", "offset", "timestamp", "key", "value", "headers"])
