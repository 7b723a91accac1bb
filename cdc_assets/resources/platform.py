"""The one Dagster resource: every outside system by a method, found through `settings`.

Fields override what the environment says; a test passes a subclass that hands out fakes. Clients are made on
first use and kept per process, because an AdminClient or an HTTP pool costs more than the call it serves.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from cdc_assets import settings
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.models import BaseSource, Source
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases import SourceDatabase, open_database
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.spark import SparkSessions


class Platform(dg.ConfigurableResource):
    """Connect, Kafka, Spark, databases and object stores, by address; a login is the path of a file (spark.kafka_login)."""

    core_bootstrap: str | None = None
    lake_bootstrap: str | None = None
    core_login: str | None = None
    lake_login: str | None = None
    core_connect_url: str | None = None
    lake_connect_url: str | None = None
    spark_remote: str | None = None
    lake_root: str | None = None

    _clients: dict[str, Any] = PrivateAttr(default_factory=dict)
    # A source's checks run in threads, and boto3 makes one client at a time.
    _making: Any = PrivateAttr(default_factory=Lock)

    @property
    def lake(self) -> str:
        """Root of the Delta tables."""
        return self.lake_root or settings.lake()

    def core_kafka(self) -> KafkaCluster:
        """The cluster that Debezium writes to."""
        return self._kafka("core", self.core_bootstrap, self.core_login)

    def lake_kafka(self) -> KafkaCluster:
        """The cluster that bronze reads from."""
        return self._kafka("lake", self.lake_bootstrap, self.lake_login)

    def core_connect(self) -> ConnectClient:
        """The Connect cluster that runs Debezium."""
        return self._connect(self.core_connect_url or settings.address("CDC_CORE_CONNECT"))

    def lake_connect(self) -> ConnectClient:
        """The Connect cluster that runs MirrorMaker 2."""
        return self._connect(self.lake_connect_url or settings.address("CDC_LAKE_CONNECT"))

    def connect(self, cluster: str) -> ConnectClient:
        """The Connect cluster called `core` or `lake`."""
        return self.core_connect() if cluster == "core" else self.lake_connect()

    def spark(self) -> SparkSessions:
        """Sessions on the Spark Connect server."""
        return SparkSessions(self.spark_remote or settings.address("CDC_SPARK_REMOTE"))

    def database(self, source: Source) -> MariaDbDatabase | PostgresDatabase:
        """The source's database."""
        return open_database(source.database)

    def database_if_any(self, source: BaseSource) -> SourceDatabase | None:
        """The source's database; None for a source of topics."""
        return self.database(source) if isinstance(source, Source) else None

    def store(self, config: BackupStore) -> Any:
        """The object store of a backup."""
        from cdc_assets.resources.object_store import open_store

        key = f"store {config!r}"
        with self._making:
            if key not in self._clients:
                settings.export_stack_environment()
                self._clients[key] = open_store(config)
            return self._clients[key]

    def _kafka(self, cluster: str, bootstrap: str | None, login: str | None) -> KafkaCluster:
        place = bootstrap or settings.address(f"CDC_{cluster.upper()}_BOOTSTRAP")
        path = settings.login(cluster) if login is None else login
        return self._clients.setdefault(f"kafka {place} {path}", KafkaCluster(place, login=path))

    def _connect(self, url: str) -> ConnectClient:
        key = f"connect {url}"
        if key not in self._clients:
            self._clients[key] = ConnectClient(url)
        return self._clients[key]
