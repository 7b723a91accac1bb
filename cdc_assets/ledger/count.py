"""One run of the ledger of a source: what the job is told, from the registry and the topics as they are now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import KafkaError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_committed
from cdc_assets.resources.kafka import KafkaCluster, TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import last_known
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.tables.fold_specs import silver_spec
from cdc_assets.tables.source_catalogue import catalogue_of
from spark.specs import JobResult, TopicRange

if TYPE_CHECKING:
    from spark.ledger.ledger_commits import Counted
    from spark.ledger.spec import LedgerSpec


def count_events(platform: Platform, source: BaseSource, tables: Sequence[Table], *, again: bool = False) -> JobResult:
    """Bring the ledger up to what silver has folded of these tables."""
    from spark.ledger import job

    with table_lock("ledger", source.name, "all"):
        return platform.spark().run(job.run, ledger_spec(platform, source, tables, again=again))


def ledger_spec(platform: Platform, source: BaseSource, tables: Sequence[Table], *, again: bool = False) -> LedgerSpec:
    """What the job needs: first how far silver has folded, then what the topics hold, which so is as much or more."""
    from spark.ledger.spec import LedgerSpec, LedgerTable

    folded = {table.id: silver_committed(names.silver_path(platform.lake, source, table)) for table in tables}
    lake, mirrored = platform.lake_kafka(), names.is_mirrored(source)
    catalogue = dict(catalogue_of(platform, source, tables))
    for table in tables:
        # Of a table that the source has no more silver has folded the events all the same.
        path = names.silver_path(platform.lake, source, table)
        if table.id not in catalogue and (gone := last_known(path, table.id, keyed=False)):
            catalogue[table.id] = gone
    here = lake.states([names.lake_topic(source, table) for table in tables])
    there = platform.core_kafka(source.cluster).states([names.topic(source, table) for table in tables]) if mirrored else {}
    thinned = (
        topics_with_compaction(lake, here),
        topics_with_compaction(platform.core_kafka(source.cluster), there) if mirrored else frozenset(),
    )
    parts = [
        LedgerTable(
            silver=silver_spec(platform.lake, source, table, catalogue[table.id]),
            topic=_range(source, table, names.topic(source, table), there) if mirrored else None,
            mirror=_range(source, table, names.lake_topic(source, table), here),
            compacted=_of(thinned, names.lake_topic(source, table), names.topic(source, table)),
            upto=cut.version,
        )
        for table in tables
        if table.id in catalogue and (cut := folded[table.id]) is not None
    ]
    return LedgerSpec(
        source=source.name,
        path=names.ledger_path(platform.lake, source),
        bronze_path=names.bronze_path(platform.lake, source),
        tables=tuple(parts),
        core_bootstrap=platform.core_kafka(source.cluster).bootstrap if mirrored else "",
        core_login=platform.core_kafka(source.cluster).login if mirrored else "",
        lake_bootstrap=lake.bootstrap,
        lake_login=lake.login,
        allowed_lateness=int(source.ledger.allowed_lateness.total_seconds()),
        again=again,
    )


def topics_with_compaction(cluster: KafkaCluster, topics: Collection[str]) -> frozenset[str]:
    """Those of these topics that compaction may take records out of."""
    return frozenset(name for name, config in cluster.topic_configs(topics).items() if "compact" in config["cleanup.policy"])


def _of(thinned: tuple[frozenset[str], frozenset[str]], mirrored: str, topic: str) -> str:
    """The one of a table's two topics that is compacted, else nothing."""
    return mirrored if mirrored in thinned[0] else topic if topic in thinned[1] else ""


def behind(lake: str, source: BaseSource, table: Table, place: Counted | None) -> int:
    """Records that silver has folded and the ledger, whose place for the table is `place`, has not counted."""
    folded = silver_committed(names.silver_path(lake, source, table))
    done = sum(state.topic_records for state in place.folded.values()) if place else 0
    return sum(state.topic_records for state in folded.topics.values()) - done if folded else 0


def _range(source: BaseSource, table: Table, topic: str, states: Mapping[str, TopicState]) -> TopicRange:
    if topic not in states:
        raise KafkaError(
            f"topic {topic} does not exist, and silver has folded records of it: the ledger cannot count it. Was it deleted? "
            f"Materialize the topic and mirror assets of {source.name}/{names.table_name(table)}"
        )
    state = states[topic]
    form = source.record_form(table)
    moved = state.moves_of(state.ranges)
    ranges = dict(state.ranges)
    return TopicRange(
        names.table_name(table), state.name, state.topic_id, 0, ranges, **form, event_time=table.time_field, moved=moved
    )
