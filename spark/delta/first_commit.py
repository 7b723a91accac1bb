"""The first commit of a Delta table, without Spark: columns, properties and rows at once.

delta-rs takes no property of ours at a table's creation, and setting one later declares features that the table does not use
(1.6.6: variantType). So this one commit is written here, as the protocol has it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions): a Parquet file, and then the JSON file that names it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import LeftToSparkError

_PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_NO_ZONE = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
}


def create_table(
    path: str, rows: pa.Table, properties: Mapping[str, str], user_metadata: str, *, turn: tuple[str, int] | None = None
) -> None:
    """The table as its version 0, or nothing; `turn` is an application's name, and the number of its transaction.

    Raises:
        LeftToSparkError: somebody else has made one meanwhile.
    """
    now = int(time.time() * 1000)
    info = {"timestamp": now, "operation": "CREATE TABLE AS SELECT", "operationParameters": {}, "engineInfo": "cdc_assets"}
    without_zone = any(pa.types.is_timestamp(kind) and kind.tz is None for kind in map(_element, rows.schema.types))
    actions: list[dict[str, Any]] = [
        {"commitInfo": {**info, "operationMetrics": {"numOutputRows": str(rows.num_rows)}, "userMetadata": user_metadata}},
        {"protocol": _NO_ZONE if without_zone else _PLAIN},
        {"metaData": _metadata(rows.schema, properties, now)},
    ]
    if turn is not None:
        actions.append({"txn": {"appId": turn[0], "version": turn[1], "lastUpdated": now}})
    if rows.num_rows:
        actions.append({"add": _add_file(Path(path), rows, now)})
    _put(Path(path, "_delta_log"), "".join(json.dumps(action) + "\n" for action in actions))


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


def _add_file(folder: Path, rows: pa.Table, now: int) -> dict[str, Any]:
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    pq.write_table(rows, folder / name, compression="zstd", store_schema=False)
    size = (folder / name).stat().st_size
    stats = json.dumps({"numRecords": rows.num_rows})
    return {"path": name, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True, "stats": stats}


def _element(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind


def _put(log: Path, text: str) -> None:
    """Version 0, whole or not at all: a link is refused where the name is taken."""
    log.mkdir(exist_ok=True)
    draft = log / f".{uuid.uuid4().hex}.tmp"
    draft.write_text(text, encoding="utf-8")
    try:
        os.link(draft, log / f"{0:020}.json")
    except FileExistsError as error:
        raise LeftToSparkError("somebody else has made the table meanwhile") from error
    finally:
        draft.unlink()
