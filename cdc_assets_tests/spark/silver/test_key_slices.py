"""Rows of more than one slice: each key comes whole to the function, in tasks or in the client, and values stay what they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from spark.silver import key_slices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """key string, number int, price decimal(20,4), at timestamp, local timestamp_ntz, day date, raw binary,
    names array<string>, place struct<x: double, y: string>, rows_of_key bigint"""
ROWS = """SELECT IF(id % 7 = 0, NULL, concat('k', id % 50)) key, int(id) number, cast(id / 8 AS decimal(20,4)) price,
    timestamp_micros(1700000000123456 + id) at, TIMESTAMP_NTZ'1900-01-01 00:00:00' + make_dt_interval(int(id)) local,
    date_add(DATE'0001-01-01', int(id)) day, IF(id % 3 = 0, NULL, unhex(hex(id))) raw, array(string(id), NULL) names,
    IF(id % 5 = 0, NULL, named_struct('x', id / 4.0D, 'y', string(id))) place FROM range(400)"""


def mark(rows: pa.Table) -> pa.Table:
    """Each row with how many rows of its key came with it."""
    keys = rows["key"].to_pylist()
    counted = Counter(keys)
    return rows.append_column("rows_of_key", pa.array([counted[key] for key in keys], pa.int64()))


@pytest.mark.parametrize("lack", ["", "no Python there"], ids=["tasks", "client"])
def test_each_key_comes_whole(session: SparkSession, monkeypatch: pytest.MonkeyPatch, lack: str) -> None:
    rows = session.sql(ROWS).transform(key_slices.as_nullable)
    schema = StructType.fromDDL(SCHEMA)
    # What the client makes of one slice, as it has been all along.
    whole = sorted(map(str, key_slices.fold_slices(rows, ["key"], mark, schema).collect()))
    assert len(whole) == 400
    monkeypatch.setattr(key_slices, "MOST_ROWS", 90)
    monkeypatch.setattr(key_slices, "small_work_lack", lambda session: lack)
    sliced = key_slices.fold_slices(rows, ["key"], mark, schema)
    assert sorted(map(str, sliced.collect())) == whole
    assert sliced.schema.simpleString() == schema.simpleString()
