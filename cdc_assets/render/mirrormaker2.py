"""KafkaMirrorMaker2 in the shape of Strimzi's v1 API (replicas, target, mirrors): one mirror for all sources.

Strimzi names its connectors after the clusters' aliases, so two mirrors from one cluster would be one and the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdc_assets.connectors.declared_connectors import DeclaredConnector
from cdc_assets.errors import RenderError
from cdc_assets.render.deployment import Deployment, StrimziCluster
from cdc_assets.render.manifest import MIRROR as NAME
from cdc_assets.render.manifest import Manifest, manifest, secret_references

_FIELDS = ("name", "connector.class", "tasks.max", "topics", "topics.exclude", "source.cluster.alias", "target.cluster.alias")


def kafka_mirror_maker_2(mirrors: Sequence[DeclaredConnector], deployment: Deployment) -> Manifest:
    """All sources' mirrors in one.

    Raises:
        RenderError: when their configs differ in more than their topics; `mirror: connector` can keep them apart.
    """
    configs = [secret_references(mirror.config, deployment) for mirror in mirrors]
    common = _common(mirrors, configs)
    topics = sorted({topic for config in configs for topic in config["topics"].split(",")})
    first = configs[0]
    spec = {
        "replicas": deployment.mirror_replicas,
        "target": _target(first["target.cluster.alias"], deployment),
        "mirrors": [
            {
                "source": _cluster(first["source.cluster.alias"], deployment.core, deployment, "core"),
                "sourceConnector": {
                    "tasksMax": int(first["tasks.max"]),
                    "autoRestart": {"enabled": True, "maxRestarts": 7},
                    "state": "running",
                    "config": common,
                },
                # MirrorMaker matches a whole name; the anchors hold for whoever tries the pattern elsewhere.
                "topicsPattern": f"^(?:{'|'.join(topics)})$",
                "topicsExcludePattern": first["topics.exclude"],
            }
        ],
    }
    return manifest("KafkaMirrorMaker2", NAME, deployment, spec)


def _target(alias: str, deployment: Deployment) -> dict[str, Any]:
    """The lake's cluster, and what the worker keeps there."""
    return {
        **_cluster(alias, deployment.lake, deployment, "lake"),
        "groupId": NAME,
        "configStorageTopic": f"__{NAME}-configs",
        "offsetStorageTopic": f"__{NAME}-offsets",
        "statusStorageTopic": f"__{NAME}-status",
        "config": {
            "config.storage.replication.factor": -1,
            "offset.storage.replication.factor": -1,
            "status.storage.replication.factor": -1,
            "exactly.once.source.support": "enabled",
            "plugin.discovery": "service_load",
        },
    }


def _common(mirrors: Sequence[DeclaredConnector], configs: Sequence[dict[str, str]]) -> dict[str, str]:
    def rest(config: dict[str, str]) -> dict[str, str]:
        return {k: v for k, v in config.items() if k not in _FIELDS and not k.endswith(".cluster.bootstrap.servers")}

    common = rest(configs[0])
    for mirror, config in zip(mirrors, configs, strict=True):
        if rest(config) != common:
            differing = sorted(key for key in {*common, *rest(config)} if common.get(key) != rest(config).get(key))
            raise RenderError(
                f"sources {mirrors[0].source.name} and {mirror.source.name} are mirrored differently ({', '.join(differing)}), "
                "and one KafkaMirrorMaker2 has one setting: make them equal, or set `mirror: connector` in the deployment"
            )
    return common


def _cluster(alias: str, cluster: StrimziCluster, deployment: Deployment, role: str) -> dict[str, Any]:
    found: dict[str, Any] = {"alias": alias, "bootstrapServers": cluster.bootstrap}
    if deployment.authentication == "tls":
        certificate = {"secretName": f"{NAME}-{role}", "certificate": "user.crt", "key": "user.key"}
        ca = {"secretName": f"{cluster.kafka}-cluster-ca-cert", "pattern": "*.crt"}
        found |= {"tls": {"trustedCertificates": [ca]}, "authentication": {"type": "tls", "certificateAndKey": certificate}}
    return found
