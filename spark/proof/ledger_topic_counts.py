"""The records of a table's two topics by event-time window (one minute) and kind, counted at the ledger's own cut.

The mirror is counted up to the offsets that silver had folded; MirrorMaker 2 keeps partition and order, so the core
topic is counted for as many records, one by one, since offsets are no count. A run counts on from the ledger's place,
or anew from the first record. Anew is right only while both topics hold every record that silver has folded: where
retention took some, what is booked of the topics stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark.bronze import batch_records
from spark.events import kafka_source as kafka_ranges
from spark.proof.ledger_contract import EARLY, LATE, ON_TIME, TOO_LATE, WINDOW, Counted, LedgerSpec, LedgerTable
from spark.proof.ledger_folds import FoldsToCount
from spark.specs import BronzeSpec, TopicRange
from spark.table.spark_failures import SPARK_FAILURES, is_lost_work


def event_time() -> Expression:
    """When the source changed the row; where a record does not tell (tombstones), Kafka's time of it."""
    return sf.coalesce(sf.col("source_ts"), sf.col("timestamp"))


def window() -> Expression:
    """The start of the row's window, in seconds since 1970."""
    return (sf.floor(sf.unix_micros(event_time()) / (WINDOW * 1_000_000)) * WINDOW).cast("bigint").alias("window")


def pane(before: Expression, after: Expression, allowed_lateness: int) -> Expression:
    """Which trigger fired, by the table's watermark (microseconds) before and after this run (Akidau et al. 2015)."""
    end = (sf.col("window") + WINDOW) * 1_000_000
    return (
        sf.when(end > after, EARLY)
        .when(end > before, ON_TIME)
        .when(end + allowed_lateness * 1_000_000 > before, LATE)
        .otherwise(TOO_LATE)
    )


COUNTS = "window bigint, kind string, n bigint"


@dataclass(frozen=True)
class TransportReach:
    """Up to where both topics of a table are counted, or why they cannot be; as ledger_contract.Counted keeps it."""

    mirror_positions: dict[int, int]
    positions: dict[int, int]
    ids: tuple[str, str]
    uncounted: str = ""
    missing: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Transport:
    """`mirror` and `topic` as `window, kind, n`; None where they cannot be counted, and then `reached` says why."""

    reached: TransportReach
    mirror: DataFrame | None = None
    topic: DataFrame | None = None
    persisted: tuple[DataFrame, ...] = ()

    @property
    def links(self) -> dict[str, DataFrame]:
        """What could be counted, by link."""
        return {name: frame for name, frame in (("mirror", self.mirror), ("topic", self.topic)) if frame is not None}

    def release(self) -> None:
        """Give the memory back."""
        for frame in self.persisted:
            frame.unpersist()


def transport(session: SparkSession, spec: LedgerSpec, table: LedgerTable, cut: FoldsToCount) -> Transport:
    """Both topics of one table from where they were counted to the cut.

    The mirror is counted up to the offsets that silver had folded. MirrorMaker 2 keeps partition and order, so the same
    records are the first as many of the core topic's partition: counted one by one, since offsets are no count (markers
    of transactions and aborted records take offsets, compaction and retention leave holes). As many: what was short of
    them once is looked for again with the next.
    """
    reached, spans = mirror_spans(table, cut)
    if spans is None:
        return Transport(reached)
    try:
        return _count(session, spec, table, spans, reached)
    except SPARK_FAILURES as error:
        if is_lost_work(error):
            raise
        lost = kafka_ranges.lost_range(error, [t for t in (table.mirror, table.topic) if t])
        if lost is None:
            raise
        return Transport(replace(reached, uncounted=str(lost)[:500]))


def mirror_spans(table: LedgerTable, cut: FoldsToCount) -> tuple[TransportReach, dict[int, tuple[int, int]] | None]:
    """The mirror's offsets to count, by partition, and where the topics stand with them; None where they cannot be counted."""
    counted = cut.start
    done = dict(counted.mirror_positions) if counted else {}
    missing = dict(counted.missing) if counted else {}
    reached = TransportReach(done, dict(counted.topic_positions) if counted else {}, _ids(table), missing=missing)
    why = counted.uncounted if counted and counted.uncounted else hindrance(table, counted)
    if table.mirror is None or why:
        return replace(reached, uncounted=why or "this ledger is run without topics"), None
    state = cut.last.topics.get(table.mirror.topic)
    ends = state.positions if state else {}
    spans = {p: (done.get(p, 0), max(end, done.get(p, 0))) for p, end in ends.items()}
    gone = retention_loss(table.mirror, spans)
    if gone:
        return replace(reached, uncounted=gone), None
    return replace(reached, mirror_positions={**done, **{p: end for p, (_, end) in spans.items()}}), spans


def topic_spans(table: LedgerTable, reached: TransportReach, wanted: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The core topic's offsets among which so many records of each partition are looked for."""
    assert table.topic is not None
    positions = reached.positions
    return {p: (positions.get(p, 0), max(end, positions.get(p, 0))) for p, (_, end) in table.topic.ranges.items() if p in wanted}


def hindrance(table: LedgerTable, counted: Counted | None) -> str:
    """Why the two topics are not those that were counted, or cannot be counted at all; empty: nothing is in the way."""
    if table.compacted:
        return f"topic {table.compacted} is compacted: records of a key vanish, and no offset tells that they were there"
    if counted is None:
        return ""
    for layer, before, now in zip(("core", "mirrored"), counted.topic_ids, _ids(table), strict=True):
        if before and now and before != now:
            return f"the {layer} topic was recreated: its id is {now}, {before} was counted"
    return ""


def _ids(table: LedgerTable) -> tuple[str, str]:
    return (table.topic.topic_id if table.topic else "", table.mirror.topic_id if table.mirror else "")


def retention_loss(topic: TopicRange, spans: Mapping[int, tuple[int, int]]) -> str:
    """Which records retention has removed before they were counted; empty: none."""
    for partition, (start, end) in spans.items():
        begin = topic.ranges.get(partition, (0, 0))[0]
        if begin > start and end > start:
            return (
                f"{topic.topic} partition {partition}: retention removed offsets {start} to {begin - 1} before they were counted"
            )
    return ""


def _count(
    session: SparkSession, spec: LedgerSpec, table: LedgerTable, spans: Mapping[int, tuple[int, int]], reached: TransportReach
) -> Transport:
    assert table.mirror is not None
    empty = session.createDataFrame([], COUNTS)
    mirror = _narrow(session, spec, (spec.lake_bootstrap, spec.lake_login), replace(table.mirror, ranges=dict(spans)))
    if mirror is None:
        return Transport(reached, empty, None if table.topic is None else empty)
    mirrored = mirror.groupBy("partition", "window", "kind").agg(sf.count("*").alias("n")).persist()
    to_find = Counter({r.partition: r.n for r in mirrored.groupBy("partition").agg(sf.sum("n").alias("n")).collect()})
    to_find.update(reached.missing)
    transport = Transport(reached, mirrored.groupBy("window", "kind").agg(sf.sum("n").alias("n")), persisted=(mirrored,))
    if table.topic is None:
        return transport
    ranges = topic_spans(table, reached, to_find)
    gone = retention_loss(table.topic, ranges)
    if gone:
        return replace(transport, reached=replace(reached, uncounted=gone))
    core = _narrow(session, spec, (spec.core_bootstrap, spec.core_login), replace(table.topic, ranges=ranges))
    if core is None:
        return replace(transport, reached=replace(reached, missing=dict(+to_find)), topic=empty)
    order = Window.partitionBy("partition").orderBy("offset")
    wished = sf.create_map(*[sf.lit(x) for pair in to_find.items() for x in pair])[sf.col("partition")]
    first = core.withColumn("number", sf.row_number().over(order)).where(sf.col("number") <= wished).persist()
    by_partition = first.groupBy("partition").agg(sf.max("offset").alias("last"), sf.count("*").alias("n")).collect()
    to_find.subtract({r.partition: r.n for r in by_partition})
    positions = {**reached.positions, **{r.partition: r.last + 1 for r in by_partition}}
    topic = first.groupBy("window", "kind").agg(sf.count("*").alias("n"))
    return replace(
        transport, reached=replace(reached, positions=positions, missing=dict(+to_find)), topic=topic, persisted=(mirrored, first)
    )


def _narrow(session: SparkSession, spec: LedgerSpec, cluster: tuple[str, str], topic: TopicRange) -> DataFrame | None:
    filled = {p: r for p, r in topic.ranges.items() if r[1] > r[0]}
    if not filled:
        return None
    ranges = [replace(topic, ranges=filled)]
    bootstrap, login = cluster
    source = BronzeSpec(spec.bronze_path, bootstrap, tuple(ranges), "ledger", spec.kafka_options, login)
    drafts = batch_records.drafts(kafka_ranges.read(session, source, ranges), ranges)
    return drafts.select("partition", "offset", window(), "kind")


@dataclass(frozen=True)
class Links:
    """The topics' counts; `anew`: of all records, not of the new ones. `kept`: why they could not be counted so."""

    moved: Transport
    anew: bool = False
    kept: str = ""


def count_links(session: SparkSession, spec: LedgerSpec, table: LedgerTable, cut: FoldsToCount, before: Counted | None) -> Links:
    """Up to the cut. `before` is the ledger's place, whatever is counted anew in the lake.

    They are counted on from the ledger's place, or anew from their first record. Anew is right only while both topics
    hold every record that silver has folded; where retention took some, what is booked of the topics stays, and the
    count goes on behind it.
    """
    kept = ""
    if before is not None and spec.again:
        kept = _not_whole(table, before, cut)
        if not kept:
            moved = transport(session, spec, table, replace(cut, start=None))
            if not moved.reached.uncounted:
                return Links(moved, anew=True)
            kept = moved.reached.uncounted
            moved.release()
    return Links(transport(session, spec, table, replace(cut, start=before)), kept=kept)


def _not_whole(table: LedgerTable, before: Counted, cut: FoldsToCount) -> str:
    """Why the topics cannot be counted from their first record; empty: they can."""
    if table.mirror is None:
        return "this ledger is run without topics"
    if why := hindrance(table, before):
        return why
    state = cut.last.topics.get(table.mirror.topic)
    if state is not None and state.before:
        return f"{table.mirror.topic} is not the first topic of the table: the records of those before it are gone"
    ranges = [(t.topic, p, begin) for t in (table.mirror, table.topic) if t for p, (begin, _) in sorted(t.ranges.items())]
    begun = [f"{topic} partition {p} begins at offset {begin}" for topic, p, begin in ranges if begin > 0]
    return f"{begun[0]}: retention removed what was before" if begun else ""
