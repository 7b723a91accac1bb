"""What bronze reads next of each table's topic, and the appends that read it.

    look           the ranges that bronze does not have, per topic; a topic that contradicts the log is a gap
    append         Spark appends the ranges, in batches
    append_epochs  a source's server is another one: its topics to the end of the old epoch, and on in the new one

How a gap is closed: cdc_assets.bronze.reload.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_assets import names
from cdc_assets.bronze.ranges import Ranges, batches, pending_ranges
from cdc_assets.errors import TopicGapError
from cdc_assets.identity.memory import Memory
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, Source
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.kafka import TopicState
from cdc_assets.resources.platform import Platform
from spark.delta.commits import CommittedTopic as TopicCommitted
from spark.specs import BronzeSpec, JobResult, TopicRange

Say = Callable[[str], None]


@dataclass(frozen=True)
class TopicSlice:
    """What is to be read of one table's topic."""

    table: Table
    state: TopicState
    epoch: int
    ranges: Ranges


@dataclass
class AppendPlan:
    """By topic: what bronze had committed, what is to be read, and why nothing can be."""

    before: Mapping[str, TopicCommitted]
    slices: dict[str, TopicSlice] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def look(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> AppendPlan:
    """Topics and log as they are now."""
    topics = {names.lake_topic(source, table): table for table in tables}
    states = platform.lake_kafka().states(list(topics))
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    found = AppendPlan(committed.topics if committed else {})
    opening = Memory.of(source.name).opening
    for topic, table in topics.items():
        state, known = states.get(topic), found.before.get(topic)
        if state is None:
            found.missing[topic] = f"topic {topic} does not exist yet on the lake's cluster; materialize its mirror asset first"
            continue
        try:
            positions, topic_id = (known.positions, known.topic_id) if known else (None, None)
            if opening is not None and (known is None or known.epoch < opening.epochs.get(topic, 0)):
                state = _within_bounds(state, opening.bounds[topic])
            ours = source.captured is not None and opening is None
            ranges = pending_ranges(state, positions=positions, topic_id=topic_id, from_zero=ours)
            found.slices[topic] = TopicSlice(table, state, known.epoch if known else 0, ranges)
        except TopicGapError as error:
            found.gaps[topic] = f"{error}: cdc repair bronze {source.name} {names.table_name(table)}"
    return found


def _within_bounds(state: TopicState, bounds: Mapping[int, int]) -> TopicState:
    """What of the topic is of the epoch that ends; what its server has become is not to be read as its continuation."""
    return replace(state, ranges={p: (min(begin, bounds[p]), bounds[p]) for p, (begin, _) in state.ranges.items() if p in bounds})


def append_epochs(
    platform: Platform, source: Source, epochs: Mapping[str, int], bounds: Mapping[str, Mapping[int, int]], say: Say
) -> None:
    """Bronze to the end of the old epoch, then the whole of the new one; what is there already is not appended again.

    Records of the old epoch that are gone before bronze has read them are told: the new one begins with whole tables.

    Raises:
        TopicGapError: a topic does not exist.
    """
    found = look(platform, source, source.tables)
    if found.missing:
        raise TopicGapError("; ".join(found.missing.values()))
    for gap in found.gaps.values():
        say(gap)
    append(platform, source, found, "epoch", say)
    states = platform.lake_kafka().states(list(epochs))
    after = look(platform, source, source.tables)
    for table in source.tables:
        topic = names.lake_topic(source, table)
        known = after.before.get(topic)
        if known is None or known.epoch < epochs[topic]:
            starts = bounds[topic]
            ranges = {p: (starts.get(p, begin), end) for p, (begin, end) in states[topic].ranges.items()}
            after.slices[topic] = TopicSlice(table, states[topic], epochs[topic], ranges)
    append(platform, source, after, "epoch", say)


def append(
    platform: Platform, source: BaseSource, found: AppendPlan, operation: str, say: Say, *, most: int | None = None
) -> tuple[float, dict[str, int]]:
    """Seconds of Spark, and batches per topic; `most`: after so many batches the rest is left for another time."""
    seconds, done, planned = 0.0, dict.fromkeys(found.slices, 0), plan_batches(source, found)[:most]
    for number, parts in enumerate(planned):
        spec = bronze_spec(platform, source, found, parts, operation)
        result = _append_batch(platform, spec, say)
        seconds += result.seconds
        told = f"{quantity(result.rows_read, 'record')} of {quantity(len(parts), 'table')}"
        say(f"batch {number + 1}: {told} in {result.seconds:.2f} s")
        done.update({topic: done[topic] + 1 for topic in parts})
    return seconds, done


def _append_batch(platform: Platform, spec: BronzeSpec, say: Say) -> JobResult:
    """By a task where the batch is small and plain, else by a Spark job of its own."""
    from spark.bronze import job as bronze_job
    from spark.small_batches import job as small_batches

    if small_batches.is_small(spec):
        outcome = platform.spark().run_in_tasks(small_batches.append, spec)
        if outcome.result is not None:
            return outcome.result
        say(f"a job of its own appends the batch: {outcome.left}")
    return platform.spark().run(bronze_job.run, spec)


def plan_batches(source: BaseSource, found: AppendPlan) -> list[dict[str, Ranges]]:
    """What each job reads, by topic, in order; nothing where bronze holds all that the topics hold."""
    most = source.batching.max_records
    work = {topic: list(batches(each.ranges, max_records=most, cut=each.state.cut)) for topic, each in found.slices.items()}
    for topic, each in found.slices.items():
        known = found.before.get(topic)
        if known is None or known.epoch < each.epoch:
            # The first commit of an epoch names every partition, also where it reads nothing: that is where each begins.
            first = work[topic][0] if work[topic] else {}
            begins = {p: (start, start) for p, (start, _) in each.ranges.items()}
            work[topic] = [{**begins, **first}, *work[topic][1:]]
    longest = max((len(parts) for parts in work.values()), default=0)
    return [{topic: chunks[n] for topic, chunks in work.items() if n < len(chunks)} for n in range(longest)]


def bronze_spec(
    platform: Platform, source: BaseSource, found: AppendPlan, parts: Mapping[str, Ranges], operation: str
) -> BronzeSpec:
    """What the job needs to read these parts of the topics."""
    return BronzeSpec(
        path=names.bronze_path(platform.lake, source),
        bootstrap=platform.lake_kafka().bootstrap,
        topics=tuple(_range(source, topic, found.slices[topic], ranges) for topic, ranges in parts.items()),
        operation_id=f"{operation}:{uuid.uuid4().hex[:8]}",
        login=platform.lake_kafka().login,
    )


def _range(source: BaseSource, topic: str, each: TopicSlice, ranges: Ranges) -> TopicRange:
    table, state = names.table_name(each.table), each.state
    form = source.record_form(each.table)
    moved, time_field = state.moves_of(ranges), each.table.time_field
    return TopicRange(table, topic, state.topic_id, each.epoch, ranges, **form, event_time=time_field, moved=moved)
