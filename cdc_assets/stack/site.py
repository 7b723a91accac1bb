"""What every component is built from: the home folder, the ports, the number of brokers, the jars, and given addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.jars.download import cache_folder
from cdc_assets.stack.jars.lockfile import read_lock
from cdc_assets.stack.kafka_logins import client_login
from cdc_assets.stack.ports import HOST


@dataclass(frozen=True)
class Site:
    """One embedded stack. `external` holds the addresses that the user has set: nothing of ours is started for those.

    `plugins` are the jar sets that the core Connect worker loads as plugins; `buckets` by kind of store (`s3`, `gcs`)
    those that the endpoints hold. `logins`: brokers and Connect workers ask for one, as they do in every stack. `spark` is
    `local` (one JVM) or `standalone` (a master and workers of its own). `jmx`: JVMs serve figures of their own. `hosts`: where a
    port by name is not on 127.0.0.1.
    """

    home: Home
    ports: Mapping[str, int]
    brokers: int = 1
    external: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[str, ...] = ("debezium-postgres",)
    buckets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    logins: bool = False
    spark: str = "local"
    jmx: bool = False
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_standalone(self) -> bool:
        """Whether Spark's master and workers are parts of the stack."""
        return self.spark == "standalone"

    def address(self, port: str) -> str:
        """`127.0.0.1:port` of a named port, or at its own address."""
        return f"{self.hosts.get(port, HOST)}:{self.ports[port]}"

    def bootstrap(self, cluster: str) -> str:
        """Bootstrap servers of the cluster `core` or `lake`."""
        given = self.external.get(f"CDC_{cluster.upper()}_BOOTSTRAP")
        return given or ",".join(self.address(name) for name in broker_names(cluster, self.brokers))

    def login(self, cluster: str) -> str | None:
        """The `client.properties` of our own clients on the cluster `core` or `lake`; None where it asks for no login."""
        given = self.external.get(f"CDC_{cluster.upper()}_LOGIN")
        is_ours = self.logins and f"CDC_{cluster.upper()}_BOOTSTRAP" not in self.external
        return given or (str(client_login(self.home)) if is_ours else None)

    def buckets_to_make(self, store: str) -> list[str]:
        """Those chosen at the start, and those that `cdc up` has added since."""
        added = read_json(self.home.config).get("buckets", {})
        return sorted({*self.buckets.get(store, ()), *added.get(store, ())})

    @staticmethod
    def jars(name: str) -> list[Path]:
        """The cached jars of one set."""
        return [cache_folder() / jar.path for jar in read_lock().sets[name]]


def broker_names(cluster: str, brokers: int) -> list[str]:
    """A cluster's brokers by name, as `core-kafka`, `core-kafka-2`, `core-kafka-3`."""
    return [f"{cluster}-kafka" if node == 1 else f"{cluster}-kafka-{node}" for node in range(1, brokers + 1)]
