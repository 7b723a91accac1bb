"""The slices of many small tables counted together: bronze's rows by one query of Spark's, both clusters' topics by one
reading each, all else by Arrow here.

It counts what spark.proof.ledger_job counts slice by slice, of tables and records that are plain: a table with a key,
nothing of it ever in quarantine, no event late, no TRUNCATE. A table that is not plain is left to Spark
(LeftToSparkError), with nothing booked of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.change_log import all_floors
from spark.bronze.narrow_columns import CONNECTORS, KNOWN_OPS
from spark.bronze.range_reader import read_ranges
from spark.errors import LeftToSparkError
from spark.events.arrow_records import leave_any, parse_objects
from spark.events.envelope import TOMBSTONE, UNKNOWN
from spark.events.record_readers import connector, envelope
from spark.proof import ledger_rows
from spark.proof.ledger_contract import FATES, WINDOW, LedgerSpec
from spark.proof.ledger_fates import has_rows_of
from spark.proof.ledger_folds import TableSlice, TopicShares, append_times, ends, epochs, highest, oldest_record
from spark.proof.ledger_rows import Booked, place_behind
from spark.proof.ledger_topic_counts import TransportReach, mirror_spans, retention_loss, topic_spans
from spark.silver.arrow_changes import ROW_OPS, decode_keys
from spark.specs import BronzeSpec, TopicRange
from spark.table import spark_plans


def is_plain(table_slice: TableSlice) -> bool:
    """Whether no record of the slice can have another fate than applied, superseded, older and ignored.

    As spark.proof.ledger_fates tells it, of a table with a key, nothing of it ever in quarantine, no event late, no
    TRUNCATE.
    """
    silver, cut = table_slice.table.silver, table_slice.cut
    if table_slice.aside or cut.again or cut.last.quarantined or any(fold.late_events for fold in cut.folds):
        return False
    keyed = bool(silver.keys) and not silver.partial
    is_truncated = silver.truncate == "apply" and any(fold.truncated for fold in cut.folds)
    return keyed and not is_truncated and not envelope(silver.envelope).tombstones_delete(connector(silver.connector))


def plain_fates(table_slice: TableSlice, records: pa.Table) -> list[str]:
    """The fate of each record; `records` have `key, op, is_tombstone, position, place` and `fold`, from 0 on.

    Raises:
        LeftToSparkError: one of them is not plain.
    """
    op, silent = records["op"], pc.or_(records["is_tombstone"], pc.equal(records["op"], "m").fill_null(False))
    if table_slice.table.silver.truncate == "ignore":
        silent = pc.or_(silent, pc.equal(op, "t").fill_null(False))
    is_event = pc.invert(silent)
    leave_any(pc.and_(is_event, pc.invert(pc.is_in(op, value_set=pa.array(ROW_OPS)))), "a record that is no c, u, d or r")
    leave_any(pc.and_(is_event, pc.is_null(records["position"])), "a record without a position")
    fates = np.full(records.num_rows, "ignored", object)
    fates[is_event.to_numpy()] = _of_events(table_slice, records.filter(is_event))
    return list(fates)


def _of_events(table_slice: TableSlice, events: pa.Table) -> list[str]:
    keys = decode_keys(events["key"], table_slice.table.silver)
    for values in keys:
        # Spark's NaN is one value, Python's is none; and an array cannot be looked up.
        leave_any(pa.array([pa.types.is_floating(values.type) or pa.types.is_nested(values.type)]), "a key of floating point")
    folded_before = highest(table_slice.cut)
    folds, positions = events["fold"].to_pylist(), events["position"].to_pylist()
    rows = list(zip(folds, *(values.to_pylist() for values in keys), strict=True))
    newest: dict[tuple[object, ...], str] = {}
    for row, position in zip(rows, positions, strict=True):
        newest[row] = max(position, newest.get(row, ""))
    fates = []
    for row, position, record_place in zip(rows, positions, events["place"].to_pylist(), strict=True):
        if position <= (folded_before[record_place][row[0]] or ""):
            fates.append("older")
        else:
            fates.append("applied" if position == newest[row] else "superseded")
    return fates


ByWindow = Counter[tuple[int, str]]
"""Records by window (its start, in seconds since 1970) and kind."""
ENVELOPE = "debezium-json"
_SAID = pa.schema([("op", pa.string()), ("source", pa.struct([("ts_us", pa.int64()), ("ts_ms", pa.int64())]))])


@dataclass(frozen=True)
class SmallTransport:
    """As ledger_topic_counts.Transport: the counts of both topics; None where they cannot be counted, and then
    `reached` says why."""

    reached: TransportReach
    mirror: ByWindow | None = None
    topic: ByWindow | None = None


@dataclass(frozen=True)
class _TopicRecords:
    """A topic's records in the order of their offsets: partition, offset, window and kind of each."""

    partitions: np.ndarray
    offsets: np.ndarray
    windows: np.ndarray
    kinds: np.ndarray

    def first(self, wanted: Mapping[int, int]) -> _TopicRecords:
        """So many of each partition, from its first on."""
        kept = np.zeros(len(self.offsets), bool)
        for partition, records in wanted.items():
            own = np.flatnonzero(self.partitions == partition)
            kept[own[np.argsort(self.offsets[own], kind="stable")][:records]] = True
        return _TopicRecords(self.partitions[kept], self.offsets[kept], self.windows[kept], self.kinds[kept])

    def by_window(self) -> ByWindow:
        return Counter(zip(self.windows.tolist(), self.kinds.tolist(), strict=True))

    def by_partition(self) -> Counter[int]:
        return Counter(self.partitions.tolist())


def is_read_here(topic: TopicRange | None) -> bool:
    """Whether the topic's records are of a form that is read without Spark; so is one that is not there."""
    if topic is None:
        return True
    return topic.envelope == ENVELOPE and topic.connector in CONNECTORS and not topic.event_time


def count_links(spec: LedgerSpec, parts: Sequence[TableSlice]) -> dict[str, SmallTransport]:
    """Both topics of each table from where they were counted to its cut.

    By window and kind, read by librdkafka and counted by Arrow: one reading of each cluster for all of them, where
    Spark takes four jobs a table (docs/adr/archive/0106).

    Raises:
        LeftToSparkError: a record has another form, or Kafka does not hand them out.
    """
    mirrored = {table_slice.name: mirror_spans(table_slice.table, table_slice.cut) for table_slice in parts}
    lake = (spec.lake_bootstrap, spec.lake_login)
    mirrors = _read(spec, lake, _ranges({table_slice.name: table_slice.table.mirror for table_slice in parts}, mirrored))
    cores_to_read: dict[str, TopicRange] = {}
    transports: dict[str, SmallTransport] = {}
    for table_slice in parts:
        reached, spans = mirrored[table_slice.name]
        if spans is None:
            transports[table_slice.name] = SmallTransport(reached)
            continue
        mirror = mirrors[table_slice.name]
        transports[table_slice.name] = SmallTransport(
            reached, mirror.by_window(), None if table_slice.table.topic is None else Counter()
        )
        if table_slice.table.topic is None or all(end <= start for start, end in spans.values()):
            continue
        ranges = topic_spans(table_slice.table, reached, _records_to_find(mirror, reached))
        if gone := retention_loss(table_slice.table.topic, ranges):
            transports[table_slice.name] = SmallTransport(replace(reached, uncounted=gone), mirror.by_window())
        else:
            cores_to_read[table_slice.name] = replace(table_slice.table.topic, ranges=ranges)
    cores = _read(spec, (spec.core_bootstrap, spec.core_login), cores_to_read)
    return transports | {name: _with_topic(transports[name], mirrors[name], cores[name]) for name in cores_to_read}


def _records_to_find(mirror: _TopicRecords, reached: TransportReach) -> Counter[int]:
    """The core topic's first as many records, by partition, and what was short of them before."""
    return mirror.by_partition() + Counter(reached.missing)


def _with_topic(transport: SmallTransport, mirror: _TopicRecords, core: _TopicRecords) -> SmallTransport:
    reached = transport.reached
    to_find = _records_to_find(mirror, reached)
    first = core.first(to_find)
    last = {p: int(first.offsets[first.partitions == p].max()) + 1 for p in first.by_partition()}
    left = dict(to_find - first.by_partition())
    return replace(
        transport, reached=replace(reached, positions={**reached.positions, **last}, missing=left), topic=first.by_window()
    )


def _ranges(
    topics: Mapping[str, TopicRange | None], mirrored: Mapping[str, tuple[TransportReach, dict[int, tuple[int, int]] | None]]
) -> dict[str, TopicRange]:
    """The mirrors that are counted, with what of them."""
    counted = {}
    for name, (_, spans) in mirrored.items():
        topic = topics[name]
        if topic is not None and spans is not None:
            counted[name] = replace(topic, ranges=spans)
    return counted


def _read(spec: LedgerSpec, cluster: tuple[str, str], topics: Mapping[str, TopicRange]) -> dict[str, _TopicRecords]:
    bootstrap, login = cluster
    ranges = list(topics.values())
    source = BronzeSpec(spec.bronze_path, bootstrap, tuple(ranges), "ledger", spec.kafka_options, login)
    chunks = read_ranges(source, ranges)
    records = pa.concat_tables([_narrow(chunk) for chunk in chunks]) if chunks else _NARROW.empty_table()
    of_topic = records["topic"].to_numpy(zero_copy_only=False)
    whole = _TopicRecords(*(records[name].to_numpy(zero_copy_only=False) for name in _NARROW.names[1:]))
    by_table = {}
    for name, topic in topics.items():
        own = of_topic == topic.topic
        by_table[name] = _TopicRecords(whole.partitions[own], whole.offsets[own], whole.windows[own], whole.kinds[own])
    return by_table


_NARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("window", pa.int64()),
        ("kind", pa.string()),
    ]
)


def _narrow(records: pa.Table) -> pa.Table:
    """Of each record its window and kind, as spark.proof.ledger_topic_counts and spark.events.envelope tell them."""
    values = records["value"].combine_chunks()
    events = pc.is_valid(values)
    envelopes = parse_objects(pa.chunked_array([values.drop_null()]), _SAID)
    leave_any(pc.invert(pc.is_in(envelopes["op"], value_set=pa.array(KNOWN_OPS))), "a record without an op that is known")
    seconds, millis = (pc.struct_field(envelopes["source"], name) for name in ("ts_us", "ts_ms"))
    times = pc.coalesce(seconds, pc.multiply(millis, 1000)).combine_chunks()
    at = pc.if_else(events, pc.subtract(pc.cumulative_sum(events.cast(pa.int64())), 1), None)
    arrived = records["timestamp"].combine_chunks().cast(pa.int64())
    happened = pc.coalesce(times.take(at), arrived) if len(times) else arrived
    kinds = pc.coalesce(envelopes["op"].combine_chunks().take(at), TOMBSTONE) if len(times) else pa.array([TOMBSTONE] * len(at))
    windows = pa.array(window_of(happened.to_numpy()))
    columns = [records["topic"], records["partition"], records["offset"], windows, kinds]
    return pa.table(columns, schema=_NARROW)


def window_of(micros: np.ndarray) -> np.ndarray:
    """The start of each event's window, in seconds since 1970."""
    return np.floor_divide(micros, WINDOW * 1_000_000) * WINDOW


SMALL = 250_000
"""Records that are counted together, of one table or of many: they are held in memory, from both clusters."""


def count_small(
    session: SparkSession, spec: LedgerSpec, parts: Sequence[TableSlice], appended: Callable[[], list[TopicShares]]
) -> dict[str, Booked]:
    """What the small and plain ones of these slices add to the ledger; the others are not in it.

        bronze, one read ──▶ rows by table ──▶ window, kind, hops, fate ─┐
        both clusters, one reading each ─────▶ window, kind ─────────────┴─▶ panes

    A test counts the same histories in both ways.
    """
    if spec.again:
        return {}
    booked: dict[str, Booked] = {}
    small = [table_slice for table_slice in parts if _is_small(table_slice)]
    for group in _groups(_whole_in_bronze(session, spec, small) if small else []):
        try:
            links = count_links(spec, group)
        except LeftToSparkError:
            continue
        rows = _bronze_rows(session, spec, group, appended())
        for table_slice in group:
            try:
                booked[table_slice.name] = _count(table_slice, links[table_slice.name], rows, appended())
            except LeftToSparkError:
                continue
    return booked


def _is_small(table_slice: TableSlice) -> bool:
    table = table_slice.table
    one_epoch = all(len(numbers) == 1 for numbers in epochs(table_slice.cut).values())
    return (
        table_slice.records <= SMALL
        and one_epoch
        and is_plain(table_slice)
        and is_read_here(table.mirror)
        and is_read_here(table.topic)
    )


def _whole_in_bronze(session: SparkSession, spec: LedgerSpec, parts: Sequence[TableSlice]) -> list[TableSlice]:
    """Those of which bronze has given nothing to the backup that is to be counted."""
    floors = all_floors(spec.bronze_path)
    return [
        table_slice
        for table_slice in parts
        if has_rows_of({t: f for t, f in floors.items() if f.table == table_slice.name}, table_slice.cut)
    ]


def _groups(parts: Sequence[TableSlice]) -> Iterator[list[TableSlice]]:
    group: list[TableSlice] = []
    records = 0
    for table_slice in parts:
        if group and records + table_slice.records > SMALL:
            yield group
            group, records = [], 0
        group.append(table_slice)
        records += table_slice.records
    if group:
        yield group


def _bronze_rows(session: SparkSession, spec: LedgerSpec, parts: Sequence[TableSlice], appends: list[TopicShares]) -> pa.Table:
    """The rows of these slices, and others beside them, which no fold of theirs took. Bronze is appended to only, so that the
    newest version that one of them has folded holds what all have."""
    spark_plans.suit(session, events=sum(table_slice.records for table_slice in parts))
    version = max(table_slice.cut.last.bronze_version for table_slice in parts)
    bronze: DataFrame = session.read.format("delta").option("versionAsOf", version).load(spec.bronze_path)
    condition = sf.col("table").isin([table_slice.name for table_slice in parts])
    # Kafka's lowest time of what was appended since the ledger's place spares Spark older files.
    oldest = [oldest_record(appends, table_slice.name, table_slice.cut) for table_slice in parts if table_slice.records]
    lowest = None if None in oldest else min(filter(None, oldest), default=None)
    if lowest is not None:
        condition &= sf.col("timestamp") >= sf.timestamp_micros(sf.lit(lowest))
    times = [sf.unix_micros(name).alias(name) for name in ("timestamp", "source_ts")]
    columns = ("table", "topic", "partition", "offset", "key", "op", "position", "epoch")
    return bronze.where(condition).select(*columns, *times, sf.col("value").isNull().alias("is_tombstone")).toArrow()


def _count(table_slice: TableSlice, links: SmallTransport, rows: pa.Table, appends: list[TopicShares]) -> Booked:
    records = _of_slice(table_slice, rows.filter(pc.equal(rows["table"], table_slice.name)).combine_chunks())
    sums = _with_links(_sums(table_slice, records, appends), links)
    return Booked(sums, place_behind(table_slice, links.reached, pc.max(sums["newest"]).as_py() or 0), table_slice.cut.left)


def _of_slice(table_slice: TableSlice, rows: pa.Table) -> pa.Table:
    """The rows that the folds took, with their `place` (as ledger_folds.place_of_record) and the number of their `fold`."""
    epoch = {topic: numbers[0] for topic, numbers in epochs(table_slice.cut).items()}
    offsets = rows["offset"].to_numpy()
    topics, partitions = rows["topic"].to_pylist(), rows["partition"].to_pylist()
    places = np.array([f"{t}/{epoch.get(t)}/{p}" for t, p in zip(topics, partitions, strict=True)], object)
    folds = np.full(rows.num_rows, -1)
    for record_place, taken in ends(table_slice.cut).items():
        own = np.flatnonzero(places == record_place)
        passed = sum((offsets[own] >= end).astype(np.int64) for end in taken)
        folds[own] = np.where(passed <= len(table_slice.cut.folds), passed - 1, -1)
    # A row of another incarnation of the topic says so itself.
    own_epoch = [e is None or e == epoch.get(t) for e, t in zip(rows["epoch"].to_pylist(), topics, strict=True)]
    rows = rows.append_column("place", pa.array(places, pa.string())).append_column("fold", pa.array(folds))
    return rows.filter(pa.array((folds >= 0) & np.array(own_epoch, bool)))


def _sums(table_slice: TableSlice, records: pa.Table, appends: list[TopicShares]) -> pa.Table:
    """By window and kind: records, fates, and how long each hop took; as counts.count_windows and panes.wide."""
    fates = plain_fates(table_slice, records)
    happened = pc.coalesce(records["source_ts"], records["timestamp"]).to_numpy()
    windows = window_of(happened)
    arrived = _millis(records["timestamp"])
    kinds = pc.if_else(records["is_tombstone"], TOMBSTONE, pc.coalesce(records["op"], pa.scalar(UNKNOWN)))
    has_time = pc.invert(pc.is_in(kinds, value_set=pa.array([TOMBSTONE, UNKNOWN])))
    appended = _append_millis(table_slice, records, appends)
    folded = pa.array([_epoch_millis(fold.at) for fold in table_slice.cut.folds], pa.int64()).take(records["fold"])
    hops = {
        "capture": pc.subtract(arrived, _millis(records["source_ts"])),
        "bronze": pc.subtract(appended, arrived),
        "silver": pc.subtract(folded, appended),
    }
    after_end = pc.subtract(arrived, pa.array((windows + WINDOW) * 1000))
    measures = {
        "bronze": pa.array(np.ones(records.num_rows, np.int64)),
        **{name: pa.array([int(fate == name) for fate in fates], pa.int64()) for name in FATES},
        "newest": pc.if_else(has_time, pa.array(happened), None),
        "late_by_ms_max": pc.max_element_wise(after_end, 0),
    }
    for hop, ms in hops.items():
        measures |= {f"{hop}_n": pc.is_valid(ms).cast(pa.int64()), f"{hop}_ms_sum": ms, f"{hop}_ms_max": ms}
    return _sum_windows(pa.table({"window": pa.array(windows), "kind": kinds, **measures}))


def _millis(micros: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole milliseconds below: as unix_millis."""
    return pc.floor(pc.divide(micros.cast(pa.float64()), 1000.0)).cast(pa.int64())


def _epoch_millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _append_millis(table_slice: TableSlice, records: pa.Table, appends: list[TopicShares]) -> pa.Array:
    """When bronze had each record, in milliseconds; null where that is no longer known."""
    times = append_times(appends, table_slice.name, table_slice.cut)
    places, offsets = _texts(records["place"]), records["offset"].to_numpy()
    answer, is_known = np.zeros(len(offsets), np.int64), np.zeros(len(offsets), bool)
    for record_place, spans in times.spans.items():
        ended = np.array([end for end, _ in spans])
        came = np.array([_epoch_millis(at) for _, at in spans])
        own = np.flatnonzero((places == record_place) & (offsets >= times.first[record_place]))
        passed = np.searchsorted(ended, offsets[own], side="right")
        within = passed < len(spans)
        answer[own[within]] = came[passed[within]]
        is_known[own[within]] = True
    return pa.array(answer, mask=~is_known)


def _texts(values: pa.ChunkedArray) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)


def _sum_windows(rows: pa.Table) -> pa.Table:
    """Rows of measures by window and kind; a sum of nothing is 0, a maximum of nothing is null."""
    maxima = {*ledger_rows.MAXIMA, "newest"}
    names = [name for name in rows.column_names if name not in ("window", "kind")]
    aggregates = [(name, "max" if name in maxima else "sum") for name in names]
    summed = rows.group_by(["window", "kind"], use_threads=False).aggregate(aggregates)
    columns = {"window": summed["window"], "kind": summed["kind"]}
    for name, how in aggregates:
        values = summed[f"{name}_{how}"]
        columns[name] = values if how == "max" else pc.coalesce(values, pa.scalar(0, pa.int64()))
    return pa.table(columns)


def _with_links(lake: pa.Table, links: SmallTransport) -> pa.Table:
    """With `topic` and `mirror` too, where they could be counted, else null; in ledger_rows.ARROW."""
    links_by_name = {"mirror": links.mirror, "topic": links.topic}
    counted = {name: counts for name, counts in links_by_name.items() if counts is not None}
    parts = [lake]
    for name, counts in counted.items():
        windows, kinds = zip(*counts, strict=True) if counts else ((), ())
        values = (pa.array(windows, pa.int64()), pa.array(kinds, pa.string()), pa.array(list(counts.values()), pa.int64()))
        parts.append(pa.table(dict(zip(("window", "kind", name), values, strict=True))))
    empty = {name: pa.array([], pa.int64()) for name in counted}
    parts.append(pa.table({"window": pa.array([], pa.int64()), "kind": pa.array([], pa.string()), **empty}))
    summed = _sum_windows(pa.concat_tables(parts, promote_options="default"))
    columns = {
        name: summed[name] if name in summed.column_names else pa.nulls(summed.num_rows, pa.int64())
        for name in ledger_rows.ARROW.names
    }
    return pa.table(columns).cast(ledger_rows.ARROW)
