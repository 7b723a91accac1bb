"""On which cluster a topic is, and which table's records it holds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cdc_assets import names, settings
from cdc_assets.errors import KafkaError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.platform import Platform


@dataclass(frozen=True)
class TopicPlace:
    """A topic of one of the clusters; of a declared table also whose, and of what a connector says of itself the source."""

    topic: str
    cluster: str
    source: BaseSource | None = None
    table: Table | None = None

    def open(self, platform: Platform) -> KafkaCluster:
        """The client of its cluster."""
        return platform.lake_kafka() if self.cluster == names.LAKE else platform.core_kafka(self.cluster)


def places_of_tables(sources: Iterable[BaseSource]) -> Iterator[TopicPlace]:
    """The topics of all tables: those of the core first, where a copy has the same name."""
    copies = []
    for source in sources:
        for table in source.tables:
            if names.is_mirrored(source):
                yield TopicPlace(names.topic(source, table), source.cluster, source, table)
            copies.append(TopicPlace(names.lake_topic(source, table), names.LAKE, source, table))
    yield from copies


def find_topic(platform: Platform, sources: Sequence[BaseSource], topic: str, *, cluster: str | None = None) -> TopicPlace:
    """The topic, wherever it is; `cluster` says where to look.

    Raises:
        KafkaError: no cluster has it; the declared ones whose names are near are in the text.
    """
    known = [*places_of_tables(sources)]
    clusters = [cluster] if cluster else [*settings.core_clusters("BOOTSTRAP"), names.LAKE]
    found = [place for place in known if place.topic == topic and place.cluster in clusters]
    spoken = next((each for each in sources if each.captured and topic in _topics_of_connector(each)), None)
    found += [TopicPlace(topic, name, spoken) for name in clusters if name not in {place.cluster for place in found}]
    for place in found:
        if place.open(platform).existing([topic]):
            return place
    near = difflib.get_close_matches(topic, dict.fromkeys(place.topic for place in known), n=5, cutoff=0.5)
    told = f"; near: {', '.join(near)}" if near else ""
    raise KafkaError(f"topic {topic} is not on {' or '.join(clusters)}{told}; cdc get topics lists those of the tables")


def _topics_of_connector(source: BaseSource) -> tuple[str, ...]:
    """Its notifications and its markers."""
    return names.notification_topic(source), names.marker_topic(source)
