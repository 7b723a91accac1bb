"""A Kafka broker that speaks TLS only and allows nothing that no ACL grants (StandardAuthorizer), and Connect workers on it.

Two listeners: one asks for a certificate (`authentication: tls`), one for a password (SCRAM). A user is called the same on both:
Strimzi has `CN=<user>`, which a mapping rule takes away here. One broker is both clusters: the users of a deployment are called
differently on each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typing_extensions import override

from cdc_assets.clients.connect import ConnectClient
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.kafka_broker import KafkaBroker
from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import assign
from cdc_assets_tests.deploy.certificates import Authority
from cdc_assets_tests.support.live.live_source import Part
from cdc_assets_tests.support.servers.secrets_worker import SecretsWorker

ADMIN = "admin"
_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactionalId": ResourceType.TRANSACTIONAL_ID}
_PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefix": ResourcePatternType.PREFIXED}
_OPERATIONS = {name.replace("_", "").lower(): operation for name, operation in AclOperation.__members__.items()}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def password(user: str) -> str:
    return f'{user}-pass"word\\'


class Logins:
    """The users' files, and what a client of the tests' own is told of them."""

    def __init__(self, folder: Path, users: Iterable[str]) -> None:
        self.authority = Authority(folder)
        for user in users:
            self.authority.issue(user)

    def client(self, user: str) -> dict[str, Any]:
        """librdkafka's settings."""
        place = self.authority.folder / user
        own = {"ssl.certificate.location": str(place / "user.crt"), "ssl.key.location": str(place / "user.key")}
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.certificate), **own, "log_level": 0}

    def tls(self, user: str) -> str:
        """A client.properties over Strimzi's files."""
        own = f"${{dir:{self.authority.folder / user}:user"
        return self._written(
            f"{user}.tls",
            "security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={self.authority.certificate}",
            "ssl.keystore.type=PEM", f"ssl.keystore.certificate.chain={own}.crt}}", f"ssl.keystore.key={own}.key}}",
        )  # fmt: skip

    def store(self, user: str) -> str:
        """The same with certificate and key in one file."""
        return self._written(
            f"{user}.store",
            "security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={self.authority.certificate}",
            "ssl.keystore.type=PEM", f"ssl.keystore.location={self.authority.folder / user / 'user.pem'}",
        )  # fmt: skip

    def bare(self) -> str:
        """Without a certificate of one's own."""
        trusted = f"ssl.truststore.location={self.authority.certificate}"
        return self._written("bare", "security.protocol=SSL", "ssl.truststore.type=PEM", trusted)

    def scram(self, user: str, secret: str) -> str:
        """A client.properties with a password; in Java's text `"` and backslashes are escaped twice."""
        quoted = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
        return self._written(
            f"{user}.scram",
            "security.protocol=SASL_SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={self.authority.certificate}",
            "sasl.mechanism=SCRAM-SHA-512", f'sasl.jaas.config={_SCRAM} required \\\n  username="{user}" password="{quoted}";',
        )  # fmt: skip

    def _written(self, name: str, *lines: str) -> str:
        file = self.authority.folder / f"{name}.properties"
        file.touch(0o600)
        file.write_text("\n".join(lines) + "\n")
        return str(file)


class SecuredBroker(KafkaBroker):
    """Its own certificate is the administrator's."""

    logins: Logins

    @property
    def by_password(self) -> str:
        """The address that asks for a password."""
        return self.site.address("core-kafka-password")

    @override
    def _properties(self) -> dict[str, str]:
        plain = super()._properties()
        own = {"ssl.keystore.location": str(self.logins.authority.folder / ADMIN / "user.pem")}
        both = f"SSL://{self.address},SASL_SSL://{self.by_password}"
        return {
            **plain,
            "listeners": plain["listeners"].replace(f"PLAINTEXT://{self.address}", both),
            "advertised.listeners": both,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "SSL",
            **own,
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.logins.authority.certificate),
            "ssl.client.auth": "required",
            "listener.name.sasl_ssl.ssl.client.auth": "none",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller's listener is the broker's own.
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
        }

    @override
    def probe(self) -> None:
        self.__dict__["_admin"] = self.__dict__.get("_admin") or self.admin()
        super().probe()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "socket.timeout.ms": 4000, **self.logins.client(ADMIN)})


class SecuredWorker(SecretsWorker):
    """A worker that logs in by a client.properties, and has Strimzi's Secrets as folders, for `${secrets:…}`."""

    secrets: Path

    @override
    def prepare(self) -> None:
        super().prepare()
        self.link("kafka", self.secrets)


@dataclass
class Secured:
    """The broker runs; workers are started when they are asked for."""

    broker: SecuredBroker
    logins: Logins
    site: Site
    admin: AdminClient
    stack: ExitStack

    def grant(self, user: str, acls: Iterable[dict[str, Any]]) -> None:
        """What a KafkaUser says, as Strimzi's user operator would grant it; and a password."""
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
        secret = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password(user).encode()
        )
        for done in self.admin.alter_user_scram_credentials([secret]).values():
            done.result(30)

    def worker(self, cluster: str, **users: str) -> ConnectClient:
        """By cluster the users whose files it has; it is itself the one of its own."""
        external = {f"CDC_{name.upper()}_LOGIN": self.logins.tls(user) for name, user in users.items()}
        worker = SecuredWorker(replace(self.site, external=external), cluster)
        worker.secrets = self.logins.authority.folder
        part = Part(worker)
        self.stack.callback(part.kill)
        part.start()
        return ConnectClient(worker.url)


@contextmanager
def secured(folder: Path, users: tuple[str, ...], secrets: dict[str, str]) -> Iterator[Secured]:
    names = ("core-kafka", "core-kafka-controller", "core-kafka-password", "core-connect", "lake-connect")
    home = Home(folder / "home").create()
    logins = Logins(folder / "kafka", (ADMIN, *users))
    held = logins.authority.folder / "cdc-secrets"
    held.mkdir()
    for name, value in secrets.items():
        (held / name).write_text(value)
        (home.secrets / name).write_text(value)
    ports = dict(assign(names, {}))
    site = Site(home, {**ports, "lake-kafka": ports["core-kafka"]}, plugins=("debezium-postgres", "debezium-mariadb"))
    broker = SecuredBroker(site, "core", 1)
    broker.logins = logins
    with ExitStack() as stack:
        part = Part(broker)
        stack.callback(part.kill)
        part.start()
        yield Secured(broker, logins, site, broker.admin(), stack)
