"""A Kafka broker of the core or the lake cluster: KRaft combined mode, one or three of them.

Data is replicated to every broker; a batch of 10 MB passes end to end. Topics are never created by accident. In every stack
it asks for a login (`kafka_logins`).
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from cdc_assets.stack.component import Component, Site, broker_names
from cdc_assets.stack.components.java_process import BROKER, jmx_address, jmx_options, jmx_ports, write_log4j, write_properties
from cdc_assets.stack.home import private_folder, write_once
from cdc_assets.stack.kafka_logins import BROKER_USER, LISTENER, acls, broker_properties, client_login, librdkafka_login
from cdc_assets.stack.runtimes import SMALL_YOUNG, java_command
from cdc_assets.stack.stack_errors import NotReadyError
from spark.errors import quantity

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

MAX_MESSAGE_BYTES = 10_485_760


class KafkaBroker(Component):
    """One broker, which is a controller as well."""

    stop_timeout = 20

    def __init__(self, site: Site, cluster: str, node: int) -> None:
        super().__init__(site)
        self.cluster = cluster
        self.node = node

    @property
    @override
    def name(self) -> str:
        return broker_names(self.cluster, self.node)[-1]

    @property
    @override
    def ports(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}-controller", *jmx_ports(self))

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        write_log4j(self.run / "log4j2.properties")
        write_properties(self.run / "kafka.properties", self._properties())
        if self.site.logins:
            client_login(self.site.home)
        private_folder(self.data)
        if not (self.data / "meta.properties").exists():
            tool = self._java("kafka.tools.StorageTool", heap_mb=128)
            # --ignore-formatted: a format that was killed half-way is finished.
            format_ = ["format", "-t", self._cluster_id(), "-c", str(self.run / "kafka.properties"), "--ignore-formatted"]
            self.once([*tool, *format_], "formatting the storage")

    @override
    def command(self) -> list[str]:
        agent = jmx_options(self, BROKER)
        return [*self._java("kafka.Kafka", *agent, SMALL_YOUNG, heap_mb=256), str(self.run / "kafka.properties")]

    def _java(self, main: str, *more: str, heap_mb: int) -> list[str]:
        options = [*more, f"-Dlog4j2.configurationFile={self.run / 'log4j2.properties'}"]
        arguments = self.run / "java.args"
        return java_command(main, class_path=self.site.jars("kafka"), heap_mb=heap_mb, options=options, arguments_file=arguments)

    def _cluster_id(self) -> str:
        # Of the cluster, not the broker: all brokers are formatted with the same.
        file = self.site.home.root / "data" / f"{self.cluster}-kafka.cluster-id"
        if file.exists():
            return file.read_text(encoding="utf-8")
        # The brokers of a cluster are prepared at the same time: they must agree on one id.
        return write_once(file, base64.urlsafe_b64encode(b"k" + uuid.uuid4().bytes[1:]).decode().rstrip("="))

    def _properties(self) -> dict[str, str]:
        brokers = self.site.brokers
        names = broker_names(self.cluster, brokers)
        voters = ",".join(f"{node}@{self.site.address(f'{name}-controller')}" for node, name in enumerate(names, 1))
        client, controller = (self.site.address(port) for port in self.ports[:2])
        replicas, minimum = str(brokers), str(2 if brokers >= 3 else 1)
        listener, security = (LISTENER, broker_properties(self.site.home)) if self.site.logins else ("PLAINTEXT", {})
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listener}://{client},CONTROLLER://{controller}",
            "advertised.listeners": f"{listener}://{client}",
            **security,
            "log.dirs": str(self.data),
            "default.replication.factor": replicas,
            "min.insync.replicas": minimum,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": minimum,
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": minimum,
            "auto.create.topics.enable": "false",
            "num.partitions": "1",
            "log.retention.hours": "168",
            # The controller writes a record of nothing twice a second by default, and every broker takes it in.
            "metadata.max.idle.interval.ms": "5000",
            "message.max.bytes": str(MAX_MESSAGE_BYTES),
            "replica.fetch.max.bytes": str(MAX_MESSAGE_BYTES),
            "group.initial.rebalance.delay.ms": "0",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        }

    @cached_property
    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        # Failures come back from the calls; librdkafka's own lines on stderr would only repeat them every second.
        own: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.address,
            "socket.timeout.ms": 60_000,
            "log_level": 0,
        }
        login = librdkafka_login(self.site.home, BROKER_USER) if self.site.logins else {}
        return AdminClient({**own, **login}, logger=_SILENT)

    @override
    def probe(self) -> None:
        from confluent_kafka import KafkaException

        try:
            # Not DescribeCluster, by which a starting broker ends librdkafka, and the supervisor with it (ClientMaker.metadata).
            seen = self._admin.list_topics("__consumer_offsets", timeout=self.answer_within)
        except KafkaException as error:
            raise NotReadyError(f"{self.address} does not describe its cluster: {error}") from error
        if len(seen.brokers) != self.site.brokers or seen.controller_id < 0:
            raise NotReadyError(f"{len(seen.brokers)} of {quantity(self.site.brokers, 'broker')} joined")

    @override
    def settle(self) -> None:
        """What everybody but brokers and workers may do: until then it is nothing."""
        from confluent_kafka import KafkaException

        if not self.site.logins:
            return
        try:
            for done in self._admin.create_acls(acls(f"{self.cluster}-connect")).values():
                done.result(60)
        except KafkaException as error:
            raise NotReadyError(f"{self.address} does not take its ACLs: {error}") from error

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        cluster = self.cluster.upper()
        login = {f"CDC_{cluster}_LOGIN": path} if (path := self.site.login(self.cluster)) else {}
        return {f"CDC_{cluster}_BOOTSTRAP": self.site.bootstrap(self.cluster), **login, **jmx_address(self)}

    @property
    @override
    def keys(self) -> Mapping[str, Path]:
        path = self.site.login(self.cluster)
        return {self.site.bootstrap(self.cluster): Path(path)} if path else {}


def _silent_logger() -> logging.Logger:
    logger = logging.getLogger("cdc_assets.stack.kafka.probe")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


_SILENT = _silent_logger()
