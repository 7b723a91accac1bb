"""Which topics of a source are gone, and what the backup has of each one's newest epoch, as records in their order: nothing
is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from cdc_assets.backup.backup_position import BackupPosition, backup_position
from cdc_assets.backup.manifest import Manifest, ManifestObject
from cdc_assets.backup.manifest_chain import find_base, is_gone
from cdc_assets.backup.object_layout import ValueForm, is_batch_name, manifests_prefix, table_prefix
from cdc_assets.backup.platform_log import newest_state
from cdc_assets.capture.connectors.debezium_settings import retention_ms
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.kafka import Record, TopicState
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.restored_topics import read_restored_topics
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.stored_rows import parse_rows, read_object
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_state import SourceState
from cdc_assets.registry.table_declaration import Table

_READERS = 8


@dataclass(frozen=True)
class KeptTopic:
    """The batches of the newest topic of a table, and where they end. `oldest`: by partition the number of the first batch
    that is taken.
    """

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
            BackupError: an object is not what its manifest says.
        """
        for number in range(len(self.manifests)):
            yield from _records(self.store, self._objects_of(number), self.manifests[number].plan.layout.values)

    def check(self) -> None:
        """Read every object once, so that nothing is begun that cannot be ended.

        Raises:
            BackupError: one is not what its manifest says.
        """
        with ThreadPoolExecutor(_READERS) as pool:
            for number in range(len(self.manifests)):
                list(pool.map(lambda item: len(read_object(self.store, item)), self._objects_of(number)))

    def last_records(self) -> dict[int, Record]:
        """Of each partition that has one."""
        last = dict[int, tuple[ManifestObject, ValueForm]]()
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
    manifests = tuple(manifest for manifest in read if manifest.plan.topic_id == position.topic_id)
    prefix = table_prefix(source, table)
    newest, oldest = dict[int, int](), dict[int, int]()
    for number, manifest in enumerate(manifests):
        hour = manifest.plan.layout.hour_folder(since_ms)
        for item in manifest.objects:
            newest[item.partition] = number
            if item.key.removeprefix(prefix) >= hour:
                oldest.setdefault(item.partition, number)
    # The last record of each: by it the copy's place in the core's topic is found.
    return KeptTopic(store, position, manifests, {**newest, **oldest})


def _records(store: ObjectStore, objects: Sequence[ManifestObject], values: ValueForm) -> Iterator[Record]:
    import pyarrow as pa

    if not objects:
        return
    with ThreadPoolExecutor(_READERS) as pool:
        tables = list(pool.map(partial(_rows, store, values), objects))
    rows = pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])
    for batch in rows.to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row.pop("headers") or ())
            yield Record(**row, headers=headers)


def _rows(store: ObjectStore, values: ValueForm, item: ManifestObject) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = parse_rows(read_object(store, item), item, values)
    millis = pc.divide(rows["timestamp"].cast(pa.int64()), 1000)
    rows = rows.set_column(rows.column_names.index("timestamp"), "timestamp", millis)
    return rows.select(["partition", "offset", "timestamp", "key", "value", "headers"])


@dataclass(frozen=True)
class TopicPlan:
    """A topic of the cluster called `core` or `lake` that is to be made again, and why. `state`: of the topic so called now."""

    table: Table
    cluster: str
    topic: str
    kept: KeptTopic
    why: str
    settings: Mapping[str, str]
    state: TopicState | None = None

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of it."""
        ends = {str(p): end for p, end in sorted(self.kept.position.positions.items())}
        return {
            "cluster": self.cluster,
            "topic": self.topic,
            "table": names.table_name(self.table),
            "why": self.why,
            "records": self.kept.records,
            "continues": self.kept.position.topic_id,
            "ends": ends,
        }


def backup_store(chain: Chain[BaseSource]) -> ObjectStore:
    """The source's.

    Raises:
        RefusalError: it declares none.
    """
    if chain.source.backup is None:
        raise RefusalError(f"source {chain.source.name} declares no backup: there is nothing to restore from")
    store: ObjectStore = chain.platform.store(chain.source.backup.store)
    return store


def plan_topics(chain: Chain[BaseSource]) -> list[TopicPlan]:
    """Those of the core first: the lake's copies go on behind them.

    Raises:
        RefusalError: the source has no backup, or a topic that is not ours to remove stands in the way.
    """
    store = backup_store(chain)
    newest = newest_state(store, chain.source.name)
    own = newest[1].topics if newest else {}
    kept = {table.id: kept for table in chain.source.tables if (kept := _find_kept(store, chain.source, table)) is not None}
    tables = [table for table in chain.source.tables if table.id in kept]
    if not tables:
        return []
    plans: list[TopicPlan] = []
    if names.is_mirrored(chain.source) and chain.source.captured is not None:
        states = chain.platform.core_kafka(chain.source.cluster).states([names.topic(chain.source, table) for table in tables])
        for table in tables:
            topic = names.topic(chain.source, table)
            if why := _why_free(chain.source, states.get(topic)):
                plans.append(
                    TopicPlan(
                        table,
                        "core",
                        topic,
                        kept[table.id],
                        why,
                        _settings(chain.source, table, own, "core", topic),
                        states.get(topic),
                    )
                )
    return [*plans, *_lake_plans(chain, tables, kept, own)]


def half_filled_topics(source: str) -> SourceState:
    """Topics that a restore has begun to fill, `{topic: Kafka's id}`: whoever comes next fills them anew."""
    return SourceState(source, "half-filled topics")


def _lake_plans(
    chain: Chain[BaseSource], tables: list[Table], kept: Mapping[Any, KeptTopic], own: Mapping[str, Any]
) -> Iterator[TopicPlan]:
    states = chain.platform.raw_lake_kafka().states([names.lake_topic(chain.source, table) for table in tables])
    restored = read_restored_topics(names.topic_moves_path(chain.platform.lake))
    committed = bronze_committed(chain.bronze_path)
    for table in tables:
        topic = names.lake_topic(chain.source, table)
        state, committed_topic = states.get(topic), committed.topics.get(topic) if committed else None
        expected = committed_topic.topic_id if committed_topic else kept[table.id].position.topic_id
        if state is not None:
            continues = restored[state.topic_id].continues if state.topic_id in restored else state.topic_id
            if continues == expected:
                continue
        why = _why_free(chain.source, state)
        if not why and state is not None:
            if not names.is_mirrored(chain.source):
                raise RefusalError(
                    f"topic {topic} is another one (id {state.topic_id}) than bronze has read ({expected}), and holds records of "
                    "others: nothing was changed; empty it or delete it first, if they are not wanted"
                )
            why = f"is another one (id {state.topic_id}); its records are copied again from the core's"
        yield TopicPlan(table, "lake", topic, kept[table.id], why, _settings(chain.source, table, own, "lake", topic), state)


def _why_free(source: BaseSource, state: TopicState | None) -> str:
    """Why nothing of a topic is lost by making it again; empty where something would be."""
    if state is None:
        return "is gone"
    if (half_filled_topics(source.name).read() or {}).get(state.name) == state.topic_id:
        return "was begun to be restored, and not finished"
    return ""


def _find_kept(store: ObjectStore, source: BaseSource, table: Table) -> KeptTopic | None:
    retention = int(retention_ms(source, table))
    since = int(time.time() * 1000) - retention
    return find_kept_topic(store, source.name, names.table_name(table), since_ms=max(0, since))


def _settings(source: BaseSource, table: Table, own: Mapping[str, Any], cluster: str, topic: str) -> Mapping[str, str]:
    settings: Mapping[str, str] = own.get(cluster, {}).get(topic, {}).get("settings", {})
    return settings or {"retention.ms": retention_ms(source, table)}
