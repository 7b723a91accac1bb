"""A source's data: topics on both clusters, Delta tables, backups. Only exact names and prefixes of this source are touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cdc_assets import names, settings
from cdc_assets.backup.layout import manifests_prefix, table_prefix
from cdc_assets.backup.platform.document import FOLDER as PLATFORM
from cdc_assets.errors import RemovalError
from cdc_assets.quantity import quantity
from cdc_assets.removal.trace import Trace
from cdc_assets.resources.delta_log import bronze_floors
from cdc_assets.resources.table_lock import table_lock
from spark.delta.lease import lend_to_task
from spark.errors import LeftToSparkError
from spark.lake.folder import open_folder
from spark.lake.place import is_object

if TYPE_CHECKING:
    from cdc_assets.registry.models import BaseSource
    from cdc_assets.resources.kafka import KafkaCluster
    from cdc_assets.resources.platform import Platform

_TOPIC_DEADLINE_SECONDS = 60.0
_WAITS_SECONDS = 900.0
"""For whoever writes a table just now."""
_STATE = (
    "incarnations/{}.json",
    "kept-logs/{}.json",
    "onboarding/{}.json",
    "restores/{}.json",
    "mirrors/{}.json",
    "reconciliation/{}.json",
    "reconciliation/{}.differing.json",
    "reconciliation/{}.unsent.json",
)


def core_topics(source: Any) -> list[str]:
    """Topics that the source's connector has made; none of a source of topics, which others fill."""
    if source.captured is None:
        return []
    own = [names.marker_topic(source), names.signal_topic(source), names.notification_topic(source)]
    if names.has_schema_history(source):
        own += [names.schema_history_topic(source), names.temporary_schema_history_topic(source)]
    return [*(names.topic(source, table) for table in source.tables), *own, names.heartbeat_topic(source)]


def lake_topics(source: BaseSource) -> list[str]:
    """The copies on the lake's cluster; none where the lake reads the topics that others fill."""
    return [names.lake_topic(source, table) for table in source.tables] if names.is_mirrored(source) else []


def remove_topics(platform: Platform, source: BaseSource) -> list[str]:
    """On both clusters; but for what git declares (`topics_of_git`).

    Raises:
        KafkaError: a cluster cannot be asked, or refuses.
    """
    by_git = {names.topic(source, table) for table in source.tables} if source.managed_by == "gitops" else set()
    core = [topic for topic in core_topics(source) if topic not in by_git]
    gone = _remove_topics(platform.core_kafka(source.cluster), core, source.cluster) if core else []
    return gone + (_remove_topics(platform.lake_kafka(), lake_topics(source), "lake") if lake_topics(source) else [])


def topics_of_git(platform: Platform, source: BaseSource) -> list[Trace]:
    """Topics that are there and have a KafkaTopic: its operator would make again what is removed here. None without git."""
    if source.managed_by != "gitops" or source.captured is None:
        return []
    wanted = [names.topic(source, table) for table in source.tables]
    return [
        Trace("topics", f"topic {topic} (core) with its KafkaTopic", f"kubectl delete kafkatopic {names.kubernetes_name(topic)}")
        for topic in sorted(platform.core_kafka(source.cluster).existing(wanted))
    ]


def _remove_topics(kafka: KafkaCluster, topics: list[str], cluster: str) -> list[str]:
    there = sorted(kafka.existing(topics))
    for topic in there:
        kafka.delete_topic(topic)
    until = time.monotonic() + _TOPIC_DEADLINE_SECONDS
    while left := kafka.existing(there):
        if time.monotonic() > until:
            raise RemovalError(f"topics {', '.join(sorted(left))} at {kafka.bootstrap} are deleted, but are still there")
        time.sleep(0.2)
    return [f"topic {topic} ({cluster})" for topic in there]


def lake_folders(lake: str, source: BaseSource) -> list[str]:
    """The folders that hold nothing but this source's Delta tables."""
    of_tables = (names.silver_path, names.quarantine_path, names.replay_path, names.past_lake)
    return [
        names.bronze_path(lake, source),
        *(path(lake, source, source.tables[0]).rpartition("/")[0] for path in of_tables),
        names.ledger_path(lake, source),
        names.windows_path(lake, source, source.tables[0], "any").rpartition("/")[0],
        names.stream_checkpoint(lake, source),
        names.cuts_path(lake, source),
        names.drills_path(lake, source),
    ]


def remove_lake(platform: Platform, source: BaseSource) -> list[str]:
    """All of the lake that is the source's, histories and quarantine with it; waits for the runs that hold a table.

    Raises:
        RemovalError: a run holds a table for too long.
        LakeStoreError: the store cannot be asked, or refuses.
    """
    folders = [open_folder(folder) for folder in lake_folders(platform.lake, source)]
    there = [folder for folder in folders if _has_files(folder.path)]
    with ExitStack() as locks:
        for layer in ("bronze", "silver"):
            for table in sorted(names.table_name(table) for table in source.tables):
                locks.enter_context(table_lock(layer, source.name, table))
        for path in _tables_with_leases(platform.lake, source):
            locks.enter_context(_lease(path))
        for folder in folders:
            folder.remove_all()
    for folder in folders:
        # The ends of the leases that were held.
        folder.remove_all()
    return [f"folder {folder.path}" for folder in there]


def _has_files(path: str) -> bool:
    above, _, name = path.rpartition("/")
    return open_folder(above).has_files(name)


def _tables_with_leases(lake: str, source: BaseSource) -> list[str]:
    """The tables whose writers take turns by a lease: in an object store."""
    if not is_object(lake):
        return []
    return [names.bronze_path(lake, source), *(names.silver_path(lake, source, table) for table in source.tables)]


@contextmanager
def _lease(path: str) -> Iterator[None]:
    try:
        with lend_to_task(path, seconds=_WAITS_SECONDS):
            yield
    except LeftToSparkError as error:
        raise RemovalError(f"{error}; run it again") from error


def remove_backup(platform: Platform, source: BaseSource) -> list[str]:
    """Every object of the source's tables, also of those that were taken out before.

    Raises:
        RemovalError: the lake stays, and the backup alone has its first records.
        StoreError: the store cannot be asked, or refuses.
    """
    if source.backup is None:
        return []
    bronze = names.bronze_path(platform.lake, source)
    if gone_to_backup := sum(floor.records for floor in bronze_floors(bronze).values()):
        raise RemovalError(
            f"{bronze} has given its first {quantity(gone_to_backup, 'record')} to the backup, which alone has them: the backup "
            "stays for as long as the lake does. Both go with --delete lake,backup"
        )
    store, gone = platform.store(source.backup.store), []
    for prefix, keys in _of_tables(source, [found.key for found in store.list(f"{source.name}/")]).items():
        for key in keys:
            store.delete(key)
        gone.append(f"{quantity(len(keys), 'object')} below {store.url}/{prefix}")
    return gone


def _of_tables(source: BaseSource, keys: list[str]) -> dict[str, list[str]]:
    """The keys by their table's prefix: of tables that are declared, or that have a manifest of ours."""
    below: dict[str, list[str]] = {}
    for key in keys:
        table, slash, _ = key.removeprefix(f"{source.name}/").partition("/")
        if slash:
            below.setdefault(table, []).append(key)
    declared, found = {names.table_name(table) for table in source.tables}, {}
    for table, of in sorted(below.items()):
        manifests = manifests_prefix(source.name, table)
        # Manifests last: killed in between, the rest is still known for the table's.
        ordered = sorted(of, key=lambda key: (key.startswith(manifests), key))
        if table in declared or table == PLATFORM or ordered[-1].startswith(manifests):
            found[table_prefix(source.name, table)] = ordered
    return found


def forget_state(source: BaseSource) -> None:
    """What earlier looks have remembered of the source, in CDC_HOME."""
    for pattern in _STATE:
        (settings.home() / pattern.format(source.name)).unlink(missing_ok=True)
    for file in (settings.home() / "windows").glob(f"{source.name}.*.json"):
        file.unlink()
