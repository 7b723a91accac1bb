"""What every rendered manifest has, and what manifests need beyond the registry.

One YAML file beside the registry says namespaces, cluster names and bootstrap addresses. A manifest has a name that
Kubernetes takes, our label, and secrets as references only. An unknown key or a name that cannot be used is an error.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cdc_assets.registry.errors import RefusalError, plain_words
from cdc_assets.registry.field_types import Declared
from cdc_assets.registry.names import kubernetes_name
from cdc_assets.registry.references import foreign_placeholders

_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
# Any absolute folder would do: `secret_reference` replaces it for Strimzi.
STAND_IN = "/secrets-of-the-deployment"


class StrimziCluster(Declared):
    """A Kafka cluster and its Connect cluster, by the names of their Strimzi resources."""

    kafka: str = Field(pattern=_NAME)
    connect: str = Field(pattern=_NAME)
    bootstrap: str = Field(pattern=r"^[A-Za-z0-9.:,_-]+$")


class ArgoCd(Declared):
    """Where the rendered folder is committed, and which Argo CD applies it."""

    repository: str = Field(min_length=1)
    revision: str = "main"
    path: str = Field(default="deploy", pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")
    namespace: str = Field(default="argocd", pattern=_NAME)
    project: str = Field(default="default", pattern=_NAME)
    server: str = "https://kubernetes.default.svc"
    prune: bool = True
    self_heal: bool = True


class Deployment(Declared):
    """What the manifests of a platform need beyond the registry.

    `secret` is the Kubernetes Secret whose keys are the registry's secrets; `secrets_folder` is where a Connect cluster
    without Strimzi has them as files. `environment` holds what the registry refers to by `{env: NAME}`.
    `mirror: connector` runs MirrorMaker 2's source connectors on the lake's Connect cluster, one per source, under the names
    that our assets and checks know; `mirrormaker2` is one KafkaMirrorMaker2 resource for all sources.
    `authentication: tls` makes each component a KafkaUser with exactly what it needs.
    """

    namespace: str = Field(default="kafka", pattern=_NAME)
    core: StrimziCluster
    lake: StrimziCluster
    secret: str = Field(default="cdc-secrets", pattern=_NAME)
    secrets_folder: str = Field(default="/opt/cdc/secrets", pattern=r"^/[A-Za-z0-9_./-]+$")
    environment: dict[str, str] = Field(default_factory=dict)
    mirror: Literal["mirrormaker2", "connector"] = "mirrormaker2"
    mirror_replicas: int = Field(default=1, ge=1, le=100)
    authentication: Literal["none", "tls"] = "tls"
    argocd: ArgoCd | None = None

    def variables(self, *, secrets_folder: str) -> Mapping[str, str]:
        """All that the connectors' configs look up."""
        return {
            **self.environment,
            "CDC_CORE_BOOTSTRAP": self.core.bootstrap,
            "CDC_LAKE_BOOTSTRAP": self.lake.bootstrap,
            "CDC_CONNECT_SECRETS": secrets_folder,
        }


def load_deployment(file: Path) -> Deployment:
    """The deployment that the file declares. Raises RefusalError: naming every key that is wrong."""
    try:
        document: Any = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
        return Deployment.model_validate(document)
    except OSError as error:
        raise RefusalError(f"{file}: {error.strerror}; docs/how-to/gitops.md shows what a deployment file holds") from error
    except YAMLError as error:
        raise RefusalError(f"{file} is not valid YAML: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        errors_text = "; ".join(f"{'.'.join(map(str, e['loc']))}: {plain_words(e)}" for e in error.errors(include_url=False))
        raise RefusalError(f"{file}: {errors_text}") from error


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
    Raises RefusalError: a placeholder stands in the config that is not ours, as in a table's name."""
    if foreign := foreign_placeholders(config):
        foreign_text = "; ".join(f"{key} has {text}" for key, text in foreign.items())
        raise RefusalError(
            f"connector {config.get('name', '?')}: {foreign_text}: the worker would put a secret or a file in its place"
        )
    to = rf"${{secrets:{deployment.namespace}/{deployment.secret}:\1}}"
    return {key: _STAND_IN.sub(to, value) for key, value in sorted(config.items())}


def to_yaml(manifests: list[Manifest]) -> str:
    """The manifests as documents of YAML below our header; equal manifests give equal texts."""
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 1 << 20
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.explicit_start = len(manifests) > 1
    text = io.StringIO()
    yaml.dump_all(manifests, text)
    return HEADER + text.getvalue()
