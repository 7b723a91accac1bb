"""The records of a batch, from Kafka's columns to bronze's: what their envelopes say, when they happened, their
positions, and their counts.

Each record is parsed once, by its topic's envelope; then the batch is counted in small groups, which is what really
reads Kafka, so lost ranges show here. PostgreSQL's changes without a last commit are anchored at the snapshot before
their transaction, which bronze's commits remember, so that a second delivery cannot raise them. A row that is loaded
again, from a source that gives such rows no place, takes the highest place before it in its partition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError
from spark.events import kafka_source as kafka_ranges
from spark.events import positions, postgresql_positions
from spark.events.avro_records import heads, schema_ids
from spark.events.envelope import Narrow, kind
from spark.events.record_readers import connector, envelope
from spark.record_formats import ANCHOR_HEADER
from spark.specs import TopicRange
from spark.table.commit_metadata import Committed, TopicCommit
from spark.table.topic_commits import SchemaIds, merge_ids

TopicPartition = tuple[str, int]
Snapshots = dict[TopicPartition, list[tuple[int, int]]]
"""By topic and partition: the first offset and the LSN of each."""
Openings = dict[TopicPartition, dict[str, int]]
"""By topic and partition: the LSN of the newest snapshot before each such transaction, 0 where there was none."""


class Last(NamedTuple):
    """The last event of a group."""

    offset: int
    position: str


class Group(NamedTuple):
    """Records of one topic, partition, kind, initial snapshot, and transaction of changes without a last commit.

    `min_timestamp` is in microseconds; `highest` and `last` are None where no record has a position, `schema_ids` where the
    records are not framed.
    """

    topic: str
    partition: int
    kind: str
    initial: int | None
    records: int
    first_offset: int
    min_timestamp: int
    highest: str | None
    last: Last | None
    opening: str | None = None
    unanchored: int = 0
    schema_ids: SchemaIds | None = None
    size: int = 0
    """Bytes of keys and values, where Spark has counted."""


def assign_positions(drafts: DataFrame, groups: Sequence[Group], committed: Committed) -> tuple[DataFrame, Openings]:
    """The batch with every event's final position, and what its commit must say for the next ones.

    A change without a last commit (spark.events.postgresql_positions) is of the first transaction that its connector
    streamed behind an initial snapshot, and stands behind the newest one before it in its partition. A stretch that is
    delivered again may bring it behind a later snapshot, above which it must not rise: so which transactions these
    were, and the snapshot before each, goes on in bronze's commits. They are few, one per start of a connector without
    offsets; a source whose events do not name their transaction has only the order of the log.
    """
    snapshots = _snapshots(groups, committed)
    openings = _openings(groups, snapshots, committed)
    if not snapshots:
        return drafts, openings
    of = postgresql_positions.RecordPlace(sf.col("topic"), sf.col("partition"), sf.col("offset"), sf.col("tx_id"))
    lsn = sf.col("lsn")
    own = postgresql_positions.anchor(lsn, of, snapshots=snapshots, openings=openings)
    final = postgresql_positions.place(anchor=sf.coalesce(sf.col("last_commit"), own), op=sf.col("op"), lsn=lsn)
    position = positions.position(epoch=sf.col("epoch"), place=final, offset=sf.col("offset"))
    # A snapshot's row stands where it was taken, wherever it is delivered again.
    changed = lsn.isNotNull() & ~sf.col("op").eqNullSafe("r")
    return drafts.withColumn("position", sf.when(changed, position).otherwise(sf.col("position"))), openings


def _openings(groups: Sequence[Group], snapshots: Snapshots, committed: Committed) -> Openings:
    """Of the batch; what earlier commits know of a transaction holds."""
    begun: dict[TopicPartition, dict[str, int]] = defaultdict(dict)
    for group in groups:
        if group.unanchored and group.opening is not None:
            openings = begun[group.topic, group.partition]
            openings[group.opening] = min(group.first_offset, openings.get(group.opening, group.first_offset))
    return {partition: _anchors(partition, firsts, snapshots, committed) for partition, firsts in begun.items()}


def _anchors(partition_key: TopicPartition, firsts: dict[str, int], snapshots: Snapshots, committed: Committed) -> dict[str, int]:
    topic, partition = partition_key
    state = committed.topics.get(topic)
    openings = state.openings.get(partition, {}) if state is not None else {}

    def before(offset: int) -> int:
        return max((lsn for first, lsn in snapshots.get(partition_key, ()) if first < offset), default=0)

    return {tx: openings.get(tx, before(first)) for tx, first in firsts.items()}


def _snapshots(groups: Sequence[Group], committed: Committed) -> Snapshots:
    """Initial snapshots, where a change needs one as its anchor; empty in nearly every batch."""
    needing = {(g.topic, g.partition) for g in groups if g.unanchored}
    snapshots: Snapshots = defaultdict(list)
    for topic, partition in needing:
        state = committed.topics.get(topic)
        if state is not None and partition in state.snapshots:
            snapshots[topic, partition].append((-1, state.snapshots[partition]))
    for group in groups:
        if group.initial is not None and (group.topic, group.partition) in needing:
            snapshots[group.topic, group.partition].append((group.first_offset, group.initial))
    return dict(snapshots)


_KIND = len(f".{positions.SNAPSHOT}")
_CLOCKS_DIFFER_MS = 60_000


def reposition_reloads(
    drafts: DataFrame, groups: Sequence[Group], topics: Sequence[TopicRange], committed: Committed
) -> DataFrame:
    """The batch with the places of rows loaded again; as it was where there are none.

    For attunity and mongodb of spark.events.source_positions. A row of a full load stands below every change, which is
    right for the first load only. A row loaded after changes was read after them, so it takes the highest place before
    it in its topic partition, and its later offset puts it above. The changes that follow a load carry higher places
    and win, whether the row already held them or not: they end in the same state. What came before is in the log's own
    commits, so a place does not depend on how the log was cut into batches.

    A mirror that begins anew delivers rows of an old snapshot behind all changes, which they do not hold. Their records
    have the time at which they were sent: a row that is older than the change before it, by more than clocks differ,
    stays below every change.
    """
    kinds = {t.topic: connector(t.connector) for t in topics}
    first = {topic: kind.first_load[:-_KIND] for topic, kind in kinds.items()}
    loading = {g.topic for g in groups if g.kind == "r" and first[g.topic]}
    reached = {t: committed.topics[t].max_position for t in sorted(loading) if t in committed.topics}
    begun = {t for t, highest in reached.items() if any(_order(p, first[t]) > first[t] for p in highest.values())}
    again = loading & ({g.topic for g in groups if g.kind in ("c", "u", "d")} | begun)
    if not again:
        return drafts
    earlier = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    highest = sf.greatest(sf.max("position").over(earlier), _by_partition({t: reached[t] for t in reached if t in again}))
    position = sf.col("position")
    for source_kind in {kinds[topic].name: kinds[topic] for topic in sorted(again)}.values():
        zeros = source_kind.first_load[:-_KIND]
        order = sf.substring(highest, positions.EPOCH_WIDTH + 2, len(zeros))
        reload_place = positions.join_parts(order, sf.lit(positions.STREAMED))
        is_again = sf.col("topic").isin(*[t for t in again if kinds[t] is source_kind]) & (sf.col("op") == "r") & (order > zeros)
        if source_kind.moment is not None:
            is_again &= source_kind.moment(order) <= sf.unix_millis("timestamp") + _CLOCKS_DIFFER_MS
        final = positions.position(epoch=sf.col("epoch"), place=reload_place, offset=sf.col("offset"))
        position = sf.when(is_again, final).otherwise(position)
    return drafts.withColumn("position", position)


def _order(position: str, zeros: str) -> str:
    """A position's place less the kind that it ends with."""
    return position[positions.EPOCH_WIDTH + 1 :][: len(zeros)]


def _by_partition(positions_by_topic: dict[str, dict[int, str]]) -> Column:
    pairs = [
        x for topic, highest in positions_by_topic.items() for p, position in highest.items() for x in (f"{topic}/{p}", position)
    ]
    if not pairs:
        return sf.lit(None).cast("string")
    return sf.create_map(*map(sf.lit, pairs))[sf.concat_ws("/", "topic", "partition")]


class Reach(NamedTuple):
    """The highest position of a partition, and that of its last event."""

    highest: str
    last: str


def count_groups(drafts: DataFrame, topics: Sequence[TopicRange]) -> list[Group]:
    """The groups of a batch; spark.bronze.part_files counts those of records in Arrow.

    Groups are small. Counting is what really reads Kafka, so this is where lost ranges show.
    """
    initial = sf.when((sf.col("op") == "r") & sf.col("last_commit").isNull(), sf.col("lsn"))
    unanchored = (sf.col("op") != "r") & sf.col("last_commit").isNull() & sf.col("lsn").isNotNull()
    opening = sf.when(unanchored, sf.col("tx_id"))
    framed = any(envelope(t.envelope).framed for t in topics)
    grouped = drafts.groupBy("topic", "partition", "kind", initial.alias("initial"), opening.alias("opening")).agg(
        sf.count("*").alias("records"),
        sf.min("offset").alias("first_offset"),
        sf.unix_micros(sf.min("timestamp")).alias("min_timestamp"),
        sf.count_if(unanchored).alias("unanchored"),
        sf.sum(sum((sf.coalesce(sf.octet_length(name), sf.lit(0)) for name in ("key", "value")), sf.lit(0))).alias("size"),
        *_reach(),
        *(heads() if framed else ()),
    )
    with kafka_ranges.losses_named(topics):
        rows = grouped.collect()
    names = [name for name in Group._fields if name not in ("last", "schema_ids")]
    return [
        Group(
            **{name: row[name] for name in names},
            last=None if row.last is None else Last(*row.last),
            schema_ids=schema_ids([row]) if framed else None,
        )
        for row in rows
    ]


def unknown_schemas(
    groups: Sequence[Group], topics: Sequence[TopicRange], schema_ids_by_topic: Mapping[str, SchemaIds | None]
) -> bool:
    """Whether there are records of a topic with a schema that nobody knew of when they were read."""
    for topic in topics:
        known_ids = schema_ids_by_topic.get(topic.topic)
        if known_ids is not None and envelope(topic.envelope).framed:
            batch_ids = _batch_ids([g for g in groups if g.topic == topic.topic]) or {}
            if any(set(ids) - set(known_ids[side]) for side, ids in batch_ids.items()):
                return True
    return False


def _batch_ids(groups: Sequence[Group]) -> SchemaIds | None:
    """The schemas that occur in these groups of one topic; no ids where it has no records."""
    return merge_ids([{}, *(group.schema_ids for group in groups)])


def position(place: Column) -> Column:
    """The position of a record of the batch whose place is known."""
    return positions.position(epoch=sf.col("epoch"), place=place, offset=sf.col("offset"))


def _reach() -> list[Column]:
    last = sf.max(sf.when(sf.col("position").isNotNull(), sf.struct("offset", "position")))
    return [sf.max("position").alias("highest"), last.alias("last")]


def _reaches(groups: Sequence[Group], events: DataFrame | None) -> dict[TopicPartition, Reach]:
    rows: Sequence[Group | Row] = groups
    if events is not None:
        rows = events.groupBy("topic", "partition").agg(*_reach()).collect()
    highest: dict[TopicPartition, str] = {}
    last: dict[TopicPartition, tuple[int, str]] = {}
    for row in rows:
        if row.highest is not None and row.last is not None:
            partition = (row.topic, row.partition)
            highest[partition] = max(highest.get(partition, ""), row.highest)
            last[partition] = max(last.get(partition, (-1, "")), (row.last.offset, row.last.position))
    return {partition: Reach(highest[partition], last[partition][1]) for partition in highest}


def shares(
    todo: Sequence[TopicRange], groups: Sequence[Group], events: DataFrame | None = None, openings: Openings | None = None
) -> dict[str, TopicCommit]:
    """Each topic's share of the append, as its commit will say it; `events` where the drafts' positions were not final."""
    reaches, begun = _reaches(groups, events), openings or {}
    by_topic = {}
    for topic in todo:
        own = [g for g in groups if g.topic == topic.topic]
        by_op: Counter[str] = Counter()
        snapshots: dict[int, int] = {}
        for group in own:
            by_op[group.kind] += group.records
            if group.initial is not None:
                snapshots[group.partition] = max(group.initial, snapshots.get(group.partition, 0))
        reach = {p: reaches[topic.topic, p] for p in topic.ranges if (topic.topic, p) in reaches}
        by_topic[topic.topic] = TopicCommit(
            table=topic.table,
            topic_id=topic.topic_id,
            epoch=topic.epoch,
            ranges=dict(topic.ranges),
            records=sum(by_op.values()),
            by_op=dict(by_op),
            max_position={p: r.highest for p, r in reach.items()},
            last_position={p: r.last for p, r in reach.items()},
            snapshots=snapshots,
            openings={p: begun[topic.topic, p] for p in topic.ranges if (topic.topic, p) in begun},
            min_timestamp=min((g.min_timestamp for g in own), default=None),
            schema_ids=_batch_ids(own) if envelope(topic.envelope).framed else None,
        )
    return by_topic


_MICROS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
FORMS = ("iso", *_MICROS)
_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59"


def event_times(topics: Sequence[TopicRange], envelope_time: Column) -> Column:
    """The time of each record of these topics; `envelope_time` is what its envelope says.

    A declared field of the record says when an event happened, instead of when Kafka was given the record. It is
    `form:path` (TopicRange.event_time): `iso` texts, or a number of `seconds`, `milliseconds` or `microseconds` since
    1970; the path goes down into objects by dots. A record without it, or with something else there, keeps Kafka's
    time.
    """
    answer = envelope_time
    for topic in topics:
        if topic.event_time:
            answer = sf.when(sf.col("topic") == topic.topic, sf.coalesce(_read(topic.event_time), envelope_time)).otherwise(
                answer
            )
    return answer


def _read(declared: str) -> Column:
    form, _, path = declared.partition(":")
    if form not in FORMS or not path:
        raise JobRefusedError(f"event_time {declared!r} is not form:path with a form of {', '.join(FORMS)}")
    text = sf.get_json_object(sf.col("value").cast("string"), f"$.{path}")
    if form == "iso":
        moment = text.try_cast("timestamp")
    else:
        # No number overflows: one of more digits than fit is null.
        number = sf.floor(text.try_cast("decimal(24,6)") * sf.lit(_MICROS[form])).try_cast("bigint")
        moment = sf.timestamp_micros(number)
    # Beyond these years a timestamp cannot be read by Python, nor be written into a file's bounds.
    return sf.when(moment.between(sf.lit(_FIRST).cast("timestamp"), sf.lit(_LAST).cast("timestamp")), moment)


def drafts(
    records: DataFrame, topics: Sequence[TopicRange], schema_ids_by_topic: Mapping[str, SchemaIds | None] | None = None
) -> DataFrame:
    """One row per record: bronze's columns, and what the positions still depend on.

    `schema_ids_by_topic` are the schemas that the records of a topic may have been written with; without, they are
    looked for first.

    One read may hold topics of several envelopes and kinds of sources: each record is parsed once, by its topic's.
    """
    records, narrows = _parse(records, topics, schema_ids_by_topic or {})

    def of(path: str, missing: str = "string") -> Column:
        values = [(names, attrgetter(path)(narrow)) for names, narrow in narrows]
        present = [(names, value) for names, value in values if value is not None]
        if len(present) == len(values) == 1:
            return present[0][1]
        answer = sf.lit(None).cast(missing)
        for names, value in present:
            answer = sf.when(_among(names), value).otherwise(answer)
        return answer

    op = of("op")
    rows = records.select(
        _by_topic({t.topic: t.table for t in topics}).alias("table"),
        _by_topic({t.topic: t.epoch for t in topics}).alias("epoch"),
        *("topic", "partition", "offset", "timestamp", "headers", "key", "value"),
        op.alias("op"),
        kind(op, sf.col("value")).alias("kind"),
        sf.coalesce(sf.when(op == "r", _anchor()), of("place.last_commit", "bigint")).alias("last_commit"),
        of("place.lsn", "bigint").alias("lsn"),
        of("place.text").alias("place"),
        of("tx_id").alias("tx_id"),
        event_times(topics, of("source_ts", "timestamp")).alias("source_ts"),
        of("snapshot").alias("snapshot"),
    )
    # From columns, in a projection of its own: Spark works an expression anew at each place that names it (ADR 71).
    anchor = sf.coalesce("last_commit", "lsn")
    row_place = sf.coalesce(postgresql_positions.place(anchor=anchor, op=sf.col("op"), lsn=sf.col("lsn")), sf.col("place"))
    return rows.withColumn("position", position(row_place)).drop("place")


def _parse(
    records: DataFrame, topics: Sequence[TopicRange], schema_ids_by_topic: Mapping[str, SchemaIds | None]
) -> tuple[DataFrame, list[tuple[list[str], Narrow]]]:
    """The records with a column for each form that they come in, and by the topics of a form what it says of a record."""
    forms: dict[tuple[str, str, str | None], list[str]] = {}
    for topic in topics:
        forms.setdefault((topic.envelope, topic.connector, topic.schema_registry), []).append(topic.topic)
    narrows: list[tuple[list[str], Narrow]] = []
    for number, ((form, source, registry), names) in enumerate(forms.items()):
        ids = merge_ids([schema_ids_by_topic.get(name) for name in names])
        form_, source_ = envelope(form).prepare(records.where(_among(names)), registry, ids), connector(source)
        parsed = form_.parse(source_)
        records = records.withColumn(f"parsed_{number}", parsed if len(forms) == 1 else sf.when(_among(names), parsed))
        narrows.append((names, form_.narrow(sf.col(f"parsed_{number}"), source_)))
    return records, narrows


def _anchor() -> Column:
    """The commit behind which a row of a temporary connector stands, as its header says; null for all others.

    Such rows are read while the source's own connector streams on from that commit with their table in it: whatever it
    has streamed since is as new as the row or newer, and its own LSN would rank it above changes it does not contain.
    """
    named = sf.filter(sf.col("headers"), lambda header: header["key"] == ANCHOR_HEADER)
    return sf.get(named, sf.lit(0))["value"].cast("string").try_cast("bigint")


def _among(topics: Sequence[str]) -> Column:
    return sf.col("topic").isin(*topics)


def _by_topic(values: Mapping[str, object]) -> Column:
    return sf.create_map(*[sf.lit(x) for x in chain.from_iterable(values.items())])[sf.col("topic")]
