"""A Kafka broker that asks who somebody is and allows nothing that no ACL grants (StandardAuthorizer), and Connect workers on it.

One broker is both clusters: the users of a deployment are called differently on each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType
from typing_extensions import override

from cdc_assets.resources.connect import ConnectClient
from cdc_assets.stack.components.connect import ConnectWorker
from cdc_assets.stack.components.kafka import KafkaBroker
from cdc_assets.stack.home import Home
from cdc_assets.stack.ports import assign
from cdc_assets.stack.site import Site
from cdc_assets_tests.live_source import Part

ADMIN = "admin"
_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactionalId": ResourceType.TRANSACTIONAL_ID}
_PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefix": ResourcePatternType.PREFIXED}
_OPERATIONS = {name.replace("_", "").lower(): operation for name, operation in AclOperation.__members__.items()}


def password(user: str) -> str:
    return f"{user}-password"


def client(user: str) -> dict[str, Any]:
    """librdkafka's settings of a user."""
    login = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password(user)}
    return {"security.protocol": "SASL_PLAINTEXT", **login, "log_level": 0}


def java(user: str, prefix: str = "") -> dict[str, str]:
    """The same for Java's clients."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="{password(user)}";'
    found = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    return {prefix + key: value for key, value in found.items()}


class SecuredBroker(KafkaBroker):
    """Its users by name."""

    users: tuple[str, ...] = ()

    @override
    def _properties(self) -> dict[str, str]:
        plain = super()._properties()
        known = " ".join(f'user_{user}="{password(user)}"' for user in (ADMIN, *self.users))
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ADMIN}" '
        return {
            **plain,
            "listeners": plain["listeners"].replace("PLAINTEXT://", "SASL_PLAINTEXT://"),
            "advertised.listeners": plain["advertised.listeners"].replace("PLAINTEXT://", "SASL_PLAINTEXT://"),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login}password="{password(ADMIN)}" {known};',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller's listener is the broker's own.
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
        }

    @override
    def probe(self) -> None:
        self.__dict__["_admin"] = self.__dict__.get("_admin") or self.admin()
        super().probe()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "socket.timeout.ms": 4000, **client(ADMIN)})


class SecuredWorker(ConnectWorker):
    """A worker that is one user in all that it does."""

    user = ""

    @override
    def _properties(self) -> dict[str, str]:
        own = {
            key: value for prefix in ("", "producer.", "consumer.", "admin.") for key, value in java(self.user, prefix).items()
        }
        return {**super()._properties(), **own}


@dataclass
class Secured:
    """The broker runs; workers are started when they are asked for."""

    broker: SecuredBroker
    site: Site
    admin: AdminClient
    stack: ExitStack

    def grant(self, user: str, acls: Iterable[dict[str, Any]]) -> None:
        """What a KafkaUser says, as Strimzi's user operator would grant it."""
        bindings = [
            AclBinding(
                _KINDS[acl["resource"]["type"]],
                acl["resource"]["name"],
                _PATTERNS[acl["resource"]["patternType"]],
                f"User:{user}",
                "*",
                _OPERATIONS[operation.lower()],
                AclPermissionType.ALLOW,
            )
            for acl in acls
            for operation in acl["operations"]
        ]
        for done in self.admin.create_acls(bindings).values():
            done.result(30)

    def worker(self, cluster: str, user: str) -> ConnectClient:
        worker = SecuredWorker(self.site, cluster)
        worker.user = user
        part = Part(worker)
        self.stack.callback(part.kill)
        part.start()
        return ConnectClient(worker.url)


@contextmanager
def secured(folder: Path, users: tuple[str, ...], secrets: Path) -> Iterator[Secured]:
    names = ("core-kafka", "core-kafka-controller", "core-connect", "lake-connect")
    home = Home(folder / "home").create()
    (home.secrets / "live").write_text((secrets / "live").read_text())
    ports = dict(assign(names, {}))
    site = Site(home, {**ports, "lake-kafka": ports["core-kafka"]}, plugins=("debezium-postgres", "debezium-mariadb"))
    broker = SecuredBroker(site, "core", 1)
    broker.users = users
    with ExitStack() as stack:
        part = Part(broker)
        stack.callback(part.kill)
        part.start()
        yield Secured(broker, site, broker.admin(), stack)
