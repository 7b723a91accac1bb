"""The first commit of a Delta table, without Spark: columns, properties and rows at once.

delta-rs takes no property of ours at a table's creation, and setting one later declares features that the table does not use
(1.6.6: variantType). So this one commit is written here, as the protocol has it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions): a Parquet file, and then the JSON file that names it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark.delta.data_files import AddFile, write_file
from spark.delta.put_commit import commit_info, put_commit
from spark.lake.folder import open_folder

_PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_NO_ZONE = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
}


def create_table(
    path: str, rows: pa.Table, properties: Mapping[str, str], user_metadata: str, *, bounded: Sequence[str] | None = None
) -> None:
    """The table with these rows as its version 0, or nothing; `bounded` as write_file.

    Raises:
        LeftToSparkError: somebody else has made one meanwhile.
    """
    files = [write_file(open_folder(path), rows, bounded)] if rows.num_rows else []
    create_table_of_files(path, rows.schema, files, properties, user_metadata)


def create_table_of_files(
    path: str,
    schema: pa.Schema,
    files: Sequence[AddFile],
    properties: Mapping[str, str],
    user_metadata: str,
    turn: tuple[str, int] | None = None,
) -> None:
    """The same of files that are written already; `turn` is an application's name, and the number of its transaction.

    Raises:
        LeftToSparkError: somebody else has made one meanwhile.
    """
    now = int(time.time() * 1000)
    count = sum(json.loads(file["stats"])["numRecords"] for file in files)
    without_zone = any(pa.types.is_timestamp(kind) and kind.tz is None for kind in map(_element, schema.types))
    actions: list[dict[str, Any]] = [
        commit_info("CREATE TABLE AS SELECT", user_metadata, {"numOutputRows": count}),
        {"protocol": _NO_ZONE if without_zone else _PLAIN},
        {"metaData": _metadata(schema, properties, now)},
    ]
    if turn is not None:
        actions.append({"txn": {"appId": turn[0], "version": turn[1], "lastUpdated": now}})
    actions += [{"add": file} for file in files]
    put_commit(path, 0, actions)


def _metadata(schema: pa.Schema, properties: Mapping[str, str], now: int) -> dict[str, Any]:
    from deltalake import Schema

    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": now,
    }


def _element(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind
