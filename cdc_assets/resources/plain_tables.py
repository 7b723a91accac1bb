"""Which small tables Spark may read as their files alone (spark.delta.plain_table): told by delta-rs, of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.resources.delta_rows import is_plain
from spark.delta.delta_rs import open_delta

if TYPE_CHECKING:
    from spark.delta.plain_table import PlainTable

_FILES_UP_TO = 32
"""Spark looks at up to so many by itself; for more it starts a job (spark.sql.sources.parallelPartitionDiscovery.threshold)."""


def plain_table(path: str, version: int) -> PlainTable | None:
    """The table at a version; None where its files are not its rows, where it has none, or many."""
    from spark.delta.plain_table import PlainTable

    table = open_delta(path, version=version)
    if not is_plain(table):
        return None
    names = table.get_add_actions(flatten=True)["path"].to_pylist()
    # Names in a log are URIs: one of another folder, or one that is written otherwise than its file, is left to Delta.
    if not 0 < len(names) <= _FILES_UP_TO or any("%" in name or ":" in name or name.startswith("/") for name in names):
        return None
    files = tuple(f"{path}/{name}" for name in sorted(names))
    return PlainTable(files, table.schema().to_json(), dict(table.metadata().configuration))
