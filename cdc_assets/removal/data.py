"""A source's data: topics on both clusters, Delta tables, backups. Only exact names and prefixes of this source are touched."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets import names, settings
from cdc_assets.backup.layout import table_prefix
from cdc_assets.errors import RemovalError
from cdc_assets.removal.at_source import database_kind
from cdc_assets.resources.table_lock import table_lock

if TYPE_CHECKING:
    from cdc_assets.registry.models import BaseSource
    from cdc_assets.resources.kafka import KafkaCluster
    from cdc_assets.resources.platform import Platform

_TOPIC_DEADLINE_SECONDS = 60.0
_STATE = (
    "incarnations/{}.json",
    "onboarding/{}.json",
    "mirrors/{}.json",
    "reconciliation/{}.json",
    "reconciliation/{}.differing.json",
)


def core_topics(source: Any) -> list[str]:
    """Topics that the source's connector has made; none of a source of topics, which others fill."""
    if database_kind(source) == "topics":
        return []
    own = [names.marker_topic(source), names.signal_topic(source), names.notification_topic(source)]
    if names.has_schema_history(source):
        own += [names.schema_history_topic(source), names.temporary_schema_history_topic(source)]
    return [*(names.topic(source, table) for table in source.tables), *own, f"__debezium-heartbeat.{source.name}"]


def lake_topics(source: BaseSource) -> list[str]:
    """The copies on the lake's cluster; none where the lake reads the topics that others fill."""
    return [names.mirrored_topic(source, table) for table in source.tables] if names.is_mirrored(source) else []


def remove_topics(platform: Platform, source: BaseSource) -> list[str]:
    """On both clusters.

    Raises:
        KafkaError: a cluster cannot be asked, or refuses.
    """
    gone = _remove_topics(platform.core_kafka(), core_topics(source), "core") if core_topics(source) else []
    return gone + (_remove_topics(platform.lake_kafka(), lake_topics(source), "lake") if lake_topics(source) else [])


def _remove_topics(kafka: KafkaCluster, topics: list[str], cluster: str) -> list[str]:
    there = sorted(kafka.states(topics))
    for topic in there:
        kafka.delete_topic(topic)
    until = time.monotonic() + _TOPIC_DEADLINE_SECONDS
    while left := kafka.states(there):
        if time.monotonic() > until:
            raise RemovalError(f"topics {', '.join(sorted(left))} at {kafka.bootstrap} are deleted, but are still there")
        time.sleep(0.2)
    return [f"topic {topic} ({cluster})" for topic in there]


def lake_folders(lake: str, source: BaseSource) -> list[str]:
    """The folders that hold nothing but this source's Delta tables."""
    silver, held = (path(lake, source, source.tables[0]) for path in (names.silver_path, names.quarantine_path))
    return [
        names.bronze_path(lake, source),
        *(path.rpartition("/")[0] for path in (silver, held)),
        names.ledger_path(lake, source),
    ]


def remove_lake(platform: Platform, source: BaseSource) -> list[str]:
    """Bronze, silver with its histories, quarantine and ledger; waits for the runs that hold a table.

    Raises:
        RemovalError: the lake is no local folder, or a run holds a table for too long.
    """
    folders = lake_folders(platform.lake, source)
    if "://" in platform.lake:
        raise RemovalError(f"the lake is at {platform.lake}: remove there, with your store's own tool, {', '.join(folders)}")
    with ExitStack() as locks:
        for layer in ("bronze", "silver"):
            for table in sorted(names.table_name(table) for table in source.tables):
                locks.enter_context(table_lock(layer, source.name, table))
        there = [folder for folder in folders if Path(folder).exists()]
        for folder in there:
            shutil.rmtree(folder)
    return [f"folder {folder}" for folder in there]


def remove_backup(platform: Platform, source: BaseSource) -> list[str]:
    """Every object of the source's tables.

    Raises:
        StoreError: the store cannot be asked, or refuses.
    """
    if source.backup is None:
        return []
    store, gone = platform.store(source.backup.store), []
    for table in source.tables:
        prefix = table_prefix(source.name, names.table_name(table))
        keys = [found.key for found in store.list(prefix)]
        for key in keys:
            store.delete(key)
        if keys:
            gone.append(f"{len(keys)} object{'s' if len(keys) > 1 else ''} below {store.url}/{prefix}")
    return gone


def forget_state(source: BaseSource) -> None:
    """What earlier looks have remembered of the source, in CDC_HOME."""
    for pattern in _STATE:
        (settings.home() / pattern.format(source.name)).unlink(missing_ok=True)
