"""Who logs in to the embedded brokers, and what he may do there.

    broker    brokers and controllers among themselves, and the supervisor: a super user
    connect   the workers' own clients: a super user; its password is in their `connect.properties` alone
    cdc       everybody else: our commands, Dagster, Spark, the clients that a connector makes by itself, and a person

Whoever writes to a worker's config topic starts connectors, which are sent the secrets that they refer to. So `cdc` may do all
but write, read or change the three topics of a worker of ours, join its group, or end its transactions. What no ACL
allows is refused: https://kafka.apache.org/documentation/#security_authz
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_assets.stack.home import Home, write_private
from spark.events.kafka_login import MODULES

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding, ResourceType

BROKER_USER, WORKER_USER, CLIENT_USER = "broker", "connect", "cdc"
LISTENER = "SASL_PLAINTEXT"
_MECHANISM = "PLAIN"
_CLUSTER_ALLOWED = ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE")
# What is described may be seen: preflight looks at how these topics are kept.
_TOPIC_DENIED = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS")


def worker_topics(group: str) -> dict[str, str]:
    """The topics in which a worker keeps what it is told and how far its connectors are, by their kind."""
    return {"config": f"_{group}-configs", "offset": f"_{group}-offsets", "status": f"_{group}-status"}


def client_login(home: Home) -> Path:
    """The `client.properties` of everybody but brokers and workers, written where it is not there as it should be."""
    file = home.private_file("kafka_login")
    text = "".join(f"{key}={value}\n" for key, value in login(home, CLIENT_USER).items())
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        write_private(file, text)
    return file


def login(home: Home, user: str, *prefixes: str) -> dict[str, str]:
    """As Java's clients take it, once for each prefix. It has the password: for private files only."""
    values = {
        "security.protocol": LISTENER,
        "sasl.mechanism": _MECHANISM,
        "sasl.jaas.config": f'{MODULES[_MECHANISM]} required username="{user}" password="{_password(home, user)}";',
    }
    return {prefix + key: value for prefix in prefixes or ("",) for key, value in values.items()}


def librdkafka_login(home: Home, user: str) -> dict[str, str]:
    """The same as librdkafka takes it."""
    own = {"sasl.username": user, "sasl.password": _password(home, user)}
    return {"security.protocol": LISTENER, "sasl.mechanism": _MECHANISM, **own}


def broker_properties(home: Home) -> Mapping[str, str]:
    """Of a broker's two listeners. The controllers' is for brokers alone: who may log in there may change what is allowed."""
    own = f'{MODULES[_MECHANISM]} required username="{BROKER_USER}" password="{_password(home, BROKER_USER)}"'
    broker, worker, client = (f'user_{user}="{_password(home, user)}"' for user in (BROKER_USER, WORKER_USER, CLIENT_USER))
    return {
        "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": _MECHANISM,
        "sasl.mechanism.inter.broker.protocol": _MECHANISM,
        "sasl.mechanism.controller.protocol": _MECHANISM,
        "listener.name.controller.plain.sasl.jaas.config": f"{own} {broker};",
        f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{own} {broker} {worker} {client};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER_USER};User:{WORKER_USER}",
    }


def acls(group: str) -> list[AclBinding]:
    """What `cdc` may do on a cluster whose worker of ours has this group. A denial counts more than what is allowed."""
    from confluent_kafka.admin import ResourceType as Kind

    denied: list[tuple[Kind, str, tuple[str, ...]]] = [
        (Kind.TOPIC, topic, _TOPIC_DENIED) for topic in worker_topics(group).values()
    ]
    denied += [(Kind.GROUP, group, ("READ", "DELETE")), (Kind.TRANSACTIONAL_ID, f"connect-cluster-{group}", ("WRITE",))]
    allowed: list[tuple[Kind, str, tuple[str, ...]]] = [
        (kind, "*", ("ALL",)) for kind in (Kind.TOPIC, Kind.GROUP, Kind.TRANSACTIONAL_ID)
    ]
    allowed.append((Kind.BROKER, "kafka-cluster", _CLUSTER_ALLOWED))
    bindings = [_acl(kind, name, operation, "ALLOW") for kind, name, operations in allowed for operation in operations]
    bindings += [_acl(kind, name, operation, "DENY") for kind, name, operations in denied for operation in operations]
    # A task's own: `<group>-<connector>-<task>` (KIP-618).
    return [*bindings, _acl(Kind.TRANSACTIONAL_ID, f"{group}-", "WRITE", "DENY", pattern="PREFIXED")]


def _acl(kind: ResourceType, name: str, operation: str, permission: str, *, pattern: str = "LITERAL") -> AclBinding:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType

    how, who = ResourcePatternType[pattern], f"User:{CLIENT_USER}"
    return AclBinding(kind, name, how, who, "*", AclOperation[operation], AclPermissionType[permission])


def _password(home: Home, user: str) -> str:
    return home.private(f"kafka_{user}_password")
