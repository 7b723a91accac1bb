"""What a source has on Connect, in Kafka and in its registries now, without a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_assets import names, settings
from cdc_assets.backup.platform.document import PlatformState
from cdc_assets.backup.platform.subjects import find_subjects
from cdc_assets.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_source, registry_files
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.connect.masking import mask_config, mask_logins
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.platform import Platform

_SECONDS = 10.0


def look_at_platform(platform: Platform, source: BaseSource, **known: Mapping[str, Any]) -> PlatformState:
    """Offsets are asked for first: what the topics hold by then holds all that was read before.

    `known`: the other parts of PlatformState, which others remember.

    Raises:
        CdcAssetsError: Connect, a cluster or a schema registry cannot be asked.
    """
    declared = declared_connectors([source])
    # The data's backup is made by then, and its run is not to wait for a worker that is away.
    at = {cluster: platform.connect(cluster).within(_SECONDS) for cluster in {each.cluster for each in declared}}
    offsets = {each.name: at[each.cluster].offsets(each.name) for each in declared}
    connectors = {each.name: _config(at[each.cluster], each) for each in declared}
    topics = {"lake": _topics(platform.raw_lake_kafka(), [names.lake_topic(source, table) for table in source.tables])}
    if names.is_mirrored(source):
        topics["core"] = _topics(platform.core_kafka(source.cluster), [names.topic(source, table) for table in source.tables])
    return PlatformState(_registry_text(source), connectors, offsets, topics, find_subjects(source), **known)


def _config(connect: ConnectClient, declared: DeclaredConnector) -> dict[str, Any]:
    """As Connect holds it, else as it is declared."""
    config = connect.config(declared.name) or declared.config
    hidden = mask_config(config, connect.password_keys(config.get("connector.class", "")))
    return {"cluster": declared.cluster, "role": declared.role, "config": hidden}


def _topics(cluster: KafkaCluster, topics: list[str]) -> dict[str, Any]:
    states = cluster.states(topics)
    own = cluster.own_settings(list(states))
    return {
        name: {"id": state.topic_id, "partitions": len(state.ranges), "settings": own[name]} for name, state in states.items()
    }


def _registry_text(source: BaseSource) -> str:
    """Of the file that declares it; empty where the registry has none by now."""
    for file in registry_files(settings.sources_folder()):
        try:
            if load_source(file).name == source.name:
                return mask_logins(file.read_text(encoding="utf-8"))
        except RegistryError:
            continue
    return ""
