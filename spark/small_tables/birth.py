"""A silver table that is not there yet: its first commit, which holds its columns, properties, ledger and rows.

delta-rs takes no property of ours at a table's creation, and setting one later declares features that the table does not use
(1.6.6: variantType). So this one commit is written here, as the protocol has it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions): a Parquet file, and then the JSON file that names it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import LeftToSparkError
from spark.schema.column_ledger import PROPERTY
from spark.schema.evolution import first_ledger
from spark.silver import table as silver_table
from spark.small_tables.decode import Field
from spark.specs import SilverSpec

_META = (
    pa.field("_cdc_position", pa.string()),
    pa.field("_cdc_op", pa.string()),
    pa.field("_cdc_source_ts", pa.timestamp("us", "UTC")),
    pa.field("_cdc_tx_id", pa.string()),
)
_PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_NO_ZONE = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
}


def lake_schema(fields: Sequence[Field]) -> pa.Schema:
    """The table's columns, with the source's types as comments, and silver's own."""
    own = [pa.field(f.column.name, f.form.lake, metadata={"comment": f.column.source_type}) for f in fields]
    return pa.schema([*own, *_META])


def create_table(spec: SilverSpec, rows: pa.Table, user_metadata: str) -> None:
    """The table as its version 0, or nothing.

    Raises:
        LeftToSparkError: somebody else has made one meanwhile.
    """
    now = int(time.time() * 1000)
    info = {"timestamp": now, "operation": "CREATE TABLE AS SELECT", "operationParameters": {}, "engineInfo": "cdc_assets"}
    without_zone = any(pa.types.is_timestamp(kind) and kind.tz is None for kind in map(_element, rows.schema.types))
    actions: list[dict[str, Any]] = [
        {"commitInfo": {**info, "operationMetrics": {"numOutputRows": str(rows.num_rows)}, "userMetadata": user_metadata}},
        {"protocol": _NO_ZONE if without_zone else _PLAIN},
        {"metaData": _metadata(spec, rows.schema, now)},
    ]
    if rows.num_rows:
        actions.append({"add": _add_file(Path(spec.path), rows, now)})
    _put(Path(spec.path, "_delta_log"), "".join(json.dumps(action) + "\n" for action in actions))


def _metadata(spec: SilverSpec, schema: pa.Schema, now: int) -> dict[str, Any]:
    from deltalake import Schema

    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": [],
        "configuration": {**silver_table.properties(spec), PROPERTY: first_ledger(spec).to_text()},
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
