"""Rows of Spark through a function on Arrow tables, all rows of a key together: Spark reads and deals, the function has the rule.

What fits into one slice is folded in the client. More is folded by tasks, one slice each: so memory is bounded by the slice, and
not by the table. Where the executors cannot do it in Python, the client folds slice by slice.

https://spark.apache.org/docs/4.0.1/api/python/reference/pyspark.sql/api/pyspark.sql.DataFrame.mapInArrow.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from spark.table.server_facts import small_work_lack
from spark.table.spark_session import compute_once

MOST_ROWS, MOST_BYTES = 200_000, 64 << 20
"""Of a slice; the bytes are those of its texts. A slice of the events of one key is the least."""
Fold = Callable[[pa.Table], pa.Table]


def as_nullable(rows: DataFrame) -> DataFrame:
    """The same rows, whose nested values may be NULL throughout: toArrow() of pyspark 4.0.4 fails at a struct that is NULL where
    one of its fields must not be (ArrowInvalid, "nulls in input cannot be viewed as non-nullable")."""
    nested = [field for field in rows.schema.fields if isinstance(field.dataType, ArrayType | MapType | StructType)]
    return rows.withColumns({field.name: sf.col(field.name).cast(field.dataType.simpleString()) for field in nested})


def fold_slices(rows: DataFrame, keys: Sequence[str], fold: Fold, schema: StructType) -> DataFrame:
    """What `fold` makes of the rows of each slice, in the columns of `schema`; all rows of a key are in one.

    The rows are read once for their size, and once more whenever the answer is: let what they are made of be computed
    (spark.table.spark_session.compute_once), and the answer, where it is read more than once. The rows are `as_nullable`.
    """
    slices = _count_slices(rows)
    if slices == 1:
        return fold_in_client(rows, fold, schema)
    return _deal(rows, keys, fold, schema, slices)


def fold_in_client(rows: DataFrame, fold: Fold, schema: StructType) -> DataFrame:
    """The same of rows that are few."""
    return rows.sparkSession.createDataFrame(fold(rows.toArrow()).select(schema.names), _nullable(schema))


def _deal(rows: DataFrame, keys: Sequence[str], fold: Fold, schema: StructType, slices: int) -> DataFrame:
    if not small_work_lack(rows.sparkSession):
        # Each session whose tasks run Python keeps a daemon on the server (spark.table.spark_session.task_session_id): a few of
        # 100 MB each, for tables of which the client would read all rows, and as often as there are slices.
        dealt = rows.repartition(slices, *map(sf.col, keys))
        return dealt.mapInArrow(partial(_fold_batches, fold, to_arrow_schema(_nullable(schema))), _nullable(schema))
    number = sf.pmod(sf.xxhash64(*keys), sf.lit(slices))
    # Rows sent from here are part of every plan that they are in: Spark keeps them in its blocks instead.
    folded = [fold_in_client(rows.where(number == at), fold, schema).transform(compute_once) for at in range(slices)]
    return reduce(DataFrame.unionByName, folded)


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


def _fold_batches(fold: Fold, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fold the rows of one slice, in a task of Spark."""
    if all_batches := list(batches):
        yield from fold(pa.Table.from_batches(all_batches)).select(schema.names).cast(schema).to_batches()


def _count_slices(rows: DataFrame) -> int:
    texts = [field.name for field in rows.schema.fields if isinstance(field.dataType, StringType | BinaryType)]
    lengths = sum((sf.coalesce(sf.octet_length(name), sf.lit(0)) for name in texts), sf.lit(0).cast("bigint"))
    size = rows.agg(sf.count("*").alias("rows"), sf.sum(lengths).alias("bytes")).collect()[0]
    return max(1, -(-size.rows // MOST_ROWS), -(-(size.bytes or 0) // MOST_BYTES))
