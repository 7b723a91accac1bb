"""Delta tables as the Spark jobs leave them, as far as the orchestrator reads them: rows and commit metadata."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from cdc_assets.clients.delta_log import bronze_committed
from spark.table.commit_metadata import Committed, CommittedTopic, Folded, TopicCommit, bronze_metadata, silver_metadata


def append_bronze(
    path: Path,
    topic: str,
    table: str,
    topic_id: str,
    start: int,
    end: int,
    *,
    version: int,
    epoch: int = 0,
    seen: bool = False,
) -> None:
    """One append of `end - start` records that has seen none of the appends before it: the fold must find them all.

    One that opens an epoch has seen them (or one that is told to): it says what the epochs before held.
    """
    base = ((epoch or seen) and bronze_committed(str(path))) or Committed(-1, {})
    share = TopicCommit(table, topic_id, epoch, {0: (start, end)}, records=end - start)
    rows = pa.table(
        {
            "topic": pa.array([topic] * (end - start), pa.string()),
            "partition": pa.array([0] * (end - start), pa.int32()),
            "offset": pa.array(range(start, end), pa.int64()),
        }
    )
    metadata = {"userMetadata": bronze_metadata(f"op-{version}", base, {topic: share})}
    write_deltalake(str(path), rows, mode="append", commit_properties=CommitProperties(custom_metadata=metadata))


def write_silver(path: Path, topic: str, table: str, topic_id: str, records: int, *, epoch: int = 0) -> None:
    """A silver table that has folded `records` records of the epoch."""
    state = CommittedTopic(table, topic_id, epoch, {0: records}, records=records)
    metadata = {"userMetadata": silver_metadata("op", Folded(0, {topic: state}), {})}
    rows = pa.table({"id": pa.array(range(records), pa.int64())})
    write_deltalake(str(path), rows, mode="append", commit_properties=CommitProperties(custom_metadata=metadata))
