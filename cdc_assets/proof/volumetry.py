"""Exact counts along the chain: committed records in topic, mirror and bronze at one cut while records keep coming, with a
digest of their order and bytes, and the rows that the connector says to have read.

Offsets are no count, so records are read, each once in its life; a record lost in the middle shows even when others have
come since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.capture.connectors.debezium_signals import FINE, INITIAL, KeptNotifications, read_notifications
from cdc_assets.clients.delta_log import bronze_committed, bronze_rows
from cdc_assets.clients.kafka import KafkaCluster, Record, TopicState
from cdc_assets.clients.kafka import TopicState as Topic
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, ServiceError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.commit_metadata import CommittedTopic

_EMPTY_DIGEST = "0" * 16


@dataclass(frozen=True)
class PartitionTally:
    """`records` committed records lie between `first` and `next_offset`; `digest` is over their keys and values."""

    first: int
    next_offset: int
    records: int = 0
    digest: str = _EMPTY_DIGEST


class _Count:
    """A partition's tally that goes on. One that is made anew for each record, its digest a text, takes twice as long."""

    def __init__(self, begun: PartitionTally) -> None:
        self.first, self.next_offset, self.records = begun.first, begun.next_offset, begun.records
        self._digest = bytes.fromhex(begun.digest)

    def add(self, record: Record) -> None:
        """Take in one more record."""
        chained = self._digest
        for piece in (record.key, record.value):
            chained += b"-" if piece is None else b"%d:%b" % (len(piece), piece)
        self._digest = hashlib.blake2b(chained, digest_size=8).digest()
        self.next_offset = record.offset + 1
        self.records += 1

    def tally(self, at_least: int = 0) -> PartitionTally:
        """What it is now; behind the last record an offset may be known that lies further."""
        return PartitionTally(self.first, max(self.next_offset, at_least), self.records, self._digest.hex())


@dataclass(frozen=True)
class TopicTally:
    """The tallies of a topic's partitions, for one incarnation of the topic (its id).

    `end offset - begin offset` is no count: control records of transactions, aborted records and compaction all take offsets. A
    tally is kept per partition and goes on where it stopped, so that each record is read once in its life. The digest chains
    over key and value in order: two partitions with equal `(records, digest)` hold the same records in the same order, which is
    how a mirror is compared with its origin while both move.
    """

    topic: str
    topic_id: str
    partitions: Mapping[int, PartitionTally] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Committed records over all partitions."""
        return sum(tally.records for tally in self.partitions.values())

    def to_json(self) -> dict[str, Any]:
        """The tally as asset metadata keeps it, in JSON."""
        parts = {str(p): [t.first, t.next_offset, t.records, t.digest] for p, t in self.partitions.items()}
        return {"topic": self.topic, "topic_id": self.topic_id, "partitions": parts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TopicTally:
        """The tally that `to_json` wrote into asset metadata."""
        parts = {int(p): PartitionTally(*values) for p, values in data["partitions"].items()}
        return cls(data["topic"], data["topic_id"], parts)


def advance_to_offsets(cluster: KafkaCluster, tally: TopicTally, ends: Mapping[int, int]) -> TopicTally:
    """Count on to the offsets `ends`; every partition in `ends` has a tally already."""
    current = {p: _Count(tally.partitions[p]) for p in ends}
    ranges = {p: (current[p].next_offset, end) for p, end in ends.items()}
    for record in cluster.records(tally.topic, ranges):
        current[record.partition].add(record)
    done = {p: count.tally(ends[p]) for p, count in current.items()}
    return TopicTally(tally.topic, tally.topic_id, {**tally.partitions, **done})


def advance_to_counts(
    cluster: KafkaCluster, tally: TopicTally, ends: Mapping[int, int], *, counts: Mapping[int, int]
) -> TopicTally:
    """Count on until each partition has `counts` records, but not past the offsets `ends`."""
    current = {p: _Count(tally.partitions[p]) for p in ends}
    ranges = {p: (current[p].next_offset, end) for p, end in ends.items() if current[p].records < counts.get(p, 0)}
    for record in cluster.records(tally.topic, ranges):
        if current[record.partition].records < counts[record.partition]:
            current[record.partition].add(record)
    done = {p: count.tally() for p, count in current.items()}
    return TopicTally(tally.topic, tally.topic_id, {**tally.partitions, **done})


@dataclass(frozen=True)
class TransportCount:
    """Records up to the cut in each link, and what differs (empty: nothing)."""

    topic_records: int
    mirror_records: int
    bronze_rows: int
    differences: tuple[str, ...]
    topic: TopicTally
    mirror: TopicTally
    judged: bool = True
    """Whether it was compared with what the source has declared, or need not be (declared_rows)."""

    @property
    def equal(self) -> bool:
        """All three links hold the same records."""
        return not self.differences


@dataclass(frozen=True)
class TopicAtCluster:
    """A topic as it was looked at, and the cluster that it can be read from."""

    cluster: KafkaCluster
    state: TopicState


@dataclass(frozen=True)
class BronzeCut:
    """What bronze has committed of a mirror: by partition the offset on the lake's cluster, and how many rows are below it."""

    offsets: Mapping[int, int]
    rows: Mapping[int, int]


def count_transport(
    *, core: TopicAtCluster, lake: TopicAtCluster, bronze: BronzeCut, previous: tuple[TopicTally, TopicTally] | None
) -> TransportCount:
    """Compare one table's topic, mirror and bronze at bronze's cut.

    `previous` are the tallies of the last comparison; they are a cache: without them both topics are counted from their
    beginning.

    The cut is what bronze has committed. The mirror is counted up to exactly those offsets; then the core topic is counted up
    to the same number of records. MirrorMaker 2 keeps partition and order, so the first n records of the mirror must be the
    first n of the topic, byte for byte (count and digest): a record lost in the middle shows even when others have come since.
    Bronze's rows are counted in the Delta table by a reader that is not Spark.
    """
    cut = bronze.offsets
    topic, mirror = _starting_tallies(core.state, lake.state, cut, previous)
    mirror = advance_to_offsets(lake.cluster, mirror, {p: max(end, mirror.partitions[p].next_offset) for p, end in cut.items()})
    counts = {p: tally.records for p, tally in mirror.partitions.items()}
    ends = {p: end for p, end in core.state.ends.items() if p in topic.partitions}
    topic = advance_to_counts(core.cluster, topic, ends, counts=counts)
    differences = tuple(
        f"partition {p}: {difference}" for p in sorted(cut) for difference in _differences(p, topic, mirror, bronze)
    )
    return TransportCount(topic.records, mirror.records, sum(bronze.rows.get(p, 0) for p in cut), differences, topic, mirror)


def _differences(partition: int, topic: TopicTally, mirror: TopicTally, bronze: BronzeCut) -> Iterator[str]:
    """What does not agree in one partition, in words."""
    here, there = topic.partitions[partition], mirror.partitions[partition]
    cut, rows = bronze.offsets[partition], bronze.rows.get(partition, 0)
    if there.next_offset != cut:
        yield f"bronze is at offset {cut}, already counted up to {there.next_offset}: bronze went back"
    if there.first == 0 and rows != there.records:
        counted = quantity(there.records, "committed record")
        yield f"{counted} in {mirror.topic} below offset {cut}, {quantity(rows, 'row')} in bronze"
    if here.records < there.records:
        yield f"{quantity(there.records, 'record')} in {mirror.topic}, only {here.records} in {topic.topic}"
    elif here.digest != there.digest:
        yield (
            f"the first {quantity(there.records, 'record')} of {mirror.topic} are not those of {topic.topic} "
            f"(digest {there.digest} against {here.digest}): a record was lost, doubled or changed on the way"
        )


def _starting_tallies(
    core_state: TopicState, lake_state: TopicState, cut: Mapping[int, int], previous: tuple[TopicTally, TopicTally] | None
) -> tuple[TopicTally, TopicTally]:
    if previous is not None:
        topic, mirror = previous
        same = topic.topic_id == core_state.topic_id and mirror.topic_id == lake_state.topic_id
        if same and set(cut) <= set(mirror.partitions) and all(mirror.partitions[p].next_offset <= cut[p] for p in cut):
            return topic, mirror
    return _from_beginning(core_state, cut), _from_beginning(lake_state, cut)


def _from_beginning(state: TopicState, cut: Mapping[int, int]) -> TopicTally:
    for partition in cut:
        begin = state.ranges[partition][0]
        if begin > 0:
            raise ServiceError(
                f"{state.name} partition {partition} begins at offset {begin}: retention has removed records that no "
                "earlier comparison had counted, so its records can no longer be counted from the beginning"
            )
    return TopicTally(state.name, state.topic_id, {p: PartitionTally(0, 0) for p in cut})


@dataclass(frozen=True)
class DeclaredRows:
    """Rows of a table that a whole snapshot has read; every record of them was sent before `until_ms`."""

    rows: int
    until_ms: int


@dataclass(frozen=True)
class Declarations:
    """By table (`schema.table`), the newest. `complete`: nothing is to be waited for.

    A topic that lost its first records before anybody read it tells nothing of them where its offsets begin at 0 again: it was
    deleted and made again, or the copy began late. But Debezium says how many rows a snapshot has read. Bronze counts its
    records by op anyhow, so a comparison costs one look at the notification topic, until the first one could be made.

    An incremental snapshot declares rows too, but leaves out those that change while it reads. Its rows are not counted here.
    But one of a whole table, by `cdc snapshot`, has read again what was lost: what was declared before it is not asked for any
    more, as the table may have fewer rows by then.
    """

    of_tables: Mapping[str, DeclaredRows] = field(default_factory=dict)
    complete: bool = True

    def judge(
        self,
        count: TransportCount,
        core: KafkaCluster,
        topic: Topic,
        held: CommittedTopic | None,
        *,
        of: tuple[BaseSource, Table],
    ) -> TransportCount:
        """The count with what bronze (`held`) lacks of the snapshot; not `judged` while records may still be on their way.

        `topic` was looked at after the declarations were read. Bronze's later epochs begin with a reading of their own.
        """
        source, table = of
        declared = self.of_tables.get(".".join(table.id))
        if declared is None or held is None or held.epoch:
            return replace(count, judged=self.complete)
        if _are_on_their_way(count, core, topic, declared):
            return replace(count, judged=False)
        there = held.by_op.get("r", 0)
        if there >= declared.rows:
            return count
        lost = (
            f"a snapshot has read {quantity(declared.rows, 'row')} of the table, and bronze has {quantity(there, 'record')} by "
            "a snapshot: the others were lost before the first read (a topic made again, a copy that began late); "
            f"to read them: cdc snapshot {source.name} {table.name}"
        )
        return replace(count, differences=(*count.differences, lost))


def _are_on_their_way(count: TransportCount, core: KafkaCluster, topic: Topic, declared: DeclaredRows) -> bool:
    """Whether a record that bronze does not have may be of the snapshot: it was sent before the snapshot's end."""
    for partition, tally in count.topic.partitions.items():
        ahead = {partition: (tally.next_offset, topic.ends.get(partition, 0))}
        record = next(iter(core.records(topic.name, ahead)), None)
        if record is not None and record.timestamp <= declared.until_ms:
            return True
    return False


def declarations(notifications: KeptNotifications | None) -> Declarations:
    """From what the connector has said until now, if it says anything anywhere: of whole snapshots, and tables read again.

    Only a snapshot that has ended counts: its last rows are sent at its end.
    """
    if notifications is None:
        return Declarations()
    declared: dict[str, DeclaredRows] = {}
    read: dict[str, int] = {}
    ended = False
    for notification in notifications.said:
        if notification.is_table_again:
            declared[notification.table] = DeclaredRows(0, notification.at_ms)
        elif notification.aggregate != INITIAL:
            continue
        elif notification.table and notification.tells_rows and notification.data.get("status") in FINE:
            read[notification.table] = notification.rows
        elif notification.type == "COMPLETED":
            declared |= {table: DeclaredRows(rows, notification.at_ms) for table, rows in read.items()}
            read, ended = {}, True
        elif notification.type in ("STARTED", "ABORTED"):
            read = {}
    return Declarations(declared, ended)


@dataclass(frozen=True)
class EarlierCount:
    """What the last comparison of a table had counted, and whether it was `judged` by then."""

    topic: TopicTally
    mirror: TopicTally
    judged: bool = True


Previous = Mapping[str, EarlierCount]


def measure_transport(
    chain: Chain[BaseSource], tables: Sequence[Table], *, previous: Previous
) -> dict[str, TransportCount | CdcAssetsError]:
    """Topic = mirror = bronze, by short table name; an error where a table cannot be counted."""
    path = chain.bronze_path
    committed = bronze_committed(path)
    epochs = {topic: state.topic_epoch for topic, state in committed.topics.items() if state.topic_epoch} if committed else {}
    rows = bronze_rows(path, committed.version, epochs) if committed else {}
    lake = chain.platform.lake_kafka()
    core = chain.platform.core_kafka(chain.source.cluster) if names.is_mirrored(chain.source) else lake
    unjudged = {short for short in map(names.table_name, tables) if short not in previous or not previous[short].judged}
    # Before the topics are looked at: what is declared is in them.
    declared = declarations(read_notifications(core, [chain.source]).get(chain.source.name)) if unjudged else Declarations()
    core_states = core.states([names.topic(chain.source, table) for table in tables])
    lake_states = lake.states([names.lake_topic(chain.source, table) for table in tables])
    results: dict[str, TransportCount | CdcAssetsError] = {}
    for table in tables:
        topic, mirrored = names.topic(chain.source, table), names.lake_topic(chain.source, table)
        short = names.table_name(table)
        try:
            for name, states, cluster in ((topic, core_states, core), (mirrored, lake_states, lake)):
                if name not in states:
                    raise CdcAssetsError(f"topic {name} does not exist at {cluster.bootstrap}")
            at = committed.topics.get(mirrored) if committed else None
            cut = dict(at.positions) if at else {}
            before = previous.get(short)
            count = count_transport(
                core=TopicAtCluster(core, core_states[topic]),
                lake=TopicAtCluster(lake, lake_states[mirrored]),
                bronze=BronzeCut(cut, {p: rows.get((mirrored, p), 0) for p in cut}),
                previous=(before.topic, before.mirror) if before else None,
            )
            judge = short in unjudged
            results[short] = declared.judge(count, core, core_states[topic], at, of=(chain.source, table)) if judge else count
        except CdcAssetsError as error:
            results[short] = error
    return results
