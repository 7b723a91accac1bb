"""What bronze reads next of each table's topic, and the appends that read it.

    look      the ranges that bronze does not have, per topic; a topic that contradicts the log is a gap
    reopened  a gap is closed: the table is read whole again, and its topic goes on from its begin in the next epoch
    append    Spark appends the ranges, in batches

The order of a reopening is what makes it safe: the rows are in the lake's topic before the epoch's first record is
committed, so an epoch holds the whole table (spark.batch.Work.floor relies on that). A crash between the two costs a second
reading of the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets import names
from cdc_assets.assets.bronze_ranges import Ranges, batches, pending_ranges
from cdc_assets.assets.record_form import record_form
from cdc_assets.errors import TopicGapError
from cdc_assets.onboarding import run as onboarding
from cdc_assets.registry.models import BaseSource, Source, Table
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.kafka import TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import carry_to_lake
from spark.commits import TopicState as TopicCommitted
from spark.specs import BronzeSpec, TopicRange

_CARRY_DEADLINE_SECONDS = 3600.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Slice:
    """What is to be read of one table's topic."""

    table: Table
    state: TopicState
    epoch: int
    ranges: Ranges


@dataclass
class Look:
    """By topic: what bronze had committed, what is to be read, and why nothing can be."""

    before: Mapping[str, TopicCommitted]
    slices: dict[str, Slice] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def look(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> Look:
    """Topics and log as they are now."""
    topics = {names.mirrored_topic(source, table): table for table in tables}
    states = platform.lake_kafka().states(list(topics))
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    found = Look(committed.topics if committed else {})
    for topic, table in topics.items():
        state, known = states.get(topic), found.before.get(topic)
        if state is None:
            found.missing[topic] = f"topic {topic} does not exist yet on the lake's cluster; materialize its mirror asset first"
            continue
        try:
            positions, topic_id = (known.positions, known.topic_id) if known else (None, None)
            ranges = pending_ranges(state, positions=positions, topic_id=topic_id)
            found.slices[topic] = Slice(table, state, known.epoch if known else 0, ranges)
        except TopicGapError as error:
            found.gaps[topic] = f"{error}: cdc repair bronze {source.name} {names.table_name(table)}"
    return found


def reopened(platform: Platform, source: Source, table: Table, known: TopicCommitted, say: Say) -> Slice:
    """Read the table whole again, and wait until its rows are in the lake's topic: what bronze is to read of it then.

    Raises:
        CdcAssetsError: from a step of the reading, which `cdc onboard SOURCE --resume` goes on with.
    """
    say(f"reading table {table.name} again")
    onboarding.begin(source.name, [table.name], "incremental", again=True)
    onboarding.go_on(platform, source.name, say)
    carry_to_lake(platform, source.model_copy(update={"tables": (table,)}), deadline=_CARRY_DEADLINE_SECONDS)
    topic = names.mirrored_topic(source, table)
    state = platform.lake_kafka().await_state(topic, deadline=_CARRY_DEADLINE_SECONDS)
    return Slice(table, state, known.epoch + 1, pending_ranges(state, positions=None, topic_id=None))


def append(platform: Platform, source: BaseSource, found: Look, operation: str, say: Say) -> tuple[float, dict[str, int]]:
    """Seconds of Spark, and batches per topic."""
    from spark import bronze as bronze_job

    work = {topic: list(batches(each.ranges, max_records=source.batching.max_records)) for topic, each in found.slices.items()}
    for topic, each in found.slices.items():
        known = found.before.get(topic)
        if (known is None or known.epoch < each.epoch) and not work[topic]:
            work[topic] = [each.ranges]  # an empty topic is committed as such, so that silver makes an empty table
    seconds = 0.0
    for number in range(max((len(parts) for parts in work.values()), default=0)):
        parts = {topic: chunks[number] for topic, chunks in work.items() if number < len(chunks)}
        spec = BronzeSpec(
            path=names.bronze_path(platform.lake, source),
            bootstrap=platform.lake_kafka().bootstrap,
            topics=tuple(_range(source, topic, found.slices[topic], ranges) for topic, ranges in parts.items()),
            operation_id=f"{operation}:{uuid.uuid4().hex[:8]}",
            kafka_options={},
        )
        result = platform.spark().run(bronze_job.run, spec)
        seconds += result.seconds
        say(f"batch {number + 1}: {result.rows_read} records of {len(parts)} tables in {result.seconds:.2f} s")
    return seconds, {topic: len(parts) for topic, parts in work.items()}


def _range(source: BaseSource, topic: str, each: Slice, ranges: Ranges) -> TopicRange:
    table = names.table_name(each.table)
    return TopicRange(table, topic, each.state.topic_id, each.epoch, ranges, **record_form(source, each.table))
