"""Looks at every mirrored topic of a source: MirrorMaker's committed source offsets against the core topic as it is.

MirrorMaker's offset is that of the last record copied, so behind it may lie control records of transactions, which nobody
copies: where no committed record is left, the copy is whole up to the topic's end. That end is remembered, so that a
retention that removes control records alone is no loss.

What the last look saw is the section `mirror` of what this machine remembers of the source,
`{topic: {"id": …, "next": {partition: offset}, "written": {partition: offset}, "losses": […], "held": {place: offset}}}`.
`next` is the first core offset that was not known to be copied, `written` the end of the lake's copy at that time. A loss
stays until it is repaired, however MirrorMaker's own offsets go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from cdc_assets.capture.connectors.apply_connector import HELD
from cdc_assets.capture.connectors.connector_inventory import refuse_write
from cdc_assets.capture.log_position import mirror_offsets
from cdc_assets.capture.mirror_large_records import find_uncarried, pass_large_records
from cdc_assets.capture.onboarding import onboarding_run as onboarding
from cdc_assets.capture.onboarding.onboarding_state import takes
from cdc_assets.clients.connector_states import SourceOffset
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_state import SourceState
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.events.large_records import LargeRecord


@dataclass
class SeenTopic:
    """One topic at the last look. A loss is `{kind, partition, lost, message}` (findings.MirrorFinding)."""

    id: str
    next: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    losses: list[dict[str, object]] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)


def load_seen_topics(source: str) -> dict[str, SeenTopic]:
    """By core topic; empty before the first look."""
    return {
        topic: SeenTopic(seen["id"], _numbers(seen["next"]), _numbers(seen["written"]), seen["losses"], seen["held"])
        for topic, seen in (_state(source).read() or {}).items()
    }


def save(source: str, seen: dict[str, SeenTopic]) -> None:
    """Replace what is remembered by what this look has seen, per topic."""
    _state(source).write({topic: asdict(topic_seen) for topic, topic_seen in sorted(seen.items())})


def _state(source: str) -> SourceState:
    return SourceState(source, "mirror")


def _numbers(document: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in document.items()}


FindingKind = Literal["lost", "recreated", "truncated", "partitions", "absent", "expiring", "open", "halted"]
# The copy may have read a range before it was removed: (partition, next offset then, begin now) → records of it that were copied.
# At a first look nobody counts: whether there are any.
CopiedOf = Callable[[int, int, int], int]


@dataclass(frozen=True)
class MirrorFinding:
    """One thing that is wrong; `lost` is `[from, to]`, both included, in offsets of the core topic."""

    kind: FindingKind
    partition: int | None
    lost: tuple[int, int] | None
    message: str

    @property
    def red(self) -> bool:
        """Records are lost or in doubt; else they are only in danger."""
        return self.kind not in ("expiring", "open", "halted")

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the memory."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> MirrorFinding:
        """The finding that `to_json` wrote."""
        lost = document["lost"]
        return cls(document["kind"], document["partition"], None if lost is None else (lost[0], lost[1]), document["message"])


def losses(state: TopicState, copied: Mapping[int, int], seen: SeenTopic | None, copied_of: CopiedOf) -> list[MirrorFinding]:
    """What contradicts a whole copy; `copied` is the core offset of the last record copied, per partition."""
    if seen is not None and seen.id != state.topic_id:
        message = (
            f"topic {state.name} was deleted and made again (id {seen.id}, now {state.topic_id}): what the old one held "
            f"beyond offsets {seen.next} was never copied, and MirrorMaker's offsets are those of the old one"
        )
        return [MirrorFinding("recreated", None, None, message)]
    findings = []
    for partition, (begin, end) in sorted(state.ranges.items()):
        before = seen.next.get(partition) if seen else None
        upto = copied.get(partition, -1) + 1
        at = max(upto, before or 0)
        if seen and before is None:
            message = (
                f"topic {state.name} has grown: partition {partition} is new. Keys may have moved to it, so their events "
                "have no order across the change"
            )
            findings.append(MirrorFinding("partitions", partition, None, message))
        if end < at:
            message = (
                f"topic {state.name} partition {partition} ends at offset {end}, and was copied up to {at - 1}: it was truncated"
            )
            findings.append(MirrorFinding("truncated", partition, (end, at - 1), message))
        # A first look cannot know that the one offset behind the last record held the marker of its transaction, as it always
        # does where the producer is exactly-once; the topic of a table that is idle for as long as the retention looks like that.
        elif begin > at and (seen or (upto and begin > at + 1)):
            findings.append(_lost(state.name, partition, at, begin - 1))
        elif seen is None and begin > 0 and not copied_of(partition, 0, begin):
            findings.append(_lost(state.name, partition, 0, begin - 1))
        elif before is not None and before < begin <= upto and not copied_of(partition, before, begin):
            findings.append(_lost(state.name, partition, before, begin - 1))
    return findings


def expiring(topic: str, partition: int, *, oldest_ms: int, records: int, retention_ms: int, now_ms: int) -> MirrorFinding | None:
    """Records that wait for their copy and have less than half of the retention left; `records` is an upper bound."""
    left = oldest_ms + retention_ms - now_ms
    if retention_ms < 0 or left > retention_ms / 2:
        return None
    message = (
        f"topic {topic} partition {partition}: the oldest of up to {quantity(records, 'record')} not copied yet expires in "
        f"{max(0, left) / 1000:.0f} s (retention {retention_ms / 1000:.0f} s)"
    )
    return MirrorFinding("expiring", partition, None, message)


def transaction_holds(topics: Mapping[str, TopicState], written: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """`"<topic> <partition>"` to the offset at which an open transaction holds readers back; `written` was asked for before."""
    return {
        f"{name} {partition}": end
        for name, state in topics.items()
        for partition, (_, end) in state.ranges.items()
        if written.get(name, {}).get(partition, 0) > end
    }


def still_open(held: Mapping[str, int], seen: SeenTopic | None) -> list[MirrorFinding]:
    """Those of the look before: a transaction that is open for as long is hanging, or its producer is.

    Kafka ends it after `transaction.timeout.ms` (15 minutes at most), except where it has lost sight of it (KIP-664).
    """
    findings = []
    for partition_name, offset in sorted(held.items()):
        if seen is not None and seen.held.get(partition_name) == offset:
            topic, _, partition = partition_name.rpartition(" ")
            message = (
                f"topic {topic} partition {partition}: a transaction that began at offset {offset} is open since the last look; "
                "no reader of committed records gets past it: kafka-transactions.sh find-hanging, then abort"
            )
            findings.append(MirrorFinding("open", int(partition), None, message))
    return findings


def finding_of_halt(connector: str, state: str) -> MirrorFinding:
    """Nothing is copied meanwhile, and nothing is lost yet."""
    then = f"cdc restart {connector}" if state == "FAILED" else f"cdc resume {connector}"
    return MirrorFinding(
        "halted", None, None, f"connector {connector} is {state}: nothing is copied; when that is mended or over: {then}"
    )


def _lost(topic: str, partition: int, start: int, last: int) -> MirrorFinding:
    message = f"topic {topic} partition {partition}: offsets {start} to {last} were removed before MirrorMaker copied them"
    return MirrorFinding("lost", partition, (start, last), message)


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
    """Two addresses of one cluster are no mirror. Raises RefusalError: naming both and the cluster's id."""
    here, there = core.cluster_id(), lake.cluster_id()
    if here == there:
        raise RefusalError(
            f"{core.bootstrap} and {lake.bootstrap} are one cluster ({here}): mirroring it into itself would loop; "
            "set the core's address and CDC_LAKE_BOOTSTRAP to different clusters (docs/how-to/your-own-platform.md)"
        )


def mirror_states(chain: Chain[BaseSource]) -> list[MirrorState]:
    """Every mirrored topic of the source, those with findings first; what was seen is remembered."""
    if not names.is_mirrored(chain.source):
        return []
    core, lake = chain.platform.core_kafka(chain.source.cluster), chain.platform.lake_kafka()
    status = chain.platform.lake_connect().status(name := names.mirror_connector_name(chain.source))
    stands = status is not None and (status.failed or status.state in HELD)
    halt = (finding_of_halt(name, status.worst),) if status is not None and stands else ()
    at = mirror_offsets(chain.platform.lake_connect(), name)
    copies = {names.topic(chain.source, table): names.lake_topic(chain.source, table) for table in chain.source.tables}
    # Ends before stable ends: what lies between was there, and is not committed.
    ahead = {**lake.high_watermarks(list(copies.values())), **core.high_watermarks(list(copies))}
    # The core last: what it holds now was not there when MirrorMaker's offsets were read, never the other way round.
    written, states = lake.states(list(copies.values())), core.states(list(copies))
    seen, mirrors = load_seen_topics(chain.source.name), []
    for table in chain.source.tables:
        topic = names.topic(chain.source, table)
        copied = {p: offset for (name, p), offset in at.items() if name == topic}
        copy = written.get(copies[topic])
        state, now = _look(chain.source, table, TopicAndCopy(core, lake, states.get(topic), copy, copied), seen.get(topic))
        both = {name: there for name, there in ((topic, states.get(topic)), (copies[topic], copy)) if there}
        holds = transaction_holds(both, ahead)
        state = replace(state, findings=(*state.findings, *still_open(holds, seen.get(topic)), *halt))
        mirrors.append(state)
        if now is not None:
            seen[topic] = replace(now, held=holds)
    save(chain.source.name, seen)
    return sorted(mirrors, key=lambda each: (not each.repair, not each.findings, each.topic))


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
    kept = [MirrorFinding.of(loss) for loss in (seen.losses if seen else [])]
    wrong = kept + [
        finding for finding in wrong if not any(k.kind == finding.kind and k.partition == finding.partition for k in kept)
    ]
    upto, soon = _waiting(core, state, copied)
    before = dict(seen.next) if seen else {}
    # After a loss the place where it began is kept, until the repair.
    reached = before if wrong and seen else {p: max(offset, before.get(p, 0)) for p, offset in upto.items()}
    now = SeenTopic(
        seen.id if seen else state.topic_id, reached, dict(copy.ends) if copy else {}, [finding.to_json() for finding in wrong]
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


# Repairs a mirrored topic after a loss: MirrorMaker reads it again where its offsets are another topic's, and the table is
# snapshotted again where records are gone for good. Each step may be repeated; records that come twice are folded once.
_BY_HAND = (
    "nobody can be asked for it from here. What is lost stays lost in the topic; cdc reconcile {source}.{table} names the rows "
    "that silver lacks, where it can compare them"
)
# MirrorMaker's offset is of records that are not there any more: it must begin at the topic's begin.
_AGAIN = ("recreated", "truncated")


@dataclass(frozen=True)
class RepairPlan:
    """What a repair does, in words and in order."""

    source: BaseSource
    table: Table
    state: MirrorState
    again: bool
    snapshot: bool
    unread: str = ""
    """Why the table is not read again, where nobody of ours can ask for it."""
    large: tuple[LargeRecord, ...] = ()
    """Records that wait for MirrorMaker, and that it cannot carry."""

    @property
    def steps(self) -> list[str]:
        """Empty where nothing is wrong."""
        topic, mirror = self.state.topic, names.mirror_connector_name(self.source)
        past = [
            f"stop {mirror}, put a sentence in place of the record at partition {record.partition} offset {record.offset}, "
            f"let it go on behind it: {record.sentence}"
            for record in self.large
        ]
        if not self.state.repair:
            return past
        steps = past
        steps += [f"stop {mirror}, forget its offsets of {topic}, let it run: it is copied again from its begin"] * self.again
        steps += [f"read table {self.table.name} again: cdc onboard {self.source.name} {self.table.name} --again"] * self.snapshot
        steps += [f"{self.table.name} is not read again: {self.unread}"] * bool(self.unread)
        return [*steps, "take the topic as it is now for the whole one"]


def plan(platform: Platform, sources: Sequence[BaseSource], topic: str, *, snapshot: bool = True) -> RepairPlan:
    """How to repair the mirror of a core topic. Raises RefusalError: when no source mirrors that topic."""
    for source in sources:
        for table in source.tables if names.is_mirrored(source) else ():
            if names.topic(source, table) == topic:
                state = _state_of(Chain(platform, source), topic)
                again = any(finding.kind in _AGAIN for finding in state.findings)
                unread = "" if takes(source) else _BY_HAND.format(source=source.name, table=names.table_name(table))
                large = tuple(find_uncarried(Chain(platform, source), table)) if any(state.waiting.values()) and not again else ()
                return RepairPlan(source, table, state, again, snapshot and not unread, unread, large)
    mirrored = ", ".join(names.topic(s, t) for s in sources if names.is_mirrored(s) for t in s.tables)
    raise RefusalError(f"no source mirrors topic {topic}; mirrored are: {mirrored or 'none'}")


def repair(platform: Platform, chosen: RepairPlan, say: Say) -> MirrorState:
    """Do it, and look again.
    Raises RefusalError: when the topic is not there to be mirrored; CdcAssetsError: from a step that failed; the repair may be
    asked for again."""
    source, topic = chosen.source, chosen.state.topic
    if chosen.steps:
        refuse_write(source, f"cdc repair mirror {topic}")
    if chosen.large:
        pass_large_records(Chain(platform, source), chosen.table, say)
    if not chosen.state.repair:
        return _state_of(Chain(platform, source), topic) if chosen.large else chosen.state
    if chosen.state.topic_id is None:
        raise RefusalError(f"topic {topic} is not on the core cluster: let the connector make it again first: cdc apply")
    if chosen.again:
        say(f"copying {topic} again from its begin")
        _forget(Chain(platform, source), topic)
    if chosen.snapshot:
        say(f"reading table {chosen.table.name} again")
        onboarding.begin(source.name, [chosen.table.name], "incremental", again=True)
        onboarding.go_on(platform, source.name, say)
    # The topic as it begins now is the whole one: what is gone before that is no loss of the next look.
    seen, state = load_seen_topics(source.name), platform.core_kafka(source.cluster).states([topic])[topic]
    seen[topic] = SeenTopic(state.topic_id, {partition: begin for partition, (begin, _) in state.ranges.items()})
    save(source.name, seen)
    return _state_of(Chain(platform, source), topic)


def _state_of(chain: Chain[BaseSource], topic: str) -> MirrorState:
    return next(mirrored for mirrored in mirror_states(chain) if mirrored.topic == topic)


def _forget(chain: Chain[BaseSource], topic: str) -> None:
    connect, name = chain.platform.lake_connect(), names.mirror_connector_name(chain.source)
    connect.stop(name)
    try:
        mine = [entry for entry in connect.offsets(name) if entry["partition"]["topic"] == topic]
        if mine:
            connect.patch_offsets(name, [SourceOffset(entry["partition"], None) for entry in mine])
    finally:
        connect.resume(name)
    connect.wait_running(name)
