"""Which topics of a source are gone, and what the backup has of each: nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets import names, settings
from cdc_assets.backup.platform import newest_state
from cdc_assets.connectors.debezium_common import retention_ms
from cdc_assets.durable_file import read_json
from cdc_assets.errors import RestoreError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.restored_topics import read_restored_topics
from cdc_assets.resources.topic_state import TopicState
from cdc_assets.restore.kept_topic import KeptTopic, find_kept_topic


@dataclass(frozen=True)
class TopicPlan:
    """A topic of the cluster called `core` or `lake` that is to be made again, and why; `found` is what has its name now."""

    table: Table
    cluster: str
    topic: str
    kept: KeptTopic
    why: str
    settings: Mapping[str, str]
    found: TopicState | None = None

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


def backup_store(platform: Platform, source: BaseSource) -> ObjectStore:
    """The source's.

    Raises:
        RestoreError: it declares none.
    """
    if source.backup is None:
        raise RestoreError(f"source {source.name} declares no backup: there is nothing to restore from")
    store: ObjectStore = platform.store(source.backup.store)
    return store


def plan_topics(platform: Platform, source: BaseSource) -> list[TopicPlan]:
    """Those of the core first: the lake's copies go on behind them.

    Raises:
        RestoreError: the source has no backup, or a topic that is not ours to remove stands in the way.
    """
    store = backup_store(platform, source)
    newest = newest_state(store, source.name)
    own = newest[1].topics if newest else {}
    kept = {table.id: kept for table in source.tables if (kept := _find_kept(store, source, table)) is not None}
    tables = [table for table in source.tables if table.id in kept]
    if not tables:
        return []
    found: list[TopicPlan] = []
    if names.is_mirrored(source) and source.captured is not None:
        states = platform.core_kafka(source.cluster).states([names.topic(source, table) for table in tables])
        for table in tables:
            topic = names.topic(source, table)
            if why := _why_free(source, states.get(topic)):
                found.append(
                    TopicPlan(
                        table, "core", topic, kept[table.id], why, _settings(source, table, own, "core", topic), states.get(topic)
                    )
                )
    return [*found, *_lake_plans(platform, source, tables, kept, own)]


def half_filled_topics(source: str) -> dict[str, str]:
    """Topics that a restore has begun to fill, `{topic: Kafka's id}`: whoever comes next fills them anew."""
    return dict(read_json(half_filled_file(source)) or {})


def half_filled_file(source: str) -> Any:
    """Of the source, under CDC_HOME."""
    return settings.home() / "restores" / f"{source}.json"


def _lake_plans(
    platform: Platform, source: BaseSource, tables: list[Table], kept: Mapping[Any, KeptTopic], own: Mapping[str, Any]
) -> Iterator[TopicPlan]:
    states = platform.raw_lake_kafka().states([names.lake_topic(source, table) for table in tables])
    restored = read_restored_topics(names.topic_moves_path(platform.lake))
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    for table in tables:
        topic = names.lake_topic(source, table)
        state, known = states.get(topic), committed.topics.get(topic) if committed else None
        expected = known.topic_id if known else kept[table.id].position.topic_id
        if state is not None:
            continues = restored[state.topic_id].continues if state.topic_id in restored else state.topic_id
            if continues == expected:
                continue
        why = _why_free(source, state)
        if not why and state is not None:
            if not names.is_mirrored(source):
                raise RestoreError(
                    f"topic {topic} is another one (id {state.topic_id}) than bronze has read ({expected}), and holds records of "
                    "others: nothing was changed; empty it or delete it first, if they are not wanted"
                )
            why = f"is another one (id {state.topic_id}); its records are copied again from the core's"
        yield TopicPlan(table, "lake", topic, kept[table.id], why, _settings(source, table, own, "lake", topic), state)


def _why_free(source: BaseSource, state: TopicState | None) -> str:
    """Why nothing of a topic is lost by making it again; empty where something would be."""
    if state is None:
        return "is gone"
    if half_filled_topics(source.name).get(state.name) == state.topic_id:
        return "was begun to be restored, and not finished"
    return ""


def _find_kept(store: ObjectStore, source: BaseSource, table: Table) -> KeptTopic | None:
    retention = int(retention_ms(source, table))
    since = int(time.time() * 1000) - retention
    return find_kept_topic(store, source.name, names.table_name(table), since_ms=max(0, since))


def _settings(source: BaseSource, table: Table, own: Mapping[str, Any], cluster: str, topic: str) -> Mapping[str, str]:
    found: Mapping[str, str] = own.get(cluster, {}).get(topic, {}).get("settings", {})
    return found or {"retention.ms": retention_ms(source, table)}
