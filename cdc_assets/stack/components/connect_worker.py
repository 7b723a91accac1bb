"""A Kafka Connect worker: Debezium on the core cluster, MirrorMaker 2's connectors on the lake's.

Exactly-once source support is on. Its REST interface asks for a login, because who is served can read every secret. Passwords
come from files of one folder, or variables CDC_SECRET_…, only; connector configs may override client settings from a short
list, so that nobody points a connector's clients at other credentials.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from cdc_assets.registry.kinds import modules_of_plugins
from cdc_assets.registry.settings import CONNECT_BOUND
from cdc_assets.stack.component import Component, Site, broker_names
from cdc_assets.stack.components.java_process import CONNECT, jmx_address, jmx_options, jmx_ports, write_log4j, write_properties
from cdc_assets.stack.components.kafka_broker import MAX_MESSAGE_BYTES
from cdc_assets.stack.home import private_folder, write_private
from cdc_assets.stack.kafka_logins import WORKER_USER, login, worker_topics
from cdc_assets.stack.own_converters import BOUNDED_JSON, NULL_KEEPING_AVRO, OwnConverter, keep_jar
from cdc_assets.stack.runtimes import SMALL_YOUNG, java, java_command, java_having
from cdc_assets.stack.stack_errors import NotReadyError
from spark.events.kafka_login import read_login

if TYPE_CHECKING:
    import httpx

USER, PASSWORD = "cdc", "connect_password"
"""Of the REST interface; the password is one of the stack's private files."""
_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_JAAS = """\
KafkaConnect {{
  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="{file}";
}};
"""
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_SECRET_VARIABLE = "CDC_SECRET_"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class ConnectWorker(Component):
    """One distributed worker, a cluster of its own."""

    def __init__(self, site: Site, cluster: str) -> None:
        super().__init__(site)
        self.cluster = cluster

    @property
    @override
    def name(self) -> str:
        return f"{self.cluster}-connect"

    @property
    @override
    def ports(self) -> tuple[str, ...]:
        return (self.name, *jmx_ports(self))

    @property
    @override
    def needs(self) -> tuple[str, ...]:
        external = f"CDC_{self.cluster.upper()}_BOOTSTRAP" in self.site.external
        return () if external else tuple(broker_names(self.cluster, self.site.brokers))

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        write_log4j(self.run / "log4j2.properties")
        write_properties(self.run / "connect.properties", self._properties())
        if self.site.logins:
            write_private(self.run / "jaas.conf", _JAAS.format(file=self.run / "users.properties"))
            write_private(self.run / "users.properties", f"{USER}={self.site.home.private(PASSWORD)}\n")
            write_private(self._login_file, f"{USER}:{self.site.home.private(PASSWORD)}")
        plugins = self.run / "plugins"
        # Anew at each start, so that a changed lock never leaves two versions of a plugin side by side.
        shutil.rmtree(plugins, ignore_errors=True)
        private_folder(plugins)
        if self.cluster == "core":
            for name in self.site.plugins:
                folder = private_folder(plugins / name)
                for jar in self.site.jars(name):
                    (folder / jar.name).symlink_to(jar)
                if name == NULL_KEEPING_AVRO.plugin:
                    self._add(NULL_KEEPING_AVRO, folder)
            self._add(BOUNDED_JSON, private_folder(plugins / BOUNDED_JSON.plugin))

    def _add(self, converter: OwnConverter, folder: Path) -> None:
        # Beside the plugins: they are made anew, and to compile one takes a second.
        keep_jar(converter, self.run / converter.jar)
        (folder / converter.jar).symlink_to(self.run / converter.jar)

    @override
    def command(self) -> list[str]:
        # Drivers read times of day by Java's clock, and where it goes forward there is an hour that they cannot say.
        options = [
            *jmx_options(self, CONNECT),
            "-Duser.timezone=UTC",
            f"-Dlog4j2.configurationFile={self.run / 'log4j2.properties'}",
        ]
        if self.site.logins:
            options.append(f"-Djava.security.auth.login.config={self.run / 'jaas.conf'}")
        _, *arguments = java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            class_path=self.site.jars("kafka"),
            heap_mb=320 if self.cluster == "core" else 256,
            # Debezium makes objects of every change, a mirror passes bytes on.
            options=options if self.cluster == "core" else [*options, SMALL_YOUNG],
            arguments_file=self.run / "java.args",
        )
        return [str(self.java), *arguments, str(self.run / "connect.properties")]

    @property
    def java(self) -> Path:
        """The stack's, or one with what the plugins need. Whether one has it `component_plan.choose` asks before the start."""
        needed = modules_of_plugins(self.site.plugins) if self.cluster == "core" else ()
        return java_having(needed) or java()

    def _properties(self) -> dict[str, str]:
        group = f"{self.cluster}-connect"
        converter = _JSON if self.cluster == "core" else _BYTES
        allowed = ",".join((str(self.site.home.secrets), *self._login_places()))
        return {
            "bootstrap.servers": self.site.bootstrap(self.cluster),
            **self._login(),
            "group.id": group,
            "listeners": self.url,
            **({"rest.extension.classes": _EXTENSION} if self.site.logins else {}),
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": str(self.site.ports[self.name]),
            "plugin.path": str(self.run / "plugins"),
            "plugin.discovery": "service_load",
            "exactly.once.source.support": "enabled",
            "key.converter": converter,
            "value.converter": converter,
            **(
                {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"} if converter == _JSON else {}
            ),
            **_storage(group, str(self.site.brokers) if self.needs else "-1"),
            "offset.flush.interval.ms": "5000",
            # Of the worker's own readers of its topics, seven and more: each asks twice a second by default. A record is answered
            # at once all the same; to stop one takes as long.
            "fetch.max.wait.ms": _FETCH_WAITS_MS,
            "consumer.fetch.max.wait.ms": _FETCH_WAITS_MS,
            "scheduled.rebalance.max.delay.ms": "0",
            "connector.client.config.override.policy": "Allowlist",
            "connector.client.config.override.allowlist": _OVERRIDES,
            "config.providers": "dir,file,env",
            "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "config.providers.dir.param.allowed.paths": allowed,
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": allowed,
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": f"{_SECRET_VARIABLE}[A-Z0-9_]+",
            "producer.max.request.size": str(MAX_MESSAGE_BYTES),
            "producer.compression.type": "zstd",
            "consumer.max.partition.fetch.bytes": str(MAX_MESSAGE_BYTES),
        }

    def _login(self) -> dict[str, str]:
        """Of the worker's own clients. On a Kafka of the user's: references, so that its properties hold no secret either.

        On ours: its own user, in no file that the config providers may read. A connector could refer to it there.
        """
        clients, path = ("", "producer.", "consumer.", "admin."), self.site.external.get(f"CDC_{self.cluster.upper()}_LOGIN")
        if path:
            return read_login(path).references(*clients)
        return login(self.site.home, WORKER_USER, *clients) if self.site.login(self.cluster) else {}

    def _login_places(self) -> list[str]:
        """What the worker's and its connectors' own clients refer to: MirrorMaker's has both clusters'."""
        paths = {path: None for cluster in ("core", "lake") if (path := self.site.login(cluster))}
        return [reference for path in paths for reference in read_login(path).places]

    @override
    def environment(self) -> dict[str, str]:
        secrets = {name: value for name, value in os.environ.items() if name.startswith(_SECRET_VARIABLE)}
        return super().environment() | secrets

    @cached_property
    def _http(self) -> httpx.Client:
        import httpx

        login = (USER, self.site.home.private(PASSWORD)) if self.site.logins else None
        return httpx.Client(base_url=self.url, timeout=self.answer_within, trust_env=False, auth=login)

    @override
    def probe(self) -> None:
        import httpx

        try:
            for path in ("/", "/connectors"):
                response = self._http.get(path, timeout=self.answer_within)
                response.raise_for_status()
        except httpx.HTTPError as error:
            raise NotReadyError(f"{self.url}: {error}") from error

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        own = {f"CDC_{self.cluster.upper()}_CONNECT": self.url, **jmx_address(self)}
        if self.cluster != "core":
            return own
        return own | {"CDC_CONNECT_SECRETS": str(self.site.home.secrets), CONNECT_BOUND: str(MAX_MESSAGE_BYTES)}

    @property
    def _login_file(self) -> Path:
        return self.site.home.private_file("connect_login")

    @property
    @override
    def keys(self) -> Mapping[str, Path]:
        return {self.url: self._login_file} if self.site.logins else {}


_FETCH_WAITS_MS = "2000"


def _storage(group: str, replicas: str) -> dict[str, str]:
    topics = {f"{kind}.storage.topic": topic for kind, topic in worker_topics(group).items()}
    copies = {f"{kind}.storage.replication.factor": replicas for kind in worker_topics(group)}
    return {**topics, **copies, "offset.storage.partitions": "4", "status.storage.partitions": "1"}


_OVERRIDES = ",".join(
    (
        "max.request.size",
        "batch.size",
        "linger.ms",
        "compression.type",
        "buffer.memory",
        "max.poll.records",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "isolation.level",
        "auto.offset.reset",
        "transaction.timeout.ms",
    )
)
