"""Arrow batches as a backup reads them from bronze, and what keys and values may be."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
TEXT = st.text(st.sampled_from('a"\\/ü\u2028😀{}') | st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
DATA = st.none() | TEXT.map(str.encode)
ANY_DATA = DATA | st.binary(max_size=6) | st.sampled_from([b"\x00", b"a\nb", b"\x7f", b"\xff"])


def as_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    ordered = sorted(rows, key=lambda row: row[:2])
    types = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.int64(), "op": pa.string(), "position": pa.string()}
    types |= {"headers": pa.list_(HEADER), "key": pa.binary(), "value": pa.binary()}
    types |= {"tx_id": pa.string(), "source_ts": pa.int64(), "snapshot": pa.string()}
    columns = [pa.array(column, kind) for column, kind in zip(zip(*ordered, strict=True), types.values(), strict=True)]
    # Not from its begin on: what stands before a slice in its buffers is not its own.
    return pa.record_batch(columns, names=list(types)).slice(1)
