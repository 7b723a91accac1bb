"""Looks at every mirrored topic of a source: MirrorMaker's committed source offsets against the core topic as it is.

MirrorMaker's offset is that of the last record copied, so behind it may lie control records of transactions, which nobody
copies: where no committed record is left, the copy is whole up to the topic's end. That end is remembered, so that a
retention that removes control records alone is no loss.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.apply import HELD
from cdc_assets.errors import MirrorError
from cdc_assets.mirroring import memory
from cdc_assets.mirroring.findings import MirrorFinding, expiring, finding_of_halt, losses, still_open, transaction_holds
from cdc_assets.mirroring.memory import SeenTopic
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.kafka import KafkaCluster, TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import mirror_offsets


@dataclass(frozen=True)
class MirrorState:
    """One mirrored topic. `waiting` is offsets that are not copied yet, per partition: an upper bound of records."""

    source: str
    table: str
    topic: str
    mirrored_topic: str
    topic_id: str | None
    copied: Mapping[int, int]
    waiting: Mapping[int, int]
    findings: tuple[MirrorFinding, ...]

    @property
    def state(self) -> str:
        """ok, copying, expiring, or the first thing that is wrong."""
        if self.findings:
            return next((f.kind for f in self.findings if f.red), self.findings[0].kind)
        return "copying" if any(self.waiting.values()) else "ok"

    @property
    def lag(self) -> int:
        """Offsets that are not copied yet, of all partitions."""
        return sum(self.waiting.values())

    @property
    def repair(self) -> str:
        """The command that mends it; empty where nothing is wrong."""
        return f"cdc repair mirror {self.topic}" if any(f.red for f in self.findings) else ""

    def to_json(self) -> dict[str, Any]:
        """For `cdc get mirrors -o json`."""
        return {
            "source": self.source,
            "table": self.table,
            "topic": self.topic,
            "mirrored_topic": self.mirrored_topic,
            "topic_id": self.topic_id,
            "state": self.state,
            "copied": {str(p): offset for p, offset in sorted(self.copied.items())},
            "waiting": {str(p): count for p, count in sorted(self.waiting.items())},
            "findings": [finding.to_json() for finding in self.findings],
            "repair": self.repair or None,
        }


@dataclass(frozen=True)
class TopicAndCopy:
    """A topic of the core cluster and its mirror as they are (None: not there); `copied`: MirrorMaker's committed offsets."""

    core: KafkaCluster
    lake: KafkaCluster
    state: TopicState | None
    copy: TopicState | None
    copied: Mapping[int, int]


def refuse_one_cluster(core: KafkaCluster, lake: KafkaCluster) -> None:
    """Two addresses of one cluster are no mirror.

    Raises:
        MirrorError: naming both and the cluster's id.
    """
    here, there = core.cluster_id(), lake.cluster_id()
    if here == there:
        raise MirrorError(
            f"{core.bootstrap} and {lake.bootstrap} are one cluster ({here}): mirroring it into itself would loop; "
            "set the core's address and CDC_LAKE_BOOTSTRAP to different clusters (docs/how-to/your-own-platform.md)"
        )


def mirror_states(platform: Platform, source: BaseSource) -> list[MirrorState]:
    """Every mirrored topic of the source, those with findings first; what was seen is remembered."""
    if not names.is_mirrored(source):
        return []
    core, lake = platform.core_kafka(source.cluster), platform.lake_kafka()
    status = platform.lake_connect().status(name := names.mirror_connector_name(source))
    stands = status is not None and (status.failed or status.state in HELD)
    halt = (finding_of_halt(name, status.worst),) if status is not None and stands else ()
    at = mirror_offsets(platform.lake_connect(), name)
    copies = {names.topic(source, table): names.lake_topic(source, table) for table in source.tables}
    # Ends before stable ends: what lies between was there, and is not committed.
    ahead = {**lake.high_watermarks(list(copies.values())), **core.high_watermarks(list(copies))}
    # The core last: what it holds now was not there when MirrorMaker's offsets were read, never the other way round.
    written, states = lake.states(list(copies.values())), core.states(list(copies))
    seen, found = memory.load(source.name), []
    for table in source.tables:
        topic = names.topic(source, table)
        copied = {p: offset for (name, p), offset in at.items() if name == topic}
        copy = written.get(copies[topic])
        state, now = _look(source, table, TopicAndCopy(core, lake, states.get(topic), copy, copied), seen.get(topic))
        both = {name: there for name, there in ((topic, states.get(topic)), (copies[topic], copy)) if there}
        held = transaction_holds(both, ahead)
        state = replace(state, findings=(*state.findings, *still_open(held, seen.get(topic)), *halt))
        found.append(state)
        if now is not None:
            seen[topic] = replace(now, held=held)
    memory.save(source.name, seen)
    return sorted(found, key=lambda each: (not each.repair, not each.findings, each.topic))


def _look(source: BaseSource, table: Table, there: TopicAndCopy, seen: SeenTopic | None) -> tuple[MirrorState, SeenTopic | None]:
    core, lake, state, copy, copied = there.core, there.lake, there.state, there.copy, there.copied
    topic = names.topic(source, table)
    about = (source.name, names.table_name(table), topic, names.lake_topic(source, table))
    if state is None:
        gone = MirrorFinding("absent", None, None, f"topic {topic} is not on the core cluster any more; it was mirrored before")
        return MirrorState(*about, None, copied, {}, (gone,) if seen else ()), seen

    def copy_count(partition: int, before: int, begin: int) -> int:
        """Records of the removed range that are in the copy: those written since, less those of what is still there."""
        if seen is None:
            # A topic that others fill begins where they have left it.
            ours = source.captured is not None
            return 0 if ours and not _holds_older(core, lake, state, copy, partition) else 1
        ends = (seen.written, copy.ends if copy else {})
        new = {partition: (ends[0].get(partition, 0), ends[1].get(partition, 0))}
        left = {partition: (begin, copied[partition] + 1)}
        return sum(1 for _ in lake.records(about[3], new)) - sum(1 for _ in core.records(topic, left))

    wrong = losses(state, copied, seen, copy_count)
    kept = [MirrorFinding.of(each) for each in (seen.losses if seen else [])]
    wrong = kept + [each for each in wrong if not any(k.kind == each.kind and k.partition == each.partition for k in kept)]
    upto, soon = _waiting(core, state, copied)
    before = dict(seen.next) if seen else {}
    # After a loss the place where it began is kept, until the repair.
    reached = before if wrong and seen else {p: max(offset, before.get(p, 0)) for p, offset in upto.items()}
    now = SeenTopic(
        seen.id if seen else state.topic_id, reached, dict(copy.ends) if copy else {}, [each.to_json() for each in wrong]
    )
    waiting = {p: max(0, end - upto[p]) for p, (_, end) in state.ranges.items()}
    return MirrorState(*about, state.topic_id, copied, waiting, (*wrong, *soon)), now


def _holds_older(core: KafkaCluster, lake: KafkaCluster, state: TopicState, copy: TopicState | None, partition: int) -> bool:
    """Whether the copy holds records that are older than the oldest of the topic; also where its own retention hides it.

    A copy that was made after the loss begins with the record that the topic begins with.
    """
    begin, end = copy.ranges.get(partition, (0, 0)) if copy else (0, 0)
    if begin > 0 or copy is None:
        return begin > 0
    first = next(lake.records(copy.name, {partition: (begin, end)}), None)
    if first is None:
        return False
    oldest = next(core.records(state.name, {partition: state.ranges[partition]}), None)
    return oldest is None or (oldest.key, oldest.value) != (first.key, first.value)


def _waiting(core: KafkaCluster, state: TopicState, copied: Mapping[int, int]) -> tuple[dict[int, int], list[MirrorFinding]]:
    """Per partition the first offset that holds a record not copied yet (or the end), and what of it expires soon."""
    upto, soon, retention = {}, [], None
    for partition, (begin, end) in state.ranges.items():
        start = max(copied.get(partition, -1) + 1, begin)
        first = next(core.records(state.name, {partition: (start, end)}), None) if start < end else None
        upto[partition] = max(end, start) if first is None else first.offset
        if first is not None:
            if retention is None:
                retention = int(core.topic_config(state.name)["retention.ms"])
            warning = expiring(
                state.name,
                partition,
                oldest_ms=first.timestamp,
                records=end - first.offset,
                retention_ms=retention,
                now_ms=int(time.time() * 1000),
            )
            soon += [warning] if warning else []
    return upto, soon
