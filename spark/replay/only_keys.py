"""Rows of chosen keys alone stay in a table that was made for somebody to look at."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from spark.delta.delta_rs import is_delta
from spark.delta.identifiers import quote, table_at
from spark.replay.chosen_keys import keys_by_name
from spark.specs import SilverSpec

_WANTED = "cdc_wanted_keys"


def count_keys(session: SparkSession, spec: SilverSpec, texts: Sequence[str]) -> int:
    """How many different keys these are.

    Raises:
        ReplayError: a text is none of a key.
    """
    return keys_by_name(session, texts, spec).count()


def keep_only(session: SparkSession, spec: SilverSpec, texts: Sequence[str], paths: Sequence[str]) -> int:
    """All other rows go from the tables that there are at these paths, by one commit each; how many of silver stay."""
    keys_by_name(session, texts, spec).createOrReplaceTempView(_WANTED)
    same = " AND ".join(f"t.{quote(key)} <=> w.{quote(key)}" for key in spec.keys)
    for path in paths:
        if is_delta(path):
            merge = f"MERGE INTO {table_at(path)} t USING {_WANTED} w ON {same} WHEN NOT MATCHED BY SOURCE THEN DELETE"
            session.sql(merge).collect()
    session.catalog.dropTempView(_WANTED)
    return session.read.format("delta").load(spec.path).count()
