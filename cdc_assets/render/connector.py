"""KafkaConnector: a declared connector as Strimzi's operator keeps it running."""

from __future__ import annotations

from cdc_assets.connectors.declared import DeclaredConnector
from cdc_assets.render.deployment import Deployment
from cdc_assets.render.manifest import Manifest, manifest, secret_references

# Strimzi refuses these in `config`: they have fields of their own.
_FIELDS = ("name", "connector.class", "tasks.max")


def kafka_connector(connector: DeclaredConnector, deployment: Deployment, *, state: str = "running") -> Manifest:
    """Restarted by the operator when it fails, seven times at most, then left FAILED for a person to see."""
    config = secret_references(connector.config, deployment)
    spec = {
        "class": config["connector.class"],
        "tasksMax": int(config["tasks.max"]),
        "autoRestart": {"enabled": True, "maxRestarts": 7},
        "state": state,
        "config": {key: value for key, value in config.items() if key not in _FIELDS},
    }
    cluster = deployment.core if connector.cluster == "core" else deployment.lake
    return manifest("KafkaConnector", connector.name, deployment, spec, cluster=cluster.connect)
