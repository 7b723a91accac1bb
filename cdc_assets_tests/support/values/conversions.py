"""Leaves of events through the type conversions alone, without a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark.specs import Column
from spark.values.lake_types import lake_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def converted_leaves(
    session: SparkSession, kinds: Mapping[str, Column], sent: Sequence[tuple[int, str, Any]]
) -> list[tuple[int, str, Any]]:
    """Row, column and typed value, through the conversions alone."""
    from pyspark.sql import functions as sf

    leaves = [(n, name, leaf if isinstance(leaf, str) or leaf is None else json.dumps(leaf)) for n, name, leaf in sent]
    frame = session.createDataFrame(leaves, "n int, name string, leaf string")
    typed = [sf.when(sf.col("name") == name, lake_type(kind).convert(sf.col("leaf"))).alias(name) for name, kind in kinds.items()]
    return [(row["n"], row["name"], _plain(row[row["name"]])) for row in frame.select("n", "name", *typed).collect()]


def _plain(value: Any) -> Any:
    """As delta-rs would show it."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "asDict"):
        return {name: _plain(item) for name, item in value.asDict().items()}
    return bytes(value) if isinstance(value, bytearray) else value
