"""All files of a target, as text by path: `<target>/<folder>/<name>`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cdc_assets import settings
from cdc_assets.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.connectors.unchanged_value import with_public_text
from cdc_assets.errors import MissingAddressError, RenderError
from cdc_assets.registry.models import BaseSource
from cdc_assets.render.application import applications
from cdc_assets.render.connector import kafka_connector
from cdc_assets.render.deployment import STAND_IN, Deployment
from cdc_assets.render.manifest import to_yaml
from cdc_assets.render.mirrormaker2 import kafka_mirror_maker_2
from cdc_assets.render.topic import kafka_topics
from cdc_assets.render.user import kafka_users

Target = Literal["strimzi", "connect", "argocd"]
TARGETS: tuple[Target, ...] = ("strimzi", "connect", "argocd")


def render(target: Target, sources: Sequence[BaseSource], deployment: Deployment) -> dict[str, str]:
    """The target's files.

    Raises:
        RenderError: when the registry refers to a variable that the deployment does not give.
    """
    if target == "connect":
        return _connect(connectors_to_render(sources, deployment, secrets_folder=deployment.secrets_folder))
    strimzi = _strimzi(sources, deployment)
    if target == "strimzi":
        return strimzi
    folders = {path.removeprefix("strimzi/").rsplit("/", 1)[0] for path in strimzi}
    return {
        f"argocd/{folder.replace('/', '-')}.yaml": to_yaml([each]) for folder, each in applications(folders, deployment).items()
    }


def connectors_to_render(
    sources: Sequence[BaseSource], deployment: Deployment, *, secrets_folder: str = STAND_IN
) -> list[DeclaredConnector]:
    """The connectors as `cdc apply` has them, with the deployment's addresses and nothing of this machine's."""
    try:
        with settings.only(deployment.variables(secrets_folder=secrets_folder)):
            return [replace(each, config=with_public_text(each.config)) for each in declared_connectors(sources)]
    except MissingAddressError as error:
        raise RenderError(
            f"the registry refers to {error.name}, which the deployment does not give: add it under `environment`"
        ) from error


def _strimzi(sources: Sequence[BaseSource], deployment: Deployment) -> dict[str, str]:
    connectors = connectors_to_render(sources, deployment)
    files: dict[str, str] = {}
    for source in sources:
        if own := source.captured:
            files[f"strimzi/topics/{own.name}.yaml"] = to_yaml(kafka_topics(own, deployment))
    mirrors = [each for each in connectors if each.role == "mirror"]
    _refuse_other_mirror([each.source for each in mirrors], deployment)
    for each in connectors:
        folder = "connectors" if each.role == "capture" else "mirror"
        if each.role in ("checkpoints", "heartbeats") and deployment.mirror == "mirrormaker2":
            raise RenderError(f"{each.name}: one KafkaMirrorMaker2 for all sources has none; set `mirror: connector`")
        if each.role != "mirror" or deployment.mirror == "connector":
            files[f"strimzi/{folder}/{each.name}.yaml"] = to_yaml([kafka_connector(each, deployment)])
    if mirrors and deployment.mirror == "mirrormaker2":
        files["strimzi/mirror/cdc-mirror.yaml"] = to_yaml([kafka_mirror_maker_2(mirrors, deployment)])
    if deployment.authentication == "tls":
        for user in kafka_users(sources, deployment):
            files[f"strimzi/users/{user['metadata']['name']}.yaml"] = to_yaml([user])
    return dict(sorted(files.items()))


def _refuse_other_mirror(sources: Sequence[BaseSource], deployment: Deployment) -> None:
    """Assets and checks look for the mirror that the registry names.

    Raises:
        RenderError: the deployment has another.
    """
    other = [each.name for each in sources if each.managed_by == "gitops" and each.mirror.resource != deployment.mirror]
    if other:
        raise RenderError(
            f"source {', '.join(other)}: mirror.resource is not the deployment's `mirror: {deployment.mirror}`; declare "
            f"mirror: {{resource: {deployment.mirror}}} there, or change the deployment"
        )


def _connect(connectors: Sequence[DeclaredConnector]) -> dict[str, str]:
    return {f"connect/{each.cluster}/{each.name}.json": _json(each.name, each.config) for each in connectors}


def _json(name: str, config: Mapping[str, str]) -> str:
    """As `POST /connectors` takes it."""
    return json.dumps({"name": name, "config": dict(sorted(config.items()))}, indent=2, ensure_ascii=False) + "\n"
