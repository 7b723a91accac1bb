"""Rows of Spark through a function on Arrow tables, in slices of whole keys: Spark reads and deals, the function has the rule.

A slice is folded in the client, so that it needs no Python in the executors, nor a daemon of Python for each session
(spark.table.spark_session.task_session_id). It is sized by rows and by bytes: a slice of the events of one key is the least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from spark.table.spark_session import compute_once

MOST_ROWS, MOST_BYTES = 200_000, 64 << 20
"""Of a slice; the bytes are those of its texts."""


def as_nullable(rows: DataFrame) -> DataFrame:
    """The same rows, whose nested values may be NULL throughout: toArrow() of pyspark 4.0.4 fails at a struct that is NULL where
    one of its fields must not be (ArrowInvalid, "nulls in input cannot be viewed as non-nullable")."""
    nested = [field for field in rows.schema.fields if isinstance(field.dataType, ArrayType | MapType | StructType)]
    return rows.withColumns({field.name: sf.col(field.name).cast(field.dataType.simpleString()) for field in nested})


def fold_slices(rows: DataFrame, keys: Sequence[str], fold: Callable[[pa.Table], pa.Table], schema: StructType) -> DataFrame:
    """What `fold` makes of the rows of each slice, in the columns of `schema`; all rows of a key are in one.

    The rows are read once for their size, and once for each slice: let them be computed (spark.table.spark_session.compute_once),
    and `as_nullable`.
    """
    schema = StructType([StructField(field.name, field.dataType) for field in schema.fields])
    session, frames, slices = rows.sparkSession, list[DataFrame](), _slices(rows, keys)
    for rows_of_slice in slices:
        folded = fold(rows_of_slice.toArrow()).select(schema.names)
        if folded.num_rows:
            frame = session.createDataFrame(folded, schema)
            # Rows sent from here are part of every plan that they are in: of many, Spark keeps them in its blocks instead.
            frames.append(frame if len(slices) == 1 else frame.transform(compute_once))
    return reduce(DataFrame.unionByName, frames) if frames else session.createDataFrame([], schema)


def _slices(rows: DataFrame, keys: Sequence[str]) -> list[DataFrame]:
    texts = [field.name for field in rows.schema.fields if isinstance(field.dataType, StringType | BinaryType)]
    lengths = sum((sf.coalesce(sf.octet_length(name), sf.lit(0)) for name in texts), sf.lit(0).cast("bigint"))
    size = rows.agg(sf.count("*").alias("rows"), sf.sum(lengths).alias("bytes")).collect()[0]
    slices = max(1, -(-size.rows // MOST_ROWS), -(-(size.bytes or 0) // MOST_BYTES))
    if slices == 1:
        return [rows]
    return [rows.where(sf.pmod(sf.xxhash64(*keys), sf.lit(slices)) == number) for number in range(slices)]
