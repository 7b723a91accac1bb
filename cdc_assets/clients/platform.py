"""Every outside system by a method, found through `settings`; Dagster has it as a resource (defs.platform_resource).

Clients are made on first use and kept per process, because an AdminClient or an HTTP pool costs more than the call it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.databases.catalogue import SourceDatabase
from cdc_assets.clients.databases.translated_catalogue import TranslatedCatalogue
from cdc_assets.clients.expired_records import bring_back_expired
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.restored_topics import LakeKafka, read_restored_topics
from cdc_assets.registry import names, settings
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource

if TYPE_CHECKING:
    from cdc_assets.clients.spark_sessions import SparkSessions


@dataclass(eq=False)
class Platform:
    """Connect, Kafka, Spark, databases and object stores, by address; a login is the path of a file (spark.events.kafka_login).

    An address that is None is found through `settings`. A test passes a subclass that hands out fakes.
    """

    core_bootstrap: str | None = None
    lake_bootstrap: str | None = None
    core_login: str | None = None
    lake_login: str | None = None
    core_connect_url: str | None = None
    lake_connect_url: str | None = None
    spark_remote: str | None = None
    lake_root: str | None = None

    _clients: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    # A source's checks run in threads, and boto3 makes one client at a time.
    _making: Any = field(default_factory=Lock, init=False, repr=False)

    @property
    def lake(self) -> str:
        """Root of the Delta tables."""
        return self.lake_root or settings.lake()

    def core_kafka(self, cluster: str) -> KafkaCluster:
        """The core cluster of that name: what Debezium writes to."""
        own = (self.core_bootstrap, self.core_login) if cluster == names.CORE else (None, None)
        return self._kafka(cluster, *own)

    def lake_kafka(self) -> KafkaCluster:
        """The cluster that bronze reads from; its offsets are those that bronze has (restored_topics.LakeKafka)."""
        address, path = self._at("lake", self.lake_bootstrap, self.lake_login)
        lake = names.topic_moves_path(self.lake)

        def make() -> KafkaCluster:
            return LakeKafka(address, login=path, restored=lambda: read_restored_topics(lake))

        return _of_process((address, path, _mtime(path), lake), make)

    def raw_lake_kafka(self) -> KafkaCluster:
        """The same by Kafka's own ids and offsets."""
        return self._kafka("lake", self.lake_bootstrap, self.lake_login)

    def core_connect(self, cluster: str) -> ConnectClient:
        """The Connect cluster that runs Debezium beside the core cluster of that name."""
        return self._connect(settings.variable(cluster, "CONNECT"), self.core_connect_url if cluster == names.CORE else None)

    def lake_connect(self) -> ConnectClient:
        """The Connect cluster that runs MirrorMaker 2."""
        return self._connect("CDC_LAKE_CONNECT", self.lake_connect_url)

    def connect(self, cluster: str) -> ConnectClient:
        """The Connect cluster called `lake`, or as a core cluster is."""
        return self.lake_connect() if cluster == names.LAKE else self.core_connect(cluster)

    def spark(self) -> SparkSessions:
        """Sessions on the Spark Connect server."""
        from cdc_assets.clients.spark_sessions import SparkSessions

        remote = self.spark_remote or settings.address("CDC_SPARK_REMOTE")
        token = settings.key(remote, "CDC_SPARK_TOKEN_FILE")
        bring_back = partial(bring_back_expired, self)
        return SparkSessions(remote, token, is_foreign=not settings.is_of_stack(remote), bring_back=bring_back)

    def database(self, source: CapturedSource) -> SourceDatabase:
        """The source's database (SourceDatabase), opened for questions about its tables and its log."""
        from cdc_assets.clients.kind_clients import open_database

        database: SourceDatabase = open_database(source.database)
        return database

    def columns(self, source: CapturedSource) -> TranslatedCatalogue:
        """The catalogue of a source whose types are translated, opened."""
        from cdc_assets.clients.kind_clients import open_columns

        return open_columns(source.database)

    def database_if_any(self, source: BaseSource) -> SourceDatabase | None:
        """The source's database; None for a source of topics."""
        database: SourceDatabase | None = self.database(source.asked) if source.asked else None
        return database

    def store(self, config: BackupStore) -> Any:
        """The object store of a backup."""
        from cdc_assets.clients.opened_store import open_store

        key = f"store {config!r}"
        with self._making:
            if key not in self._clients:
                settings.export_stack_environment()
                self._clients[key] = open_store(config)
            return self._clients[key]

    def _kafka(self, cluster: str, bootstrap: str | None, login: str | None) -> KafkaCluster:
        address, path = self._at(cluster, bootstrap, login)
        return _of_process((address, path, _mtime(path)), lambda: KafkaCluster(address, login=path))

    @staticmethod
    def _at(cluster: str, bootstrap: str | None, login: str | None) -> tuple[str, str]:
        address = bootstrap or settings.address(settings.variable(cluster, "BOOTSTRAP"))
        return address, settings.login(cluster, address) if login is None else login

    def _connect(self, name: str, given: str | None) -> ConnectClient:
        url = given or settings.address(name)
        login = settings.key(url.rstrip("/"), f"{name}_LOGIN_FILE")
        return _of_process(("connect", url, login), lambda: ConnectClient(url, login=login))


Client = TypeVar("Client")
_OF_PROCESS: dict[tuple[object, ...], Any] = {}
_MAKING = Lock()


def _of_process(key: tuple[object, ...], make: Callable[[], Client]) -> Client:
    """Not of the resource: Dagster makes that anew for each tick of a sensor, and an AdminClient is four threads that stay
    until the garbage is collected. Thirty of them were alive at a time."""
    with _MAKING:
        if key not in _OF_PROCESS:
            _OF_PROCESS[key] = make()
        client: Client = _OF_PROCESS[key]
        return client


def _mtime(path: str) -> int | None:
    """When the login's file was written (ns): a renewed password makes another client."""
    try:
        return Path(path).stat().st_mtime_ns if path else None
    except OSError:
        return None
