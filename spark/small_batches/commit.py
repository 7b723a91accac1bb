"""Files of records that tasks have written, as one commit of bronze: by delta-rs, and in an object store by ourselves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark.bronze import job as bronze_job
from spark.bronze.overlap import APP
from spark.delta.bronze_columns import NAMES
from spark.delta.checkpoints import checkpoint
from spark.delta.commits import Committed, bronze_metadata
from spark.delta.data_files import AddFile
from spark.delta.delta_rs import attempt, commit_settings, find_version, open_delta
from spark.delta.first_commit import create_table_of_files
from spark.delta.put_commit import commit_info, put_commit
from spark.delta.topic_commits import TopicCommit
from spark.errors import LeftToSparkError
from spark.lake.place import is_local
from spark.small_batches.reading import SCHEMA as OF_KAFKA
from spark.specs import BronzeSpec

_OWN = pa.schema(
    [
        *((name, pa.string()) for name in ("table", "op", "position", "tx_id", "snapshot")),
        *(("source_ts", pa.timestamp("us", "UTC")), ("epoch", pa.int32())),
    ]
)
_TYPES = {field.name: field.type for field in (*OF_KAFKA, *_OWN)}
SCHEMA = pa.schema([(name, _TYPES[name]) for name in NAMES])
"""Bronze's columns, as spark.delta.bronze_columns says them to Spark."""


def commit_files(spec: BronzeSpec, committed: Committed, files: Sequence[AddFile], shares: Mapping[str, TopicCommit]) -> int:
    """The version of the commit; the table is made by it where there is none.

    Raises:
        LeftToSparkError: nothing is committed.
    """
    metadata = bronze_metadata(spec.operation_id, committed, shares)
    if committed.version < 0:
        turn = (APP, committed.turn)
        create_table_of_files(spec.path, SCHEMA, files, bronze_job.TABLE_PROPERTIES, metadata, turn=turn)
        return find_version(spec.path, spec.operation_id)
    table = open_delta(spec.path)
    if table.version() != committed.version:
        raise LeftToSparkError("somebody else appends at the same time")
    if {field.name for field in table.schema().fields} != set(NAMES):
        raise LeftToSparkError("bronze has other columns")
    if is_local(spec.path):
        _commit_by_delta_rs(table, spec, committed, files, metadata)
    else:
        put_commit(spec.path, committed.version + 1, _actions(committed, files, metadata))
        checkpoint(table, spec.path, committed.version + 1)
    return find_version(spec.path, spec.operation_id)


def _commit_by_delta_rs(table: Any, spec: BronzeSpec, committed: Committed, files: Sequence[AddFile], metadata: str) -> None:
    from deltalake import Transaction
    from deltalake.transaction import AddAction, RemoveAction

    actions: list[AddAction | RemoveAction] = [
        AddAction(f["path"], f["size"], f["partitionValues"], f["modificationTime"], f["dataChange"], f["stats"]) for f in files
    ]
    settings = commit_settings(metadata, app_transactions=[Transaction(APP, committed.turn)], max_commit_retries=3)
    attempt(lambda: table.create_write_transaction(actions, "append", table.schema(), **settings), spec.path, spec.operation_id)


def _actions(committed: Committed, files: Sequence[AddFile], metadata: str) -> list[dict[str, Any]]:
    """The commit as the protocol has it. What the store does not answer, delta-rs would put again as the next version."""
    now, rows = int(time.time() * 1000), sum(json.loads(file["stats"])["numRecords"] for file in files)
    metrics = {"numFiles": len(files), "numOutputRows": rows, "numOutputBytes": sum(f["size"] for f in files)}
    return [
        commit_info("WRITE", metadata, metrics, {"mode": "Append"}),
        {"txn": {"appId": APP, "version": committed.turn, "lastUpdated": now}},
        *({"add": file} for file in files),
    ]
