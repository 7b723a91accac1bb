"""Which connectors the registry declares, and on which Connect cluster each of them runs.

| cluster | connector | for |
|---|---|---|
| core | `<source>-capture` (Debezium) | sources with a database |
| lake | `<source>-mirror` (MirrorMaker 2) | sources whose topics are on the core cluster |
| lake | `<source>-checkpoints`, `<source>-heartbeats` (MirrorMaker 2) | such sources that declare them under `mirror` |

Any other connector of these clusters is foreign, and is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cdc_assets import names
from cdc_assets.connectors.capture import capture_config
from cdc_assets.connectors.mirrormaker2 import checkpoint_config, heartbeat_config, mirror_config
from cdc_assets.registry.models import BaseSource

Role = Literal["capture", "mirror", "checkpoints", "heartbeats"]


@dataclass(frozen=True)
class DeclaredConnector:
    """One connector as the registry wants it."""

    source: BaseSource
    role: Role
    cluster: str
    name: str
    config: Mapping[str, str]


def declared_connectors(sources: Iterable[BaseSource]) -> list[DeclaredConnector]:
    """In the order in which data flows through them."""
    found = []
    for source in sources:
        if own := source.captured:
            found.append(DeclaredConnector(own, "capture", own.cluster, names.connector_name(own), capture_config(own)))
        if names.is_mirrored(source):
            found.append(DeclaredConnector(source, "mirror", "lake", names.mirror_connector_name(source), mirror_config(source)))
            found += _beside_the_mirror(source)
    return found


def _beside_the_mirror(source: BaseSource) -> Iterator[DeclaredConnector]:
    checkpoints, heartbeats = source.mirror.checkpoints, source.mirror.heartbeats
    if checkpoints is not None:
        config = checkpoint_config(source, checkpoints)
        yield DeclaredConnector(source, "checkpoints", "lake", config["name"], config)
    if heartbeats is not None:
        config = heartbeat_config(source, heartbeats)
        yield DeclaredConnector(source, "heartbeats", "lake", config["name"], config)
