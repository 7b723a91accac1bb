"""The newest event of each key: Spark's aggregation of many events says what the fold says of few (row_fold.newest_per_key)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from cdc_assets_tests.support.histories.fold_events import SCHEMA, delivered, event, history
from cdc_assets_tests.support.oracles.version_oracle import Happened
from spark.silver import newest_event, row_fold
from spark.silver.row_fold import FACTS, FoldPlan
from spark.specs import META, Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES, KEYS_OF_HISTORY = 200, 100
SPEC = SilverSpec(
    "shop",
    "orders",
    "/no/bronze",
    "/no/silver",
    (Column("id", "integer"), Column("v", "text"), Column("note", "text")),
    ("id",),
)


def test_both_say_the_same_of_each_key(session: SparkSession) -> None:
    chosen = random.Random(7)
    rows = [one for n in range(HISTORIES) for one in delivered(chosen, history(chosen, KEYS_OF_HISTORY * n))]
    truncates = chosen.sample(range(HISTORIES * KEYS_OF_HISTORY), 5)
    rows += [{**event(Happened(place, 0, "t"), place), "c0": None} for place in truncates]
    rows = [{**row, "is_late": chosen.random() < 0.1} for row in rows]
    table = pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("is_late", pa.bool_())))
    by_rule = row_fold.newest_per_key(table, FoldPlan.of(SPEC)).to_pylist()
    events = newest_event.with_lateness(session.createDataFrame(table), SPEC, sf.col("is_late"))
    made = newest_event.newest_per_key(events, SPEC)
    assert made.columns == newest_event.newest_schema(events, SPEC).names
    by_spark = made.toArrow().to_pylist()
    names = ("c0", "c1", "c2", *META, "absent", *FACTS)
    assert len(by_rule) == len(by_spark)
    assert {str([row[name] for name in names]) for row in by_spark} == {str([row[name] for name in names]) for row in by_rule}
    assert {row["truncated"] for row in by_spark} > {None}
    assert any(row["problems"] for row in by_spark)
