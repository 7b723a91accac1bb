"""A source's data: topics on both clusters, Delta tables, backups. Only exact names and prefixes of this source are touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cdc_assets.backup.object_layout import manifests_prefix, table_prefix
from cdc_assets.backup.platform_log import FOLDER as PLATFORM
from cdc_assets.clients.delta_log import bronze_floors
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.recovery.source_traces import Trace
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RemovalError
from spark.errors import LeftToSparkError, quantity
from spark.table.lake_location import is_object
from spark.table.table_folder import open_folder
from spark.table.write_lease import lend_to_task

if TYPE_CHECKING:
    from cdc_assets.clients.kafka import KafkaCluster
    from cdc_assets.registry.source_declaration import BaseSource

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


def remove_topics(chain: Chain[BaseSource]) -> list[str]:
    """On both clusters; but for what git declares (`topics_of_git`).

    Raises:
        KafkaError: a cluster cannot be asked, or refuses.
    """
    by_git = {names.topic(chain.source, table) for table in chain.source.tables} if chain.source.managed_by == "gitops" else set()
    core = [topic for topic in core_topics(chain.source) if topic not in by_git]
    gone = _remove_topics(chain.platform.core_kafka(chain.source.cluster), core, chain.source.cluster) if core else []
    return gone + (
        _remove_topics(chain.platform.lake_kafka(), lake_topics(chain.source), "lake") if lake_topics(chain.source) else []
    )


def topics_of_git(chain: Chain[BaseSource]) -> list[Trace]:
    """Topics that are there and have a KafkaTopic: its operator would make again what is removed here. None without git."""
    if chain.source.managed_by != "gitops" or chain.source.captured is None:
        return []
    topics = [names.topic(chain.source, table) for table in chain.source.tables]
    return [
        Trace("topics", f"topic {topic} (core) with its KafkaTopic", f"kubectl delete kafkatopic {names.kubernetes_name(topic)}")
        for topic in sorted(chain.platform.core_kafka(chain.source.cluster).existing(topics))
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


def remove_lake(chain: Chain[BaseSource]) -> list[str]:
    """All of the lake that is the source's, histories and quarantine with it; waits for the runs that hold a table.

    Raises:
        RemovalError: a run holds a table for too long.
        LakeStoreError: the store cannot be asked, or refuses.
    """
    folders = [open_folder(folder) for folder in lake_folders(chain.platform.lake, chain.source)]
    there = [folder for folder in folders if _has_files(folder.path)]
    with ExitStack() as locks:
        for layer in ("bronze", "silver"):
            for table in sorted(names.table_name(table) for table in chain.source.tables):
                locks.enter_context(table_lock(layer, chain.source.name, table))
        tables = (chain.silver_path(table) for table in chain.source.tables)
        # In an object store the writers of a table take turns by a lease.
        for path in (chain.bronze_path, *tables) if is_object(chain.platform.lake) else ():
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


@contextmanager
def _lease(path: str) -> Iterator[None]:
    try:
        with lend_to_task(path, seconds=_WAITS_SECONDS):
            yield
    except LeftToSparkError as error:
        raise RemovalError(f"{error}; run it again") from error


def remove_backup(chain: Chain[BaseSource]) -> list[str]:
    """Every object of the source's tables, also of those that were taken out before.

    Raises:
        RemovalError: the lake stays, and the backup alone has its first records.
        StoreError: the store cannot be asked, or refuses.
    """
    if chain.source.backup is None:
        return []
    bronze = chain.bronze_path
    if gone_to_backup := sum(floor.records for floor in bronze_floors(bronze).values()):
        raise RemovalError(
            f"{bronze} has given its first {quantity(gone_to_backup, 'record')} to the backup, which alone has them: the backup "
            "stays for as long as the lake does. Both go with --delete lake,backup"
        )
    store, gone = chain.platform.store(chain.source.backup.store), []
    for prefix, keys in _of_tables(chain.source, [item.key for item in store.list(f"{chain.source.name}/")]).items():
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
    declared, ordered_keys = {names.table_name(table) for table in source.tables}, {}
    for table, of in sorted(below.items()):
        manifests = manifests_prefix(source.name, table)
        # Manifests last: killed in between, the rest is still known for the table's.
        ordered = sorted(of, key=lambda key: (key.startswith(manifests), key))
        if table in declared or table == PLATFORM or ordered[-1].startswith(manifests):
            ordered_keys[table_prefix(source.name, table)] = ordered
    return ordered_keys


def forget_state(source: BaseSource) -> None:
    """What earlier looks have remembered of the source, in CDC_HOME."""
    for pattern in _STATE:
        (settings.home() / pattern.format(source.name)).unlink(missing_ok=True)
    for file in (settings.home() / "windows").glob(f"{source.name}.*.json"):
        file.unlink()
