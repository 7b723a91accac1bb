"""An object of the backup as rows of bronze: first its size and digest, then its lines, within limits. Values that stand as
JSON come back to the letter.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from typing import Any

from cdc_assets.backup.manifest import ManifestObject
from cdc_assets.backup.object_layout import ValueForm
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError, StoreError
from spark.errors import quantity

_NEWLINE, _END = ord("\n"), ord("}")
_NAME = b'"value":'


def json_values(lines: bytes, sizes: Any, item: ManifestObject) -> Any:
    """An Arrow array of bytes: of the rows that have a size (null: none).

    Raises:
        BackupError: there is no value of that size in its line.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    read = np.frombuffer(lines, np.uint8)
    newlines = np.flatnonzero(read == _NEWLINE)
    if len(newlines) != len(sizes) or not lines.endswith(b"\n"):
        raise BackupError.of_object(item.key, "holds lines that are no record each")
    has_value = pc.is_valid(sizes).to_numpy(zero_copy_only=False)
    length = pc.fill_null(sizes, 0).to_numpy()
    ends = newlines - 1
    starts = ends - length
    begins = np.concatenate([[0], newlines[:-1] + 1])
    with_value = np.flatnonzero(has_value)
    name_at = starts[with_value] - len(_NAME)
    if np.any(length[with_value] < 2) or np.any(name_at < begins[with_value]) or np.any(read[ends[with_value]] != _END):
        raise BackupError.of_object(item.key, "holds a value of another size than its line says")
    for index, byte in enumerate(_NAME):
        if np.any(read[name_at + index] != byte):
            raise BackupError.of_object(item.key, "holds a value of another size than its line says")
    # What lies between two values is a row as well, of which nobody asks.
    bounds = np.empty(2 * len(starts) + 1, np.int64)
    bounds[0], bounds[1::2], bounds[2::2] = 0, np.maximum(starts, begins), ends
    every = pa.Array.from_buffers(pa.large_binary(), 2 * len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(lines)])
    rows = pa.array(np.arange(len(starts)) * 2 + 1, mask=~has_value)
    return every.take(rows).cast(pa.binary())


MOST_UNPACKED = 1 << 30
"""Bytes. A batch has 64 MiB of keys and values, unless one record is larger."""
_PIECE = 8 << 20
_GZIP = 31


def read_object(store: ObjectStore, item: ManifestObject) -> bytes:
    """The object's lines, as its manifest says them. Raises BackupError: it is gone, or another one."""
    try:
        data = store.get(item.key)
    except StoreError as error:
        raise BackupError.of_object(item.key, f"cannot be read: {error}") from error
    if len(data) != item.size:
        raise BackupError.of_object(item.key, f"has {quantity(len(data), 'byte')}, its manifest says {item.size}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != item.sha256:
        raise BackupError.of_object(
            item.key, f"has another content than its manifest says: sha256 {digest}, expected {item.sha256}"
        )
    return unpack(data, item.key)


def unpack(data: bytes, key: str, *, most: int = MOST_UNPACKED) -> bytes:
    """One gzip member, whole, and nothing behind it.

    What it unpacks to is bounded, so that an object that is none of ours cannot fill the memory.

    Raises:
        BackupError: it is none, or larger than `most` bytes.
    """
    unpacker, rest, size = zlib.decompressobj(wbits=_GZIP), data, 0
    pieces: list[bytes] = []
    try:
        while not unpacker.eof:
            piece = unpacker.decompress(rest, _PIECE)
            rest = unpacker.unconsumed_tail
            size += len(piece)
            if size > most:
                raise BackupError.of_object(key, f"unpacks to more than {most >> 20} MiB")
            if not piece and not rest:
                raise BackupError.of_object(key, "is cut short")
            pieces.append(piece)
    except zlib.error as error:
        raise BackupError.of_object(key, f"is no gzip: {error}") from error
    if unpacker.unused_data:
        raise BackupError.of_object(key, f"has {quantity(len(unpacker.unused_data), 'byte')} behind its end")
    return b"".join(pieces)


def parse_rows(lines: bytes, item: ManifestObject, values: ValueForm) -> Any:
    """The lines as an Arrow table: bronze's columns but `table`, `topic` and `epoch`; `values` is the form that their plan names.

    Raises:
        BackupError: they are not the records that the manifest names.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    try:
        rows = pj.read_json(
            io.BytesIO(lines),
            read_options=pj.ReadOptions(block_size=len(lines) + 1, use_threads=False),
            parse_options=pj.ParseOptions(explicit_schema=_schema(values), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        raise BackupError.of_object(item.key, f"holds a line that is no record: {error}") from error
    offsets = pc.min_max(rows["offset"]).as_py()
    facts = (rows.num_rows, offsets["min"], offsets["max"], rows["partition"].unique().to_pylist())
    if facts != (item.records, item.min_offset, item.max_offset, [item.partition]):
        raise BackupError.of_object(
            item.key,
            f"holds {quantity(facts[0], 'record')}, offsets {facts[1]} to {facts[2]} (partitions: {facts[3]}); its manifest says "
            f"{item.records}, {item.min_offset} to {item.max_offset} of {item.partition}",
        )
    columns = {name: rows[name] for name in ("partition", "offset", "op", "position", "tx_id", "snapshot")}
    columns["timestamp"] = pc.multiply(rows["timestamp"], 1000).cast(pa.timestamp("us", "UTC"))
    columns["source_ts"] = rows["source_ts"].cast(pa.timestamp("us", "UTC"))
    columns["headers"] = _headers(rows["headers"])
    columns["key"] = _data(rows["key"], rows["key_base64"])
    if values == "text":
        columns["value"] = _data(rows["value"], rows["value_base64"])
    else:
        others = _data(rows["value_text"], rows["value_base64"])
        columns["value"] = pc.coalesce(json_values(lines, rows["size"].combine_chunks(), item), others.combine_chunks())
    return pa.table(columns)


def _schema(values: ValueForm) -> Any:
    import pyarrow as pa

    text = ["key", "key_base64", "op", "position", "snapshot", "tx_id", "value_base64"]
    text += ["value"] if values == "text" else ["value_text"]
    header = pa.struct([(name, pa.string()) for name in ("name", "name_base64", "value", "value_base64")])
    numbers = [("partition", pa.int32()), *((name, pa.int64()) for name in ("offset", "size", "source_ts", "timestamp"))]
    return pa.schema([("headers", pa.list_(header)), *((name, pa.string()) for name in text), *numbers])


def _data(text: Any, encoded: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = text.cast(pa.binary())
    if encoded.null_count == len(encoded):
        return plain
    decoded = [None if encoded_value is None else base64.b64decode(encoded_value) for encoded_value in encoded.to_pylist()]
    return pc.coalesce(plain, pa.chunked_array([pa.array(decoded, pa.binary())]))


def _headers(told: Any) -> Any:
    # A record without headers has null, as Kafka's reader gives it.
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if not pc.any(pc.greater(pc.list_value_length(told), 0)).as_py():
        return pa.nulls(len(told), kind)
    rows = [
        [{"key": _text(header), "value": _value(header)} for header in headers] if headers else None
        for headers in told.to_pylist()
    ]
    return pa.array(rows, kind)


def _text(header: dict[str, str | None]) -> str:
    plain, encoded = header["name"], header["name_base64"]
    return plain if plain is not None else base64.b64decode(encoded or "").decode(errors="replace")


def _value(header: dict[str, str | None]) -> bytes | None:
    plain, encoded = header["value"], header["value_base64"]
    return base64.b64decode(encoded) if encoded is not None else None if plain is None else plain.encode()
