"""Makes a source's topics again from its backup, and lets everybody go on behind them: mirror, connector and bronze.

Kafka numbers restored records from 0 without a hole, so the moved offsets are noted. How far a topic is in its copy is told
by the records alone: MirrorMaker's offset may be lost, or too far.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cdc_assets.backup.backup_copy import BatchForm, backup_table
from cdc_assets.capture import mirror_losses as mirror_memory
from cdc_assets.capture.connectors.connector_inventory import refuse_write
from cdc_assets.capture.onboarding.onboarding_state import only_one
from cdc_assets.clients.connector_states import SourceOffset
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.kafka import KafkaCluster, Record, TopicState, TopicWriter
from cdc_assets.clients.record_window import offsets_at
from cdc_assets.clients.restored_topics import RestoredTopic, record_restored
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.recovery.topic_plan import TopicPlan, backup_store, half_filled_topics, plan_topics
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity
from spark.events.moved_offsets import Moves


class MoveNotes:
    """Which of Kafka's offsets the restored records of one topic get, noted while the topic is filled."""

    def __init__(self) -> None:
        self.written: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._moves: dict[int, list[tuple[int, int]]] = {}

    def follow(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records, noted as they pass. Those of a partition ascend."""
        for record in records:
            at = self.written.get(record.partition, 0)
            if self._next.get(record.partition) != record.offset:
                self._moves.setdefault(record.partition, []).append((at, record.offset))
            self._next[record.partition], self.written[record.partition] = record.offset + 1, at + 1
            yield record

    def moves(self, ends: Mapping[int, int]) -> dict[int, Moves]:
        """By partition, with where the backup has ended: what comes behind the restored records goes on there."""
        all_moves = {p: list(moves) for p, moves in self._moves.items()}
        for partition, end in ends.items():
            if self._next.get(partition) != end:
                all_moves.setdefault(partition, []).append((self.written.get(partition, 0), end))
        return {p: tuple(moves) for p, moves in all_moves.items()}


_FIRST_LOOK = 100


def last_copied(core: KafkaCluster, original: TopicState, lake: KafkaCluster, copy: TopicState) -> dict[int, int | None]:
    """Per partition the core's offset of the last record that is copied; None: of none. Offsets are Kafka's own.

    How far a topic of the core cluster is in its copy, told by the records alone: MirrorMaker's offset may be lost, or too far.

    Both hold the same records in the same order with the same times. So of those that are not older than the copy's last one,
    the first n of the core are the n of the copy, and Kafka finds the first of them by its time.

    Raises:
        RefusalError: neither topic holds the record that the other one ends with.
    """
    offsets: dict[int, int | None] = {}
    for partition in copy.ranges:
        ends = _last(core, original, partition), _last(lake, copy, partition)
        if None in ends:
            offsets[partition] = None
            continue
        at = _place_of_end(core, original, lake, copy, partition)
        if at is None and ends[0] is not None and holds(lake, copy, ends[0]):
            # A topic of the core that was made again ends before its copy: all of it is copied.
            at = ends[0].offset
        if at is None:
            raise RefusalError(
                f"topic {original.name} partition {partition} does not hold the last records of its copy {copy.name}: where the "
                f"copy goes on cannot be told; cdc repair mirror {original.name}"
            )
        offsets[partition] = at
    return offsets


def _place_of_end(core: KafkaCluster, original: TopicState, lake: KafkaCluster, copy: TopicState, partition: int) -> int | None:
    """The core's offset of the copy's last record, where each record that is not older is the same in both."""
    at, last = None, _last(lake, copy, partition)
    assert last is not None
    here = _not_older(core, original, partition, last.timestamp)
    for lake_record in _not_older(lake, copy, partition, last.timestamp):
        record = next(here, None)
        if record is None or not is_same(record, lake_record):
            return None
        at = record.offset
    return at


def holds(core: KafkaCluster, original: TopicState, record: Record) -> bool:
    """Whether the topic holds a record of the copy."""
    return any(is_same(candidate, record) for candidate in _not_older(core, original, record.partition, record.timestamp))


def is_same(left: Record, right: Record) -> bool:
    """Whether both are one record: equal in all but their offsets."""
    return (left.timestamp, left.key, left.value, left.headers) == (right.timestamp, right.key, right.value, right.headers)


def _not_older(cluster: KafkaCluster, state: TopicState, partition: int, timestamp: int) -> Iterator[Record]:
    when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp)
    start, end = offsets_at(cluster, state, when).get(partition), state.ranges.get(partition, (0, 0))[1]
    if start is None or start >= end:
        return
    for record in cluster.records(state.name, {partition: (start, end)}):
        if record.timestamp >= timestamp:
            yield record


def _last(cluster: KafkaCluster, state: TopicState, partition: int) -> Record | None:
    # By tenfold looks from the end: behind the last record may lie control records, which are never delivered.
    begin, end = state.ranges.get(partition, (0, 0))
    look = _FIRST_LOOK
    while begin < end:
        start = max(begin, end - look)
        records = list(cluster.records(state.name, {partition: (start, end)}))
        if records or start == begin:
            return records[-1] if records else None
        look *= 10
    return None


_TOPIC_SECONDS = 60.0


@dataclass(frozen=True)
class FilledTopic:
    """A topic that was made again: Kafka's id of it, its records, and where its offsets go on."""

    plan: TopicPlan
    topic_id: str
    notes: MoveNotes

    @property
    def records(self) -> int:
        """How many were written."""
        return sum(self.notes.written.values())

    def to_restored(self, source: BaseSource) -> RestoredTopic:
        """As the lake keeps it."""
        position = self.plan.kept.position
        return RestoredTopic(source.name, self.plan.topic, self.topic_id, position.topic_id, self.notes.moves(position.positions))


def restore_topics(chain: Chain[BaseSource], say: Say) -> list[FilledTopic]:
    """Those that are gone; empty where none is.

    1. back up  what bronze has and the backup lacks
    2. stop     the mirror: nothing is copied meanwhile
    3. fill     each topic: what has its name goes, the backup's records are written, and counted
    4. place    the mirror's offset is that of the copy's last record in the core's topic (last_copied)
    5. commit   which topic of the lake goes on where (cdc_assets.clients.restored_topics): from now on it is read
    6. resume   the mirror

    Killed before step 5, the next call fills anew; killed behind it, the mirror is STOPPED, and `cdc resume` lets it run.

    Raises:
        RefusalError: a topic cannot be made again without a loss; nothing was changed.
        CdcAssetsError: a step failed; the next call does it anew.
    """
    refuse_write(chain.source, f"cdc restore {chain.source.name} --topics")
    with only_one(chain.source.name), ExitStack() as locks:
        for table in sorted(chain.source.tables, key=lambda table: table.name):
            locks.enter_context(table_lock("bronze", chain.source.name, names.table_name(table)))
        if not plan_topics(chain):
            return []
        _back_up(chain, say)
        plans = plan_topics(chain)
        for plan in plans:
            plan.kept.check()
        _refuse_holes(chain, plans)
        stopped = _stop_mirror(chain, say)
        filled = [_fill(chain, plan, say) for plan in plans]
        if names.is_mirrored(chain.source):
            _place_mirror(chain, filled, is_there=stopped)
        if lake := [topic.to_restored(chain.source) for topic in filled if topic.plan.cluster == "lake"]:
            record_restored(names.topic_moves_path(chain.platform.lake), lake)
        half_filled_topics(chain.source.name).write(None)
        if stopped:
            chain.platform.lake_connect().resume(names.mirror_connector_name(chain.source))
            chain.platform.lake_connect().wait_running(names.mirror_connector_name(chain.source))
    return filled


def _back_up(chain: Chain[BaseSource], say: Say) -> None:
    # What bronze has is not to be read again from the new topics, so the backup is brought to where bronze is.
    committed = bronze_committed(bronze := chain.bronze_path)
    for table in chain.source.tables if committed else ():
        short = names.table_name(table)
        with table_lock("backup", chain.source.name, short):
            store, form = backup_store(chain), BatchForm.of(chain.source.backup)
            done = backup_table(store, source=chain.source.name, table=short, bronze_path=bronze, form=form)
        if done.records:
            say(f"{short}: backed up {quantity(done.records, 'record')} more")


def _stop_mirror(chain: Chain[BaseSource], say: Say) -> bool:
    if not names.is_mirrored(chain.source):
        return False
    connect, name = chain.platform.lake_connect(), names.mirror_connector_name(chain.source)
    if connect.config(name) is None:
        return False
    say(f"stopping {name}")
    connect.stop(name)
    return True


def _fill(chain: Chain[BaseSource], plan: TopicPlan, say: Say) -> FilledTopic:
    cluster = chain.platform.core_kafka(chain.source.cluster) if plan.cluster == "core" else chain.platform.raw_lake_kafka()
    say(f"{plan.cluster}: {plan.topic} {plan.why}; writing {quantity(plan.kept.records, 'record')}")
    state = _make_empty(cluster, chain.source, plan)
    half_filled_topics(chain.source.name).change(lambda topics: {**(topics or {}), plan.topic: state.topic_id})
    notes = MoveNotes()
    TopicWriter(cluster).write(plan.topic, notes.follow(plan.kept.read()))
    now = cluster.states([plan.topic])[plan.topic]
    written = {p: notes.written.get(p, 0) for p in now.ranges}
    if now.topic_id != state.topic_id or now.ends != written:
        raise RefusalError(
            f"topic {plan.topic} at {cluster.bootstrap} ends at {now.ends}, written were {written}: somebody else writes to it, "
            f"or has made it again; stop that, then: cdc restore {chain.source.name} --topics"
        )
    return FilledTopic(plan, state.topic_id, notes)


def _refuse_holes(chain: Chain[BaseSource], plans: Sequence[TopicPlan]) -> None:
    """The core must hold the last record of each copy's partition, so that the mirror goes on behind it.

    Raises:
        RefusalError: it does not.
    """
    core = chain.platform.core_kafka(chain.source.cluster)
    made = {plan.table.name for plan in plans if plan.cluster == "core"}
    for plan in plans if names.is_mirrored(chain.source) else ():
        topic = names.topic(chain.source, plan.table)
        original = core.states([topic]).get(topic) if plan.table.name not in made else None
        for record in plan.kept.last_records().values() if original else ():
            if original is not None and not holds(core, original, record):
                raise RefusalError(
                    f"topic {topic} partition {record.partition} of the core lacks the record that the backup of {plan.topic} "
                    f"ends with (offset {record.offset} there): what came behind it may be gone, and nothing was changed; "
                    f"read the table again: cdc repair bronze {chain.source.name} {names.table_name(plan.table)}"
                )


def _make_empty(cluster: KafkaCluster, source: BaseSource, plan: TopicPlan) -> TopicState:
    # Since the plan was made the mirror may have made the copy again.
    ours = plan.state is not None or (plan.cluster == "lake" and names.is_mirrored(source))
    if ours and cluster.existing([plan.topic]):
        cluster.delete_topic(plan.topic)
        until = time.monotonic() + _TOPIC_SECONDS
        while cluster.existing([plan.topic]):
            if time.monotonic() > until:
                raise RefusalError(
                    f"topic {plan.topic} at {cluster.bootstrap} is deleted, and still there after {_TOPIC_SECONDS:.0f} s"
                )
            time.sleep(0.2)
    partitions = max(plan.kept.position.positions) + 1
    cluster.create_topic(
        plan.topic, partitions=partitions, replication_factor=source.topics.replication_factor, settings=plan.settings
    )
    return cluster.await_state(plan.topic, deadline=_TOPIC_SECONDS)


def _place_mirror(chain: Chain[BaseSource], filled: Sequence[FilledTopic], *, is_there: bool) -> None:
    tables = {topic.plan.table.name: topic.plan.table for topic in filled}
    core, seen = chain.platform.core_kafka(chain.source.cluster), mirror_memory.load(chain.source.name)
    if is_there:
        name = names.mirror_connector_name(chain.source)
        chain.platform.lake_connect().patch_offsets(name, mirror_offsets_of(chain, tables))
    for topic in filled:
        if topic.plan.cluster == "core":
            state = core.states([topic.plan.topic])[topic.plan.topic]
            seen[topic.plan.topic] = mirror_memory.SeenTopic(state.topic_id, {p: begin for p, (begin, _) in state.ranges.items()})
    mirror_memory.save(chain.source.name, seen)


def mirror_offsets_of(chain: Chain[BaseSource], tables: Iterable[str]) -> list[SourceOffset]:
    """Where MirrorMaker goes on with the topics of these tables, as their copies tell it; None: at a topic's begin."""
    core, lake = chain.platform.core_kafka(chain.source.cluster), chain.platform.raw_lake_kafka()
    offsets: list[SourceOffset] = []
    for table in (chain.source.table(name) for name in sorted(tables)):
        topic, copy = names.topic(chain.source, table), names.lake_topic(chain.source, table)
        original, copied = core.states([topic]).get(topic), lake.states([copy]).get(copy)
        places = last_copied(core, original, lake, copied) if original and copied else {}
        for partition in original.ranges if original else ():
            at = places.get(partition)
            mirror_partition = {
                "cluster": chain.source.mirror.alias_of(chain.source.cluster),
                "partition": partition,
                "topic": topic,
            }
            offsets.append(SourceOffset(mirror_partition, None if at is None else {"offset": at}))
    return offsets
