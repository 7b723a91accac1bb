"""What Debezium's JSON says of records, by Arrow: the narrow columns of bronze, as spark.bronze.drafts has them.

Read are records that tell it themselves: PostgreSQL's with the commit before them, or of a snapshot; those of a binlog; and
tombstones. All others raise LeftToSparkError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark.envelopes.arrow_json import parse_objects
from spark.envelopes.arrow_rows import keep_rows, leave_any, write_hexadecimal
from spark.errors import LeftToSparkError
from spark.kinds.record_marks import ANCHOR_HEADER
from spark.positions.layout import NUMBER_WIDTH, SNAPSHOT, STREAMED
from spark.positions.mysql import FILE_WIDTH, ROW_WIDTH

TEXT, LONG = pa.string(), pa.int64()
_TIMES = [("ts_us", LONG), ("ts_ms", LONG), ("snapshot", TEXT)]
_LOG = [("lsn", LONG), ("sequence", TEXT), ("txId", LONG)]
_BINLOG = [("file", TEXT), ("pos", LONG), ("row", LONG), ("gtid", TEXT)]
OPS = ("c", "u", "d", "r", "t", "m")


def narrow(records: pa.Table, connector: str) -> pa.Table:
    """Records of one connector's topics with `op, place, lsn, initial, tx_id, source_ts, snapshot`; all null of a tombstone.

    `initial` is the LSN of an initial snapshot's row.

    Raises:
        LeftToSparkError: one of them needs to be looked at by Spark.
    """
    if ANCHOR_HEADER in records["headers"].combine_chunks().flatten().field("key").unique().to_pylist():
        raise LeftToSparkError("a row of a temporary connector")
    events = pc.is_valid(records["value"])
    fields, place = _CONNECTORS[connector]
    wanted = pa.schema([("op", TEXT), ("source", pa.struct([*_TIMES, *fields]))])
    parsed = parse_objects(records["value"].drop_null(), wanted)
    said = {name: parsed[name].combine_chunks() for name in wanted.names}
    source = dict(zip([f.name for f in said["source"].type], said["source"].flatten(), strict=True))
    leave_any(pc.invert(pc.is_in(said["op"], value_set=pa.array(OPS))), "a record without an op that is known")
    keys = keep_rows(records, events)["key"].combine_chunks()
    columns = {"op": said["op"], **place(source, said["op"], keys)}
    columns["source_ts"] = pc.coalesce(source["ts_us"], pc.multiply(source["ts_ms"], 1000)).cast(pa.timestamp("us", "UTC"))
    columns["snapshot"] = source["snapshot"]
    if len(keys) < records.num_rows:
        at = pc.if_else(events, pc.subtract(pc.cumulative_sum(events.cast(LONG)), 1), None).combine_chunks()
        columns = {name: values.take(at) if len(values) else pa.nulls(len(at), values.type) for name, values in columns.items()}
    for name, values in columns.items():
        records = records.append_column(name, values)
    return records


def _log_place(source: Mapping[str, pa.Array], op: pa.Array, _: pa.Array) -> dict[str, pa.Array]:
    """As spark.positions.postgresql: anchor, kind, LSN."""
    commit = _number(source["sequence"], r'^\["?(?P<n>\d+)')
    lsn = pc.coalesce(source["lsn"], _number(source["sequence"], r'"?(?P<n>\d+)"?\]$'), commit)
    is_row = pc.equal(op, "r")
    leave_any(pc.and_(pc.is_null(commit), pc.invert(is_row)), "a change without the commit before it")
    anchor = pc.coalesce(commit, lsn)
    leave_any(pc.is_null(lsn), "a record without a place in the log")
    hexadecimal = [_hexadecimal(values, NUMBER_WIDTH) for values in (anchor, lsn)]
    place = pc.binary_join_element_wise(hexadecimal[0], _kind(op), hexadecimal[1], ".")
    initial = pc.if_else(pc.and_(is_row, pc.is_null(commit)), lsn, None)
    return {"place": place, "initial": initial, "tx_id": source["txId"].cast(TEXT)}


def _binlog_place(source: Mapping[str, pa.Array], op: pa.Array, keys: pa.Array) -> dict[str, pa.Array]:
    """As spark.positions.mysql: file, position, kind, and the row where a record has no key."""
    number = pc.struct_field(pc.extract_regex(source["file"], r"\.0*(?P<n>\d+)$"), "n")
    leave_any(pc.greater(pc.utf8_length(number), FILE_WIDTH), "a file of more digits than positions have")
    row = pc.coalesce(pc.if_else(pc.is_null(keys), source["row"], None), pa.scalar(0, LONG))
    leave_any(pc.greater_equal(row, 16**ROW_WIDTH), "a row of more digits than positions have")
    parts = (
        pc.utf8_lpad(number, FILE_WIDTH, "0"),
        _hexadecimal(source["pos"], NUMBER_WIDTH),
        _kind(op),
        _hexadecimal(row, ROW_WIDTH),
    )
    place = pc.binary_join_element_wise(*parts, ".")
    leave_any(pc.is_null(place), "a record without a place in the binlog")
    return {"place": place, "initial": pa.nulls(len(op), LONG), "tx_id": source["gtid"]}


def _number(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.struct_field(pc.extract_regex(texts, pattern), "n").cast(LONG)


def _hexadecimal(numbers: pa.Array, width: int) -> pa.Array:
    leave_any(pc.less(numbers, 0), "a negative place")
    return write_hexadecimal(numbers, width)


def _kind(op: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(op, "r"), SNAPSHOT, STREAMED)


Place = Callable[[Mapping[str, pa.Array], pa.Array, pa.Array], dict[str, pa.Array]]
_CONNECTORS: dict[str, tuple[list[tuple[str, pa.DataType]], Place]] = {
    "postgresql": (_LOG, _log_place),
    "mariadb": (_BINLOG, _binlog_place),
    "mysql": (_BINLOG, _binlog_place),
}
CONNECTORS = frozenset(_CONNECTORS)
