"""What bronze reads next of each table's topic, the appends that read it, and what each append has brought to a table.

Records that bronze holds twice, because two writers appended one range, are taken out by whoever meets them.

    look           the ranges that bronze does not have, per topic; a topic that contradicts the log is a gap
    append         Spark appends the ranges, in batches
    append_epochs  a source's server is another one: its topics to the end of the old epoch, and on in the new one

How a gap is closed: cdc_assets.chain.table_reload.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_assets.capture.incarnations.server_facts import Memory
from cdc_assets.chain.offset_ranges import batches, pending_ranges, width
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.kafka import TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.record_window import Ranges
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.registry import names
from cdc_assets.registry.errors import TopicGapError
from cdc_assets.registry.source_declaration import BaseSource, Source
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.specs import BronzeSpec, JobResult, TopicRange
from spark.table.commit_metadata import CommittedTopic as TopicCommitted


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


def look(chain: Chain[BaseSource], tables: Sequence[Table]) -> AppendPlan:
    """Topics and log as they are now."""
    topics = {names.lake_topic(chain.source, table): table for table in tables}
    states = chain.platform.lake_kafka().states(list(topics))
    committed = bronze_committed(chain.bronze_path)
    plan = AppendPlan(committed.topics if committed else {})
    opening = Memory.of(chain.source.name).opening
    for topic, table in topics.items():
        state, before = states.get(topic), plan.before.get(topic)
        if state is None:
            plan.missing[topic] = f"topic {topic} does not exist yet on the lake's cluster; materialize its mirror asset first"
            continue
        try:
            positions, topic_id = (before.positions, before.topic_id) if before else (None, None)
            if opening is not None and (before is None or before.epoch < opening.epochs.get(topic, 0)):
                # What its server has become is not to be read as the continuation of the epoch that ends.
                bounds = opening.bounds[topic]
                ended = {p: (min(begin, bounds[p]), bounds[p]) for p, (begin, _) in state.ranges.items() if p in bounds}
                state = replace(state, ranges=ended)
            ours = chain.source.captured is not None and opening is None
            ranges = pending_ranges(state, positions=positions, topic_id=topic_id, from_zero=ours)
            plan.slices[topic] = TopicSlice(table, state, before.epoch if before else 0, ranges)
        except TopicGapError as error:
            plan.gaps[topic] = f"{error}: cdc repair bronze {chain.source.name} {names.table_name(table)}"
    return plan


def append_epochs(chain: Chain[Source], epochs: Mapping[str, int], bounds: Mapping[str, Mapping[int, int]], say: Say) -> None:
    """Bronze to the end of the old epoch, then the whole of the new one; what is there already is not appended again.

    Records of the old epoch that are gone before bronze has read them are told: the new one begins with whole tables.

    Raises TopicGapError: a topic does not exist.
    """
    plan = look(chain, chain.source.tables)
    if plan.missing:
        raise TopicGapError("; ".join(plan.missing.values()))
    for gap in plan.gaps.values():
        say(gap)
    append(chain, plan, "epoch", say)
    states = chain.platform.lake_kafka().states(list(epochs))
    after = look(chain, chain.source.tables)
    for table in chain.source.tables:
        topic = names.lake_topic(chain.source, table)
        appended = after.before.get(topic)
        if appended is None or appended.epoch < epochs[topic]:
            starts = bounds[topic]
            ranges = {p: (starts.get(p, begin), end) for p, (begin, end) in states[topic].ranges.items()}
            after.slices[topic] = TopicSlice(table, states[topic], epochs[topic], ranges)
    append(chain, after, "epoch", say)


def append(
    chain: Chain[BaseSource], found: AppendPlan, operation: str, say: Say, *, most: int | None = None
) -> tuple[float, dict[str, int]]:
    """Seconds of Spark, and batches per topic; `most`: after so many batches the rest is left for another time."""
    seconds, done, planned = 0.0, dict.fromkeys(found.slices, 0), plan_batches(chain.source, found)[:most]
    for number, parts in enumerate(planned):
        spec = bronze_spec(chain, found, parts, operation)
        result = _append_batch(chain.platform, spec, say)
        seconds += result.seconds
        progress = f"{quantity(result.rows_read, 'record')} of {quantity(len(parts), 'table')}"
        say(f"batch {number + 1}: {progress} in {result.seconds:.2f} s")
        done.update({topic: done[topic] + 1 for topic in parts})
    return seconds, done


def _append_batch(platform: Platform, spec: BronzeSpec, say: Say) -> JobResult:
    """By tasks where the batch is plain, else by a Spark job of its own."""
    from spark.bronze import append_job as bronze_job

    if bronze_job.can_append_by_tasks(spec):
        outcome = platform.spark().run_in_tasks(bronze_job.append_by_tasks, spec)
        if outcome.result is not None:
            return outcome.result
        say(f"a job of its own appends the batch: {outcome.left}")
    return platform.spark().run(bronze_job.append_by_spark, spec)


def plan_batches(source: BaseSource, found: AppendPlan) -> list[dict[str, Ranges]]:
    """What each job reads, by topic, in order; nothing where bronze holds all that the topics hold."""
    most = source.batching.max_records
    batches_of = {
        topic: list(batches(piece.ranges, max_records=most, cut=piece.state.cut)) for topic, piece in found.slices.items()
    }
    for topic, piece in found.slices.items():
        before = found.before.get(topic)
        if before is None or before.epoch < piece.epoch:
            # The first commit of an epoch names every partition, also where it reads nothing: that is where each begins.
            first = batches_of[topic][0] if batches_of[topic] else {}
            begins = {p: (start, start) for p, (start, _) in piece.ranges.items()}
            batches_of[topic] = [{**begins, **first}, *batches_of[topic][1:]]
    longest = max((len(parts) for parts in batches_of.values()), default=0)
    return [{topic: chunks[n] for topic, chunks in batches_of.items() if n < len(chunks)} for n in range(longest)]


def bronze_spec(chain: Chain[BaseSource], found: AppendPlan, parts: Mapping[str, Ranges], operation: str) -> BronzeSpec:
    """What the job needs to read these parts of the topics."""
    return BronzeSpec(
        path=chain.bronze_path,
        bootstrap=chain.platform.lake_kafka().bootstrap,
        topics=tuple(_range(chain.source, topic, found.slices[topic], ranges) for topic, ranges in parts.items()),
        operation_id=f"{operation}:{uuid.uuid4().hex[:8]}",
        login=chain.platform.lake_kafka().login,
    )


def _range(source: BaseSource, topic: str, piece: TopicSlice, ranges: Ranges) -> TopicRange:
    table, state = names.table_name(piece.table), piece.state
    form = source.record_form(piece.table)
    moved, time_field = state.moves_of(ranges), piece.table.time_field
    return TopicRange(table, topic, state.topic_id, piece.epoch, ranges, **form, event_time=time_field, moved=moved)


@dataclass(frozen=True)
class AppendedTable:
    """One table after an append: what it has read, the records that it added and those of the epoch now."""

    table: Table
    ranges: Ranges
    added: int
    records: int
    epoch: int
    version: int
    batches: int
    seconds: float
    gap: str = ""
    """What its topic lacked, where that made it be read again."""

    @property
    def offsets(self) -> int:
        """Offsets that were to be read, control records among them."""
        return width(self.ranges)

    def __add__(self, later: AppendedTable) -> AppendedTable:
        """Both as one, from the first's starts to the second's ends."""
        return replace(
            later,
            ranges={p: (self.ranges.get(p, bounds)[0], bounds[1]) for p, bounds in later.ranges.items()},
            added=self.added + later.added,
            batches=self.batches + later.batches,
            seconds=self.seconds + later.seconds,
            gap=self.gap or later.gap,
        )


def table_news(
    chain: Chain[BaseSource], found: AppendPlan, seconds: float, batches: Mapping[str, int]
) -> Iterator[AppendedTable]:
    """Of each table of the plan, from the log as it is after the append; `seconds` and `batches` are what `append` gives."""
    after = bronze_committed(chain.bronze_path)
    for topic, piece in found.slices.items():
        now, was = after.topics.get(topic) if after else None, found.before.get(topic)
        records = now.records if now else 0
        added = records - (was.records if was and was.epoch == piece.epoch else 0)
        version = after.version if after else -1
        gap = found.gaps.get(topic, "")
        yield AppendedTable(piece.table, piece.ranges, added, records, piece.epoch, version, batches[topic], seconds, gap)
