"""What the lake has committed, read from Delta logs through delta-rs: milliseconds, no JVM.

The log is the truth about positions (never a sensor's cursor, never a consumer group).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark.commits import BronzeCommitted, SilverCommitted, fold_bronze, latest_silver

_PAGE = 50


def bronze_committed(path: str) -> BronzeCommitted | None:
    """Positions and record counts of every topic in the source's change log; None when there is no table yet."""
    table = _open(path)
    return None if table is None else fold_bronze(_commits(table))


def bronze_rows(path: str, version: int) -> dict[tuple[str, int], int]:
    """Rows per (topic, partition) in the change log at a version, counted in the data, not in its metadata."""
    from collections import Counter

    from deltalake import DeltaTable

    counts: Counter[tuple[str, int]] = Counter()
    dataset = DeltaTable(path, version=version).to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=["topic", "partition"]):
        groups = batch.to_struct_array().value_counts()
        for group in groups.to_pylist():
            counts[group["values"]["topic"], group["values"]["partition"]] += group["counts"]
    return dict(counts)


def silver_committed(path: str) -> SilverCommitted | None:
    """What a silver table has folded; None when there is no table yet."""
    table = _open(path)
    return None if table is None else latest_silver(_commits(table))


def silver_rows(path: str, *, version: int | None = None) -> int | None:
    """Rows by the log's own statistics, deletion vectors taken off; None when there is no table yet."""
    table = _open(path, files=True, version=version)
    if table is None:
        return None
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=True))
    records = sum(value or 0 for value in actions["num_records"].to_pylist())
    name = "deletionVector.cardinality"
    removed = sum(v or 0 for v in actions[name].to_pylist()) if name in actions.column_names else 0
    return records - removed


def _open(path: str, *, files: bool = False, version: int | None = None) -> Any:
    from deltalake import DeltaTable

    if "://" not in path and not (Path(path) / "_delta_log").is_dir():
        return None
    if not DeltaTable.is_deltatable(path):
        return None
    return DeltaTable(path, version=version, without_files=not files)


def _commits(table: Any) -> Iterator[tuple[int, str]]:
    """`(version, userMetadata)` newest first; reads further back only as far as the caller asks."""
    seen = 0
    limit = _PAGE
    while True:
        page = table.history(limit)
        for entry in page[seen:]:
            yield int(entry["version"]), str(entry.get("userMetadata") or "")
        if len(page) < limit:
            return
        seen, limit = len(page), limit * 4
