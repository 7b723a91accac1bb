"""The records of the topics of many small tables by window and kind, read by librdkafka and counted by Arrow: one reading of
each cluster for all of them, where Spark takes four jobs a table (docs/adr/0106)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.envelopes.arrow_json import parse_objects
from spark.envelopes.arrow_rows import leave_any
from spark.envelopes.envelope import TOMBSTONE
from spark.ledger.spec import LedgerSpec
from spark.ledger.table_slice import TableSlice
from spark.ledger.terms import WINDOW
from spark.ledger.topic_counts import TransportReach, mirror_spans, retention_loss, topic_spans
from spark.small_batches.narrow import CONNECTORS, OPS
from spark.small_batches.reading import read_ranges
from spark.specs import BronzeSpec, TopicRange

ByWindow = Counter[tuple[int, str]]
"""Records by window (its start, in seconds since 1970) and kind."""
ENVELOPE = "debezium-json"
_SAID = pa.schema([("op", pa.string()), ("source", pa.struct([("ts_us", pa.int64()), ("ts_ms", pa.int64())]))])


@dataclass(frozen=True)
class SmallTransport:
    """As topic_counts.Transport: the counts of both topics; None where they cannot be counted, and then `reached` says why."""

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

    Raises:
        LeftToSparkError: a record has another form, or Kafka does not hand them out.
    """
    told = {part.name: mirror_spans(part.table, part.cut) for part in parts}
    lake = (spec.lake_bootstrap, spec.lake_login)
    mirrors = _read(spec, lake, _ranges({part.name: part.table.mirror for part in parts}, told))
    asked: dict[str, TopicRange] = {}
    found: dict[str, SmallTransport] = {}
    for part in parts:
        reached, spans = told[part.name]
        if spans is None:
            found[part.name] = SmallTransport(reached)
            continue
        mirror = mirrors[part.name]
        found[part.name] = SmallTransport(reached, mirror.by_window(), None if part.table.topic is None else Counter())
        if part.table.topic is None or all(end <= start for start, end in spans.values()):
            continue
        ranges = topic_spans(part.table, reached, _records_to_find(mirror, reached))
        if gone := retention_loss(part.table.topic, ranges):
            found[part.name] = SmallTransport(replace(reached, uncounted=gone), mirror.by_window())
        else:
            asked[part.name] = replace(part.table.topic, ranges=ranges)
    cores = _read(spec, (spec.core_bootstrap, spec.core_login), asked)
    return found | {name: _with_topic(found[name], mirrors[name], cores[name]) for name in asked}


def _records_to_find(mirror: _TopicRecords, reached: TransportReach) -> Counter[int]:
    """The core topic's first as many records, by partition, and what was short of them before."""
    return mirror.by_partition() + Counter(reached.missing)


def _with_topic(found: SmallTransport, mirror: _TopicRecords, core: _TopicRecords) -> SmallTransport:
    reached = found.reached
    wanted = _records_to_find(mirror, reached)
    first = core.first(wanted)
    last = {p: int(first.offsets[first.partitions == p].max()) + 1 for p in first.by_partition()}
    left = dict(wanted - first.by_partition())
    return replace(
        found, reached=replace(reached, positions={**reached.positions, **last}, missing=left), topic=first.by_window()
    )


def _ranges(
    topics: Mapping[str, TopicRange | None], told: Mapping[str, tuple[TransportReach, dict[int, tuple[int, int]] | None]]
) -> dict[str, TopicRange]:
    """The mirrors that are counted, with what of them."""
    found = {}
    for name, (_, spans) in told.items():
        topic = topics[name]
        if topic is not None and spans is not None:
            found[name] = replace(topic, ranges=spans)
    return found


def _read(spec: LedgerSpec, cluster: tuple[str, str], topics: Mapping[str, TopicRange]) -> dict[str, _TopicRecords]:
    bootstrap, login = cluster
    asked = list(topics.values())
    source = BronzeSpec(spec.bronze_path, bootstrap, tuple(asked), "ledger", spec.kafka_options, login)
    chunks = read_ranges(source, asked)
    records = pa.concat_tables([_narrow(chunk) for chunk in chunks]) if chunks else _NARROW.empty_table()
    of_topic = records["topic"].to_numpy(zero_copy_only=False)
    whole = _TopicRecords(*(records[name].to_numpy(zero_copy_only=False) for name in _NARROW.names[1:]))
    found = {}
    for name, topic in topics.items():
        own = of_topic == topic.topic
        found[name] = _TopicRecords(whole.partitions[own], whole.offsets[own], whole.windows[own], whole.kinds[own])
    return found


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
    """Of each record its window and kind, as spark.ledger.windows and spark.envelopes.envelope tell them."""
    values = records["value"].combine_chunks()
    events = pc.is_valid(values)
    said = parse_objects(pa.chunked_array([values.drop_null()]), _SAID)
    leave_any(pc.invert(pc.is_in(said["op"], value_set=pa.array(OPS))), "a record without an op that is known")
    seconds, millis = (pc.struct_field(said["source"], name) for name in ("ts_us", "ts_ms"))
    times = pc.coalesce(seconds, pc.multiply(millis, 1000)).combine_chunks()
    at = pc.if_else(events, pc.subtract(pc.cumulative_sum(events.cast(pa.int64())), 1), None)
    arrived = records["timestamp"].combine_chunks().cast(pa.int64())
    happened = pc.coalesce(times.take(at), arrived) if len(times) else arrived
    kinds = pc.coalesce(said["op"].combine_chunks().take(at), TOMBSTONE) if len(times) else pa.array([TOMBSTONE] * len(at))
    windows = pa.array(window_of(happened.to_numpy()))
    columns = [records["topic"], records["partition"], records["offset"], windows, kinds]
    return pa.table(columns, schema=_NARROW)


def window_of(micros: np.ndarray) -> np.ndarray:
    """The start of each event's window, in seconds since 1970."""
    return np.floor_divide(micros, WINDOW * 1_000_000) * WINDOW
