"""A commit of a Delta table, written by us as a file of its log: whole or not at all; the first one makes the table.

An object store may answer late or not at all: then the log tells whose commit is there, or nobody can (CommitUncertainError).
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries

delta-rs takes no property of ours at a table's creation, and setting one later declares features that the table does not use
(1.6.6: variantType). So a table's first commit is columns, properties and rows at once: a Parquet file, and then the JSON file
that names it (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark.errors import CommitUncertainError, EndpointError, LeftToSparkError
from spark.table.data_files import AddFile, write_file
from spark.table.log_reader import commit_file
from spark.table.table_folder import LakeFolder, open_folder
from spark.table.write_lease import refuse_lost

_TRIES, _SECONDS = 3, 0.5


def put_commit(path: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """The actions as this version, which nobody else has made. One of them has to be ours alone, as a commitInfo with an
    operation id is: an object store may answer late or not at all, and then the log tells whose commit is there.

    Raises:
        LeftToSparkError: somebody else has committed it meanwhile.
        CommitUncertainError: the store does not say.
    """
    folder, name = open_folder(path), commit_file(version)
    content = "".join(json.dumps(action) + "\n" for action in actions).encode()
    refuse_lost(path)
    if not _is_put(folder, name, content):
        raise LeftToSparkError(f"somebody else has committed version {version} of the table meanwhile")


def commit_info(
    operation: str, user_metadata: str, metrics: Mapping[str, object], parameters: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The first action of a commit of ours; its figures as texts, as Delta has them."""
    return {
        "commitInfo": {
            "timestamp": int(time.time() * 1000),
            "operation": operation,
            "operationParameters": dict(parameters or {}),
            "operationMetrics": {name: str(figure) for name, figure in metrics.items()},
            "engineInfo": "cdc_assets",
            "userMetadata": user_metadata,
        }
    }


def _is_put(folder: LakeFolder, name: str, content: bytes) -> bool:
    """Whether the file is there with this content. The same put again is refused by one that came through, and is safe."""
    for left in reversed(range(_TRIES)):
        try:
            return folder.put_if_absent(name, content) or folder.read(name) == content
        except (EndpointError, FileNotFoundError) as error:
            if not left:
                raise CommitUncertainError(f"{folder.path}: nobody says whether {name} is written: {error}") from error
            time.sleep(_SECONDS)
    raise AssertionError("unreachable")


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
    leaves = [kind.value_type if pa.types.is_list(kind) else kind for kind in schema.types]
    without_zone = any(pa.types.is_timestamp(kind) and kind.tz is None for kind in leaves)
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
