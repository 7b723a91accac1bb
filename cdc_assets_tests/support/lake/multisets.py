"""A table without a key as a multiset: a random source of it, and what silver holds."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import Row, change
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.specs import Column, SilverSpec

COLUMNS = (Column("a", "integer"), Column("v", "text"), Column("x", "double precision"))


def multiset(lake: Lake) -> SilverSpec:
    return replace(lake.spec("t", COLUMNS, keys=()), without_key="multiset")


def held(spec: SilverSpec) -> Counter[str]:
    return Counter(json.dumps(row) for row in values(spec.path))


class Source:
    """A list of rows, and the events of what is done to them."""

    def __init__(self, seed: int, truncates: float = 0.1) -> None:
        self.truncates = truncates
        self.rows: list[Row] = []
        self.records: list[Record] = []
        self.random = random.Random(seed)

    def row(self) -> Row:
        pick = self.random.choice
        return {"a": pick([1, 2, None]), "v": pick(["x", "", None]), "x": pick([0.0, -0.0, 1.5])}

    def act(self) -> None:
        op = self.random.choice("cccuudt" if self.random.random() < self.truncates else "cccuud")
        if op in "ud" and not self.rows:
            op = "c"
        before = self.rows.pop(self.random.randrange(len(self.rows))) if op in "ud" else None
        after = self.row() if op in "cu" else None
        if op == "t":
            self.rows.clear()
        if after is not None:
            self.rows.append(after)
        self.records.append(change(len(self.records), op, before, after))

    @property
    def held(self) -> Counter[str]:
        return Counter(json.dumps(row) for row in self.rows)


def decode_mended(events: Any, spec: SilverSpec) -> Any:
    """`decode_changes` of a release that takes values that do not fit for NULL."""
    from pyspark.sql import functions as sf

    from spark.silver.typed_changes import PROBLEM, decode_changes

    fixed = sf.when(sf.col("problem.error_class") != "value", sf.col("problem")).otherwise(sf.lit(None).cast(PROBLEM))
    return decode_changes(events, spec).withColumn("problem", fixed)
