"""Measures the tables of one source, all at one cut: the numbers behind the checks, `status` and `up`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.connectors.notifications import read_notifications
from cdc_assets.errors import CdcAssetsError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed, bronze_rows
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.declared_rows import Declarations, declarations
from cdc_assets.volumetry.tally import TopicTally
from cdc_assets.volumetry.transport import BronzeCut, TopicAtCluster, TransportCount, count_transport


@dataclass(frozen=True)
class EarlierCount:
    """What the last comparison of a table had counted, and whether it was `judged` by then."""

    topic: TopicTally
    mirror: TopicTally
    judged: bool = True


Previous = Mapping[str, EarlierCount]


def measure_transport(
    platform: Platform, source: BaseSource, tables: Sequence[Table], *, previous: Previous
) -> dict[str, TransportCount | CdcAssetsError]:
    """Topic = mirror = bronze, by short table name; an error where a table cannot be counted."""
    path = names.bronze_path(platform.lake, source)
    committed = bronze_committed(path)
    epochs = {topic: state.topic_epoch for topic, state in committed.topics.items() if state.topic_epoch} if committed else {}
    rows = bronze_rows(path, committed.version, epochs) if committed else {}
    lake = platform.lake_kafka()
    core = platform.core_kafka(source.cluster) if names.is_mirrored(source) else lake
    unjudged = {short for short in map(names.table_name, tables) if short not in previous or not previous[short].judged}
    # Before the topics are looked at: what is declared is in them.
    declared = declarations(read_notifications(core, [source]).get(source.name)) if unjudged else Declarations()
    core_states = core.states([names.topic(source, table) for table in tables])
    lake_states = lake.states([names.lake_topic(source, table) for table in tables])
    results: dict[str, TransportCount | CdcAssetsError] = {}
    for table in tables:
        topic, mirrored = names.topic(source, table), names.lake_topic(source, table)
        short = names.table_name(table)
        try:
            for name, states, cluster in ((topic, core_states, core), (mirrored, lake_states, lake)):
                if name not in states:
                    raise CdcAssetsError(f"topic {name} does not exist at {cluster.bootstrap}")
            at = committed.topics.get(mirrored) if committed else None
            cut = dict(at.positions) if at else {}
            known = previous.get(short)
            count = count_transport(
                core=TopicAtCluster(core, core_states[topic]),
                lake=TopicAtCluster(lake, lake_states[mirrored]),
                bronze=BronzeCut(cut, {p: rows.get((mirrored, p), 0) for p in cut}),
                previous=(known.topic, known.mirror) if known else None,
            )
            judge = short in unjudged
            results[short] = declared.judge(count, core, core_states[topic], at, of=(source, table)) if judge else count
        except CdcAssetsError as error:
            results[short] = error
    return results
