"""What Debezium's JSON says of records, by Arrow: the narrow columns of bronze, as spark.bronze.batch_records has them.

Read are records that tell it themselves: PostgreSQL's with the commit before them, or of a snapshot, a temporary connector's too;
those of a binlog; and tombstones. All others raise LeftToSparkError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.events.arrow_records import keep_rows, leave_any, parse_objects, write_hexadecimal
from spark.events.positions import EPOCH_WIDTH, NUMBER_WIDTH, SNAPSHOT, STREAMED
from spark.events.source_positions import FILE_WIDTH, ROW_WIDTH
from spark.record_formats import ANCHOR_HEADER
from spark.specs import TopicRange

ENVELOPE = "debezium-json"
"""The one format of records that is read so."""
TEXT, LONG = pa.string(), pa.int64()
_TIMES = [("ts_us", LONG), ("ts_ms", LONG), ("snapshot", TEXT)]
_LOG = [("lsn", LONG), ("sequence", TEXT), ("txId", LONG)]
_BINLOG = [("file", TEXT), ("pos", LONG), ("row", LONG), ("gtid", TEXT)]
KNOWN_OPS = ("c", "u", "d", "r", "t", "m")


def narrow(records: pa.Table, connector: str) -> pa.Table:
    """Records of one connector's topics with `op, place, lsn, initial, tx_id, source_ts, snapshot`; all null of a tombstone.

    `initial` is the LSN of an initial snapshot's row.

    Raises:
        LeftToSparkError: one of them needs to be looked at by Spark.
    """
    events = pc.is_valid(records["value"])
    fields, place_of = _CONNECTORS[connector]
    schema = pa.schema([("op", TEXT), ("source", pa.struct([*_TIMES, *fields]))])
    parsed = parse_objects(records["value"].drop_null(), schema)
    envelope = {name: parsed[name].combine_chunks() for name in schema.names}
    source = dict(zip([f.name for f in envelope["source"].type], envelope["source"].flatten(), strict=True))
    own = keep_rows(records, events)
    columns = {"op": envelope["op"], **place_of(source, envelope["op"], own)}
    columns["source_ts"] = pc.coalesce(source["ts_us"], pc.multiply(source["ts_ms"], 1000)).cast(pa.timestamp("us", "UTC"))
    columns["snapshot"] = source["snapshot"]
    if own.num_rows < records.num_rows:
        at = pc.if_else(events, pc.subtract(pc.cumulative_sum(events.cast(LONG)), 1), None).combine_chunks()
        columns = {name: values.take(at) if len(values) else pa.nulls(len(at), values.type) for name, values in columns.items()}
    for name, values in columns.items():
        records = records.append_column(name, values)
    return records


def _log_place(source: Mapping[str, pa.Array], op: pa.Array, records: pa.Table) -> dict[str, pa.Array]:
    """As spark.events.postgresql_positions: anchor, kind, LSN. A row of a temporary connector has its anchor in a header."""
    commit = _number(source["sequence"], r'^\["?(?P<n>\d+)')
    lsn = pc.coalesce(source["lsn"], _number(source["sequence"], r'"?(?P<n>\d+)"?\]$'), commit)
    is_row = pc.equal(op, "r")
    if (anchors := _read_anchors(records)) is not None:
        commit = pc.coalesce(pc.if_else(is_row, anchors, None), commit)
    is_open = pc.and_(pc.and_(pc.is_null(commit), pc.invert(is_row)), pc.is_valid(lsn))
    leave_any(is_open, "a change without the commit before it")
    anchor = pc.coalesce(commit, lsn)
    hexadecimal = [_hexadecimal(values, NUMBER_WIDTH) for values in (anchor, lsn)]
    position = pc.binary_join_element_wise(hexadecimal[0], _kind(op), hexadecimal[1], ".")
    initial = pc.if_else(pc.and_(is_row, pc.is_null(commit)), lsn, None)
    return {"place": position, "initial": initial, "tx_id": source["txId"].cast(TEXT)}


def _read_anchors(records: pa.Table) -> pa.Array | None:
    """The commit behind which each record stands by its header (spark.bronze.batch_records); None where none has one."""
    headers = records["headers"].combine_chunks()
    entries = headers.flatten()
    if ANCHOR_HEADER not in entries.field("key").unique().to_pylist():
        return None
    named = pc.equal(entries.field("key"), ANCHOR_HEADER)
    rows = pc.list_parent_indices(headers).filter(named).to_numpy()
    texts = entries.field("value").filter(named).cast(TEXT)
    # The first of several: what is written last into a place stays there.
    places = np.full(records.num_rows, -1)
    places[rows[::-1]] = np.arange(len(rows))[::-1]
    return _number(texts, r"^(?P<n>\d{1,19})$").take(pa.array(places, mask=places < 0))


def _binlog_place(source: Mapping[str, pa.Array], op: pa.Array, records: pa.Table) -> dict[str, pa.Array]:
    """As spark.events.source_positions: file, position, kind, and the row where a record has no key."""
    number = pc.struct_field(pc.extract_regex(source["file"], r"\.0*(?P<n>\d+)$"), "n")
    leave_any(pc.greater(pc.utf8_length(number), FILE_WIDTH), "a file of more digits than positions have")
    row = pc.coalesce(pc.if_else(pc.is_null(records["key"].combine_chunks()), source["row"], None), pa.scalar(0, LONG))
    leave_any(pc.greater_equal(row, 16**ROW_WIDTH), "a row of more digits than positions have")
    parts = (
        pc.utf8_lpad(number, FILE_WIDTH, "0"),
        _hexadecimal(source["pos"], NUMBER_WIDTH),
        _kind(op),
        _hexadecimal(row, ROW_WIDTH),
    )
    return {"place": pc.binary_join_element_wise(*parts, "."), "initial": pa.nulls(len(op), LONG), "tx_id": source["gtid"]}


def _number(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.struct_field(pc.extract_regex(texts, pattern), "n").cast(LONG)


def _hexadecimal(numbers: pa.Array, width: int) -> pa.Array:
    leave_any(pc.less(numbers, 0), "a negative place")
    return write_hexadecimal(numbers, width)


def _kind(op: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(op, "r").fill_null(False), SNAPSHOT, STREAMED)


PlaceColumns = Callable[[Mapping[str, pa.Array], pa.Array, pa.Table], dict[str, pa.Array]]
_CONNECTORS: dict[str, tuple[list[tuple[str, pa.DataType]], PlaceColumns]] = {
    "postgresql": (_LOG, _log_place),
    "mariadb": (_BINLOG, _binlog_place),
    "mysql": (_BINLOG, _binlog_place),
}
CONNECTORS = frozenset(_CONNECTORS)


def decode_records(chunks: Iterable[pa.Table], topics: Sequence[TopicRange]) -> pa.Table:
    """Kafka's records of these topics with bronze's columns, and `initial`; an empty table where there are none.

    Raises:
        LeftToSparkError: one of them needs to be looked at by Spark.
    """
    by_name = {topic.topic: topic for topic in topics}
    narrowed = [_with_positions(_narrow_each(chunk, topics), by_name) for chunk in chunks]
    return pa.concat_tables(narrowed) if narrowed else pa.table({})


def _narrow_each(records: pa.Table, todo: Sequence[TopicRange]) -> pa.Table:
    kinds = sorted({topic.connector for topic in todo})
    parts = []
    for kind in kinds:
        own = [topic.topic for topic in todo if topic.connector == kind]
        own_records = records if len(kinds) == 1 else records.filter(pc.is_in(records["topic"], value_set=pa.array(own)))
        parts.append(narrow(own_records, kind))
    return pa.concat_tables(parts)


def _with_positions(records: pa.Table, topics: Mapping[str, TopicRange]) -> pa.Table:
    names = records["topic"].combine_chunks().dictionary_encode()
    values = [topics[name] for name in names.dictionary.to_pylist()]

    def of(each: Sequence[object], kind: pa.DataType) -> pa.Array:
        return pa.array(each, kind).take(names.indices)

    epoch = of([f"{t.epoch:0{EPOCH_WIDTH}x}" for t in values], pa.string())
    offset = write_hexadecimal(records["offset"].combine_chunks(), NUMBER_WIDTH)
    position = pc.binary_join_element_wise(epoch, records["place"].combine_chunks(), offset, ".")
    own = {"table": of([t.table for t in values], pa.string()), "epoch": of([t.epoch for t in values], pa.int32())}
    own["position"] = position
    return reduce(lambda table, name: table.append_column(name, own[name]), own, records)
