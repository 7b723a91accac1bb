"""The newest records of a source's change log as Arrow: what bronze's commits have added since a version, of some tables.

The log says which files these are (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file), so
nothing else of bronze is looked at. A log that lacks one of the versions, or in which rows were taken out meanwhile, is
left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from spark.envelopes.arrow_rows import keep_rows
from spark.errors import LeftToSparkError, quantity

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
        self._path, self._tables, self._after, self._version = Path(path), tables, after, version

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
        files = [file for v in range(self._after + 1, self._version + 1) for file in self._files_of(v)]
        if not files:
            return _SCHEMA.empty_table()
        try:
            found = ds.dataset([str(self._path / file) for file in files], format="parquet")
            return found.to_table(columns=list(COLUMNS), filter=ds.field("table").isin(list(self._tables)))
        except (OSError, pa.ArrowInvalid) as error:
            raise LeftToSparkError(f"a file of bronze is not to be read here: {error}") from error

    def _files_of(self, version: int) -> Iterator[str]:
        file = self._path / "_delta_log" / f"{version:020}.json"
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise LeftToSparkError(f"bronze's log has no version {version} here: {error}") from error
        for line in lines:
            action: dict[str, Any] = json.loads(line)
            if "remove" in action and action["remove"].get("dataChange", True):
                raise LeftToSparkError(f"rows were taken out of bronze by version {version}")
            if "add" in action and action["add"].get("dataChange", True):
                yield unquote(action["add"]["path"])
