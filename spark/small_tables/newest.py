"""Many changes of a key to one: the newest wins, as spark.silver.fold says of keys whose newest event holds its whole row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

POSITION = "_cdc_position"


def newest_per_key(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row per key, that of the highest position; `changes` has no NULL in a key and none in its positions."""
    by_position = pc.sort_indices(changes, sort_keys=[(POSITION, "ascending")])
    rank = np.empty(changes.num_rows, dtype=np.int64)
    rank[by_position.to_numpy()] = np.arange(changes.num_rows)
    ranked = changes.select(list(keys)).append_column("rank", pa.array(rank))
    last = ranked.group_by(list(keys), use_threads=False).aggregate([("rank", "max")])
    return changes.take(by_position.take(last["rank_max"].combine_chunks()))
