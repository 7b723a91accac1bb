"""Many changes of a key to one: the newest wins, as spark.silver.fold says of keys whose newest event holds its whole row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark.envelopes.arrow_rows import sort_rows

POSITION = "_cdc_position"


def newest_per_key(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One row per key, that of the highest position; `changes` has no NULL in a key and none in its positions."""
    changes = sort_rows(changes, [POSITION])
    ranked = changes.select(list(keys)).append_column("_cdc_rank", pa.array(np.arange(changes.num_rows)))
    last = ranked.group_by(list(keys), use_threads=False).aggregate([("_cdc_rank", "max")])
    return changes if last.num_rows == changes.num_rows else changes.take(last["_cdc_rank_max"].combine_chunks())
