"""KafkaConnector: a declared connector as Strimzi's operator keeps it running."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc_assets.connectors.declared_connectors import DeclaredConnector
from cdc_assets.names import kubernetes_name
from cdc_assets.render.deployment import Deployment
from cdc_assets.render.manifest import CAPTURE, MIRROR, Manifest, manifest, secret_references

# Strimzi refuses these in `config`: they have fields of their own.
_FIELDS = ("name", "connector.class", "tasks.max")
HISTORY = "schema.history.internal.kafka.topic"


def kafka_connector(connector: DeclaredConnector, deployment: Deployment, *, state: str = "running") -> Manifest:
    """Restarted by the operator when it fails, seven times at most, then left FAILED for a person to see."""
    config = secret_references(connector.config, deployment)
    if deployment.authentication == "tls":
        config |= _logins(config, deployment)
    spec = {
        "class": config["connector.class"],
        "tasksMax": int(config["tasks.max"]),
        "autoRestart": {"enabled": True, "maxRestarts": 7},
        "state": state,
        "config": {key: value for key, value in config.items() if key not in _FIELDS},
    }
    cluster = deployment.core if connector.cluster == "core" else deployment.lake
    return manifest("KafkaConnector", connector.name, deployment, spec, cluster=cluster.connect)


def name_warnings(connectors: Iterable[DeclaredConnector]) -> list[str]:
    """Of those that Strimzi would call otherwise than we do, what that means: a KafkaConnector's name is its connector's."""
    return [
        f"{each.name}: Kubernetes takes no such name, Strimzi calls this connector {called}; checks, assets and "
        f"cdc onboard --watch look for {each.name}, and do not know it, unless the source declares managed_by: gitops"
        for each in connectors
        if (called := kubernetes_name(each.name)) != each.name
    ]


def _logins(config: Mapping[str, str], deployment: Deployment) -> dict[str, str]:
    """Of clients that a connector makes by itself, to whom the worker's login is not passed on: those of Debezium's schema
    history, and MirrorMaker's of both clusters. They take certificates as text (KIP-651), from the KafkaUser's Secret and the
    cluster's.

    https://debezium.io/documentation/reference/stable/connectors/mysql.html (pass-through properties of the history's clients)
    """
    core, lake = (CAPTURE, deployment.core), (f"{MIRROR}-lake", deployment.lake)
    made = {
        "schema.history.internal.consumer.": (HISTORY, *core),
        "schema.history.internal.producer.": (HISTORY, *core),
        "source.cluster.": ("source.cluster.bootstrap.servers", f"{MIRROR}-core", deployment.core),
        "target.cluster.": ("target.cluster.bootstrap.servers", *lake),
    }
    found: dict[str, str] = {}
    for prefix, (asked, user, cluster) in made.items():
        secrets = f"${{secrets:{deployment.namespace}/"
        login = {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": f"{secrets}{user}:user.crt}}",
            "ssl.keystore.key": f"{secrets}{user}:user.key}}",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": f"{secrets}{cluster.kafka}-cluster-ca-cert:ca.crt}}",
        }
        found |= {f"{prefix}{key}": value for key, value in login.items()} if asked in config else {}
    return found
