"""How far silver is behind: what bronze has committed, by the tables' logs alone, and what the lake's topics hold, in
records and by the age of the oldest one that it lacks.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc_assets.chain.offset_ranges import width
from cdc_assets.clients.delta_log import bronze_committed, silver_committed, silver_positions
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.commit_metadata import CommittedTopic


def records_behind(lake: str, source: BaseSource, table: Table, bronze: CommittedTopic) -> int:
    """Records that silver lacks, or the history where it lacks more.

    By records, not offsets: a batch of control records only moves bronze on and gives silver nothing to fold. A history counts
    as well: the silver asset makes it, and may have failed there, or not known of it yet.
    """
    paths = [names.silver_path(lake, source, table)]
    paths += [names.history_path(lake, source, table)] if table.history == "scd2" else []
    topic = names.lake_topic(source, table)
    folded = [committed.topics.get(topic) if (committed := silver_committed(path)) else None for path in paths]
    return max(bronze.records_ahead_of(state) for state in folded)


_READ = 4
"""Of so many tables, those that lack most, the oldest record is read."""


@dataclass(frozen=True)
class TableLag:
    """Records that silver lacks; of those that bronze lacks too, at most so many (offsets)."""

    records: int
    seconds: float | None = 0.0
    """Since the oldest of them was sent; None: not known."""


def lags(chain: Chain[BaseSource]) -> dict[str, TableLag]:
    """By table; a table whose topic does not exist yet lacks nothing. Raises ServiceError: the lake's cluster does not answer."""
    topics = {names.lake_topic(chain.source, table): table for table in chain.source.tables}
    kafka = chain.platform.lake_kafka()
    states = kafka.states(list(topics))
    committed = bronze_committed(chain.bronze_path)
    lacking: dict[str, int] = {}
    starts: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, state in states.items():
        committed_topic = committed.topics.get(topic) if committed else None
        beyond = _beyond(state, committed_topic.positions if committed_topic else {})
        behind = records_behind(chain.platform.lake, chain.source, topics[topic], committed_topic) if committed_topic else 0
        lacking[topic] = width(beyond) + behind
        if behind:
            beyond = _beyond(state, silver_positions(silver_committed(_silver(chain, topic)), topic))
        starts[topic] = beyond
    ages = _ages(kafka, {topic: starts[topic] for topic in _most(lacking)})
    return {names.table_name(table): TableLag(lacking.get(t, 0), ages.get(t, 0.0)) for t, table in topics.items()}


def whole_lag(found: Mapping[str, TableLag]) -> TableLag:
    """Of a source: all records, and the oldest of them."""
    ages = [lag.seconds for lag in found.values() if lag.records]
    known_ages = [age for age in ages if age is not None]
    return TableLag(sum(lag.records for lag in found.values()), max(known_ages) if known_ages else None if ages else 0.0)


def _silver(chain: Chain[BaseSource], topic: str) -> str:
    table = next(table for table in chain.source.tables if names.lake_topic(chain.source, table) == topic)
    return chain.silver_path(table)


def _beyond(state: TopicState, positions: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    return {p: (max(begin, min(positions.get(p, begin), end)), end) for p, (begin, end) in state.ranges.items()}


def _most(lacking: Mapping[str, int]) -> Iterable[str]:
    behind = [topic for topic, records in lacking.items() if records]
    return sorted(behind, key=lambda topic: lacking[topic], reverse=True)[:_READ]


def _ages(kafka: KafkaCluster, starts: Mapping[str, Mapping[int, tuple[int, int]]]) -> dict[str, float | None]:
    """Seconds since the first record of each range was sent, by topic the oldest; None where none could be read."""
    now, ages = time.time(), dict[str, float | None]()
    for topic, ranges in starts.items():
        sent = []
        for partition, bounds in ranges.items():
            try:
                # A range of control records alone has none.
                first = next(iter(kafka.records(topic, {partition: bounds}, deadline=10)), None)
            except ServiceError:
                continue
            sent += [first.timestamp / 1000] if first else []
        ages[topic] = max(0.0, now - min(sent)) if sent else None
    return ages
