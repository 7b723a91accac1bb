"""The newest records of a source's change log as Arrow: what bronze's commits have added since a version, of some tables.

The log says which files these are (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file), so
nothing else of bronze is looked at. A log that lacks one of the versions, or in which rows were taken out meanwhile, is
left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark.envelopes.arrow_rows import keep_rows
from spark.errors import LeftToSparkError, quantity
from spark.lake.folder import open_folder
from spark.maintenance.needs import KIND

_SCHEMA = pa.schema(
    [
        *(("table", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        *(("key", pa.binary()), ("value", pa.binary()), ("op", pa.string()), ("position", pa.string())),
        *(("tx_id", pa.string()), ("source_ts", pa.timestamp("us", "UTC"))),
    ]
)
COLUMNS = tuple(_SCHEMA.names)
MOST_VERSIONS = 500


class BronzeTail:
    """The records of `tables` in the versions above `after`, up to and with `version`."""

    def __init__(self, path: str, tables: Sequence[str], *, after: int, version: int) -> None:
        self._folder, self._tables, self._after, self._version = open_folder(path), tables, after, version

    def of_table(self, table: str) -> pa.Table:
        """The table's records, in COLUMNS.

        Raises:
            LeftToSparkError: the log does not say it all.
        """
        return keep_rows(self._records, pc.equal(self._records["table"], table))

    @cached_property
    def _records(self) -> pa.Table:
        if self._version - self._after > MOST_VERSIONS:
            raise LeftToSparkError(f"{quantity(self._version - self._after, 'version')} of bronze to be read")
        names = [f"_delta_log/{version:020}.json" for version in range(self._after + 1, self._version + 1)]
        files = [file for found in self._folder.map(self._files_of, names) for file in found]
        if not files:
            return _SCHEMA.empty_table()
        try:
            found = ds.dataset(files, format="parquet", filesystem=self._folder.filesystem)
            return found.to_table(columns=list(COLUMNS), filter=ds.field("table").isin(list(self._tables)))
        except (OSError, pa.ArrowInvalid) as error:
            raise LeftToSparkError(f"a file of bronze is not to be read here: {error}") from error

    def _files_of(self, commit: str) -> list[str]:
        try:
            actions: list[dict[str, Any]] = [json.loads(line) for line in self._folder.lines(commit)]
        except OSError as error:
            raise LeftToSparkError(f"bronze's log has no {commit} here: {error}") from error
        if _is_maintenance(actions):
            return []  # what went was folded long ago, and what such a commit adds was there before
        if any("remove" in action and action["remove"].get("dataChange", True) for action in actions):
            raise LeftToSparkError(f"rows were taken out of bronze by {commit}")
        return [unquote(a["add"]["path"]) for a in actions if "add" in a and a["add"].get("dataChange", True)]


def _is_maintenance(actions: Sequence[dict[str, Any]]) -> bool:
    """Whether the commit says of itself that it says nothing of what the table holds."""
    for action in actions:
        told = str(action.get("commitInfo", {}).get("userMetadata") or "")
        if told.startswith("{"):
            return bool(json.loads(told).get("kind") == KIND)
    return False
