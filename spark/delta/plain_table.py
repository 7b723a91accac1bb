"""A small Delta table at one version, read by Spark as the Parquet files that the version consists of.

Delta's own reader makes a snapshot of every version that it has not seen: Spark jobs over the log, half of what it takes to
compare a table of some hundred rows (ADR 100). A table is plain where its files are its rows, under its columns' names: no
deletion vectors, no column mapping, no widened types
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#reader-requirements-for-deletion-vectors and what follows).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


@dataclass(frozen=True)
class PlainTable:
    """`files` as Spark opens them, one at least; `schema` in Delta's JSON; `properties` are the table's."""

    files: tuple[str, ...]
    schema: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Their names, in the table's order."""
        return [column["name"] for column in json.loads(self.schema)["fields"]]


def read_plain(session: SparkSession, table: PlainTable) -> DataFrame:
    """The table's rows. Spark finds no partitions in the folders' names: those below a file's own folder alone count."""
    return session.read.schema(StructType.fromJson(json.loads(table.schema))).parquet(*table.files)
