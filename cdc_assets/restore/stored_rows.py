"""An object of the backup as rows of bronze: first its size and digest, then its lines, within limits.

What it unpacks to is bounded, so that an object that is none of ours cannot fill the memory.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from collections.abc import Sequence
from typing import Any

from cdc_assets.backup.manifest import ManifestObject
from cdc_assets.backup.object_layout import Values
from cdc_assets.errors import DamagedObjectError, StoreError
from cdc_assets.quantity import quantity
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.restore.json_rows import json_values

MOST_UNPACKED = 1 << 30
"""Bytes. A batch has 64 MiB of keys and values, unless one record is larger."""
_PIECE = 8 << 20
_GZIP = 31
_OF_FORMAT_2 = b'"source_ts":'


def read_object(store: ObjectStore, item: ManifestObject) -> bytes:
    """The object's lines, as its manifest says them.

    Raises:
        DamagedObjectError: it is gone, or another one.
    """
    try:
        data = store.get(item.key)
    except StoreError as error:
        raise DamagedObjectError(item.key, f"cannot be read: {error}") from error
    if len(data) != item.size:
        raise DamagedObjectError(item.key, f"has {quantity(len(data), 'byte')}, its manifest says {item.size}")
    digest = hashlib.sha256(data).hexdigest()
    if digest != item.sha256:
        raise DamagedObjectError(item.key, f"has another content than its manifest says: sha256 {digest}, expected {item.sha256}")
    return unpack(data, item.key)


def unpack(data: bytes, key: str, *, most: int = MOST_UNPACKED) -> bytes:
    """One gzip member, whole, and nothing behind it.

    Raises:
        DamagedObjectError: it is none, or larger than `most` bytes.
    """
    unpacker, rest, size = zlib.decompressobj(wbits=_GZIP), data, 0
    pieces: list[bytes] = []
    try:
        while not unpacker.eof:
            piece = unpacker.decompress(rest, _PIECE)
            rest = unpacker.unconsumed_tail
            size += len(piece)
            if size > most:
                raise DamagedObjectError(key, f"unpacks to more than {most >> 20} MiB")
            if not piece and not rest:
                raise DamagedObjectError(key, "is cut short")
            pieces.append(piece)
    except zlib.error as error:
        raise DamagedObjectError(key, f"is no gzip: {error}") from error
    if unpacker.unused_data:
        raise DamagedObjectError(key, f"has {quantity(len(unpacker.unused_data), 'byte')} behind its end")
    return b"".join(pieces)


def has_all_columns(lines: bytes) -> bool:
    """Whether these lines hold what bronze's columns do; those of format 1 lack three."""
    return _OF_FORMAT_2 in lines.partition(b"\n")[0]


def read_rows(lines: bytes, item: ManifestObject, values: Values) -> Any:
    """The lines as an Arrow table: bronze's columns but `table`, `topic` and `epoch`; `values` is the form that their plan names.

    Raises:
        DamagedObjectError: they are not the records that the manifest names.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    try:
        found = pj.read_json(
            io.BytesIO(lines),
            read_options=pj.ReadOptions(block_size=len(lines) + 1, use_threads=False),
            parse_options=pj.ParseOptions(explicit_schema=_schema(values), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid as error:
        raise DamagedObjectError(item.key, f"holds a line that is no record: {error}") from error
    offsets = pc.min_max(found["offset"]).as_py()
    told = (found.num_rows, offsets["min"], offsets["max"], found["partition"].unique().to_pylist())
    if told != (item.records, item.min_offset, item.max_offset, [item.partition]):
        raise DamagedObjectError(
            item.key,
            f"holds {quantity(told[0], 'record')}, offsets {told[1]} to {told[2]} (partitions: {told[3]}); its manifest says "
            f"{item.records}, {item.min_offset} to {item.max_offset} of {item.partition}",
        )
    columns = {name: found[name] for name in ("partition", "offset", "op", "position", "tx_id", "snapshot")}
    columns["timestamp"] = pc.multiply(found["timestamp"], 1000).cast(pa.timestamp("us", "UTC"))
    columns["source_ts"] = found["source_ts"].cast(pa.timestamp("us", "UTC"))
    columns["headers"] = _headers(found["headers"])
    columns["key"] = _data(found["key"], found["key_base64"])
    if values == "text":
        columns["value"] = _data(found["value"], found["value_base64"])
    else:
        others = _data(found["value_text"], found["value_base64"])
        columns["value"] = pc.coalesce(json_values(lines, found["size"].combine_chunks(), item), others.combine_chunks())
    return pa.table(columns)


def _schema(values: Values) -> Any:
    import pyarrow as pa

    text = ["key", "key_base64", "op", "position", "snapshot", "tx_id", "value_base64"]
    text += ["value"] if values == "text" else ["value_text"]
    header = pa.struct([(name, pa.string()) for name in ("name", "name_base64", "value", "value_base64")])
    numbers = [("partition", pa.int32()), *((name, pa.int64()) for name in ("offset", "size", "source_ts", "timestamp"))]
    return pa.schema([("headers", pa.list_(header)), *((name, pa.string()) for name in text), *numbers])


def _data(text: Any, encoded: Any) -> Any:
    """Bytes; of those that are no text, as base64 says them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    said = text.cast(pa.binary())
    if encoded.null_count == len(encoded):
        return said
    decoded = [None if each is None else base64.b64decode(each) for each in encoded.to_pylist()]
    return pc.coalesce(said, pa.chunked_array([pa.array(decoded, pa.binary())]))


def _headers(told: Any) -> Any:
    """As Kafka's reader gives them: a record without any has null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if not pc.any(pc.greater(pc.list_value_length(told), 0)).as_py():
        return pa.nulls(len(told), kind)
    return pa.array([_header_row(each) for each in told.to_pylist()], kind)


def _header_row(told: Sequence[dict[str, str | None]] | None) -> list[dict[str, object]] | None:
    return [{"key": _text(each), "value": _value(each)} for each in told] if told else None


def _text(header: dict[str, str | None]) -> str:
    plain, encoded = header["name"], header["name_base64"]
    return plain if plain is not None else base64.b64decode(encoded or "").decode(errors="replace")


def _value(header: dict[str, str | None]) -> bytes | None:
    plain, encoded = header["value"], header["value_base64"]
    return base64.b64decode(encoded) if encoded is not None else None if plain is None else plain.encode()
