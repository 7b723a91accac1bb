"""Makes a source's topics again from its backup, and lets everybody go on behind them.

1. back up  what bronze has and the backup lacks
2. stop     the mirror: nothing is copied meanwhile
3. fill     each topic: what has its name goes, the backup's records are written, and counted
4. place    the mirror's offset is that of the copy's last record in the core's topic (copied_place)
5. commit   which topic of the lake goes on where (resources.restored_topics): from now on it is read
6. resume   the mirror

Killed before step 5, the next call fills anew; killed behind it, the mirror is STOPPED, and `cdc resume` lets it run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.backup import BatchForm, backup_table
from cdc_assets.connectors.owner import refuse_write
from cdc_assets.durable_file import replace_json
from cdc_assets.errors import RestoreError
from cdc_assets.mirroring import memory as mirror_memory
from cdc_assets.onboarding.state import only_one
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import SourceOffset
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.restored_topics import RestoredTopic, record_restored
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.resources.topic_state import TopicState
from cdc_assets.resources.topic_writer import TopicWriter
from cdc_assets.restore.copied_place import holds, last_copied
from cdc_assets.restore.moves import MoveNotes
from cdc_assets.restore.topic_plan import TopicPlan, backup_store, half_filled_file, half_filled_topics, plan_topics

Say = Callable[[str], None]
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


def restore_topics(platform: Platform, source: BaseSource, say: Say) -> list[FilledTopic]:
    """Those that are gone; empty where none is.

    Raises:
        RestoreError: a topic cannot be made again without a loss; nothing was changed.
        CdcAssetsError: a step failed; the next call does it anew.
    """
    refuse_write(source, f"cdc restore {source.name} --topics")
    with only_one(source.name), ExitStack() as locks:
        for table in sorted(source.tables, key=lambda table: table.name):
            locks.enter_context(table_lock("bronze", source.name, names.table_name(table)))
        if not plan_topics(platform, source):
            return []
        _back_up(platform, source, say)
        plans = plan_topics(platform, source)
        for plan in plans:
            plan.kept.check()
        _refuse_holes(platform, source, plans)
        stopped = _stop_mirror(platform, source, say)
        filled = [_fill(platform, source, plan, say) for plan in plans]
        if names.is_mirrored(source):
            _place_mirror(platform, source, filled, is_there=stopped)
        if lake := [each.to_restored(source) for each in filled if each.plan.cluster == "lake"]:
            record_restored(names.topic_moves_path(platform.lake), lake)
        replace_json(half_filled_file(source.name), {})
        if stopped:
            platform.lake_connect().resume(names.mirror_connector_name(source))
            platform.lake_connect().wait_running(names.mirror_connector_name(source))
    return filled


def _back_up(platform: Platform, source: BaseSource, say: Say) -> None:
    """What bronze has must not be read again, so the backup is brought to where bronze is."""
    committed = bronze_committed(bronze := names.bronze_path(platform.lake, source))
    for table in source.tables if committed else ():
        short = names.table_name(table)
        with table_lock("backup", source.name, short):
            store, form = backup_store(platform, source), BatchForm.of(source.backup)
            done = backup_table(store, source=source.name, table=short, bronze_path=bronze, form=form)
        if done.records:
            say(f"{short}: backed up {quantity(done.records, 'record')} more")


def _stop_mirror(platform: Platform, source: BaseSource, say: Say) -> bool:
    """Whether there is one to stop."""
    if not names.is_mirrored(source):
        return False
    connect, name = platform.lake_connect(), names.mirror_connector_name(source)
    if connect.config(name) is None:
        return False
    say(f"stopping {name}")
    connect.stop(name)
    return True


def _fill(platform: Platform, source: BaseSource, plan: TopicPlan, say: Say) -> FilledTopic:
    cluster = platform.core_kafka(source.cluster) if plan.cluster == "core" else platform.raw_lake_kafka()
    say(f"{plan.cluster}: {plan.topic} {plan.why}; writing {quantity(plan.kept.records, 'record')}")
    state = _make_empty(cluster, source, plan)
    replace_json(half_filled_file(source.name), {**half_filled_topics(source.name), plan.topic: state.topic_id})
    notes = MoveNotes()
    TopicWriter(cluster).write(plan.topic, notes.follow(plan.kept.read()))
    now = cluster.states([plan.topic])[plan.topic]
    wanted = {p: notes.written.get(p, 0) for p in now.ranges}
    if now.topic_id != state.topic_id or now.ends != wanted:
        raise RestoreError(
            f"topic {plan.topic} at {cluster.bootstrap} ends at {now.ends}, written were {wanted}: somebody else writes to it, "
            f"or has made it again; stop that, then: cdc restore {source.name} --topics"
        )
    return FilledTopic(plan, state.topic_id, notes)


def _refuse_holes(platform: Platform, source: BaseSource, plans: Sequence[TopicPlan]) -> None:
    """The core must hold the last record of each copy's partition, so that the mirror goes on behind it.

    Raises:
        RestoreError: it does not.
    """
    core = platform.core_kafka(source.cluster)
    made = {plan.table.name for plan in plans if plan.cluster == "core"}
    for plan in plans if names.is_mirrored(source) else ():
        topic = names.topic(source, plan.table)
        original = core.states([topic]).get(topic) if plan.table.name not in made else None
        for record in plan.kept.last_records().values() if original else ():
            if original is not None and not holds(core, original, record):
                raise RestoreError(
                    f"topic {topic} partition {record.partition} of the core lacks the record that the backup of {plan.topic} "
                    f"ends with (offset {record.offset} there): what came behind it may be gone, and nothing was changed; "
                    f"read the table again: cdc repair bronze {source.name} {names.table_name(plan.table)}"
                )


def _make_empty(cluster: KafkaCluster, source: BaseSource, plan: TopicPlan) -> TopicState:
    # Since the plan was made the mirror may have made the copy again.
    ours = plan.found is not None or (plan.cluster == "lake" and names.is_mirrored(source))
    if ours and cluster.existing([plan.topic]):
        cluster.delete_topic(plan.topic)
        until = time.monotonic() + _TOPIC_SECONDS
        while cluster.existing([plan.topic]):
            if time.monotonic() > until:
                raise RestoreError(
                    f"topic {plan.topic} at {cluster.bootstrap} is deleted, and still there after {_TOPIC_SECONDS:.0f} s"
                )
            time.sleep(0.2)
    partitions = max(plan.kept.position.positions) + 1
    cluster.create_topic(
        plan.topic, partitions=partitions, replication_factor=source.topics.replication_factor, settings=plan.settings
    )
    return cluster.await_state(plan.topic, deadline=_TOPIC_SECONDS)


def _place_mirror(platform: Platform, source: BaseSource, filled: Sequence[FilledTopic], *, is_there: bool) -> None:
    tables = {each.plan.table.name: each.plan.table for each in filled}
    core, seen = platform.core_kafka(source.cluster), mirror_memory.load(source.name)
    if is_there:
        name = names.mirror_connector_name(source)
        platform.lake_connect().patch_offsets(name, mirror_offsets_of(platform, source, tables))
    for each in filled:
        if each.plan.cluster == "core":
            state = core.states([each.plan.topic])[each.plan.topic]
            seen[each.plan.topic] = mirror_memory.SeenTopic(state.topic_id, {p: begin for p, (begin, _) in state.ranges.items()})
    mirror_memory.save(source.name, seen)


def mirror_offsets_of(platform: Platform, source: BaseSource, tables: Iterable[str]) -> list[SourceOffset]:
    """Where MirrorMaker goes on with the topics of these tables, as their copies tell it; None: at a topic's begin."""
    core, lake = platform.core_kafka(source.cluster), platform.raw_lake_kafka()
    found: list[SourceOffset] = []
    for table in (source.table(name) for name in sorted(tables)):
        topic, copy = names.topic(source, table), names.lake_topic(source, table)
        original, copied = core.states([topic]).get(topic), lake.states([copy]).get(copy)
        places = last_copied(core, original, lake, copied) if original and copied else {}
        for partition in original.ranges if original else ():
            at = places.get(partition)
            place = {"cluster": source.mirror.alias_of(source.cluster), "partition": partition, "topic": topic}
            found.append(SourceOffset(place, None if at is None else {"offset": at}))
    return found
