"""What every manifest has: a name that Kubernetes takes, our label, and secrets as references."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from cdc_assets.errors import RenderError
from cdc_assets.names import kubernetes_name
from cdc_assets.references import foreign_placeholders
from cdc_assets.render.deployment import STAND_IN, Deployment

STRIMZI = "kafka.strimzi.io/v1"
CAPTURE = "cdc-capture-core"
"""The KafkaUser of what captures, and its Secret."""
MIRROR = "cdc-mirror"
"""The KafkaUsers of what mirrors, `-core` and `-lake`, with their Secrets; and the KafkaMirrorMaker2."""
HEADER = "# Written by `cdc render` from the registry: change it there, not here.\n"
_STAND_IN = re.compile(rf"\$\{{dir:{STAND_IN}:([^}}]+)\}}")

Manifest = dict[str, Any]


def manifest(kind: str, name: str, deployment: Deployment, spec: Mapping[str, Any], **metadata: Any) -> Manifest:
    """A Strimzi resource; `cluster` among the metadata is the one that it belongs to."""
    labels = {"app.kubernetes.io/managed-by": "cdc-assets"}
    if cluster := metadata.pop("cluster", None):
        labels["strimzi.io/cluster"] = cluster
    about = {"name": kubernetes_name(name), "namespace": deployment.namespace, "labels": labels, **metadata}
    return {"apiVersion": STRIMZI, "kind": kind, "metadata": about, "spec": dict(spec)}


def secret_references(config: Mapping[str, str], deployment: Deployment) -> dict[str, str]:
    """Placeholders as Strimzi's KubernetesSecretConfigProvider takes them: `${secrets:<namespace>/<secret>:<key>}`.

    Raises:
        RenderError: a placeholder stands in the config that is not ours, as in a table's name.
    """
    if foreign := foreign_placeholders(config):
        told = "; ".join(f"{key} has {text}" for key, text in foreign.items())
        raise RenderError(f"connector {config.get('name', '?')}: {told}: the worker would put a secret or a file in its place")
    to = rf"${{secrets:{deployment.namespace}/{deployment.secret}:\1}}"
    return {key: _STAND_IN.sub(to, value) for key, value in sorted(config.items())}


def to_yaml(manifests: list[Manifest]) -> str:
    """The same text for the same manifests, always."""
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 1 << 20
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.explicit_start = len(manifests) > 1
    text = io.StringIO()
    yaml.dump_all(manifests, text)
    return HEADER + text.getvalue()
