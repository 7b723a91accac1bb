"""Deletion vectors of a Delta table, written: which rows of a file are gone. delta-rs reads them.

A vector is a set of row numbers as a 64-bit Roaring bitmap, a commit's vectors are one file, and an `add` names its own by a
descriptor. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vectors and
https://github.com/RoaringBitmap/RoaringFormatSpec
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np

from spark.lake.folder import LakeFolder

FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"
"""The table feature, and the property by which writers may make vectors."""
Descriptor = dict[str, Any]
_MAGIC, _NO_RUNS, _VERSION = 1681511377, 12346, b"\x01"
_MOST_IN_ARRAY = 4096
_PLACE_CHARACTERS = 20
"""A vector's place ends with so many: its file's UUID in Z85."""
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85, _FROM_Z85 = bytes.maketrans(_B85, _Z85), bytes.maketrans(_Z85, _B85)


def write_vectors(folder: LakeFolder, gone: Mapping[str, np.ndarray]) -> dict[str, Descriptor]:
    """By file, the descriptor of the vector that says which rows (numbers from 0, ascending) are gone."""
    name, descriptors, content = uuid.uuid4(), {}, [_VERSION]
    place = base64.b85encode(name.bytes).translate(_TO_Z85).decode()
    offset = 1
    for file, rows in gone.items():
        data = encode(rows)
        content += [struct.pack(">i", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        common = {"storageType": "u", "pathOrInlineDv": place, "offset": offset}
        descriptors[file] = {**common, "sizeInBytes": len(data), "cardinality": len(rows)}
        offset += len(data) + 8
    folder.put(f"deletion_vector_{name}.bin", b"".join(content))
    return descriptors


def encode(rows: np.ndarray) -> bytes:
    """Ascending row numbers below 2**32 as Delta's RoaringBitmapArray: one bitmap of 32 bits, in the portable form."""
    high, low = (rows >> 16).astype("<u2"), (rows & 0xFFFF).astype("<u2")
    keys, starts = np.unique(high, return_index=True)
    containers = [_container(part) for part in np.split(low, starts[1:])] if len(rows) else []
    counts = np.diff([*starts, len(rows)])
    header = struct.pack("<II", _NO_RUNS, len(keys)) + np.stack([keys, counts - 1], axis=1).astype("<u2").tobytes()
    places = len(header) + 4 * len(keys) + np.cumsum([0, *map(len, containers)])[:-1]
    bitmap = b"".join([header, places.astype("<u4").tobytes(), *containers])
    return struct.pack("<iqi", _MAGIC, 1, 0) + bitmap


def _container(numbers: np.ndarray) -> bytes:
    if len(numbers) <= _MOST_IN_ARRAY:
        return numbers.tobytes()
    bits = np.zeros(1 << 16, dtype=bool)
    bits[numbers] = True
    return np.packbits(bits, bitorder="little").tobytes()


def file_of_vector(place: str) -> str:
    """The file below the table's folder that a descriptor of storage type `u` names."""
    prefix, name = place[:-_PLACE_CHARACTERS], place[-_PLACE_CHARACTERS:]
    number = uuid.UUID(bytes=base64.b85decode(name.encode().translate(_FROM_Z85)))
    return f"{prefix}/deletion_vector_{number}.bin" if prefix else f"deletion_vector_{number}.bin"


def read_masks(table: Any) -> dict[str, np.ndarray]:
    """Of the files with a deletion vector, by path: for each row whether it is there."""
    import pyarrow as pa

    found, root = {}, Path(unquote(urlparse(table.table_uri).path))
    for read in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for uri, mask in zip(read.column(0).to_pylist(), read.column(1), strict=True):
            found[str(Path(unquote(urlparse(uri).path)).relative_to(root))] = mask.values.to_numpy(zero_copy_only=False)
    return found
