"""The comparison that ends each test of a small lake: what differs is named, and what was made by other rules is made by them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.both_writers import compare_writers, compare_written
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import ID_V, WRITTEN, Lake
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.all
def test_a_row_that_only_one_writer_has_is_named(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", *[event(offset, {"id": offset, "v": "a"}) for offset in range(3)])
    rules = (lake.spec("t"), lake.spec("t", (*ID_V, Column("w", "text"))))
    for end, spec in zip((2, 3), rules, strict=True):
        lake.append(lake.ranges("t", {0: end}))
        lake.fold(spec)
    assert (lake.appended_by_tasks, lake.folded_by_tasks) == (2, 1)
    compare_writers(lake)
    assert WRITTEN == {}
    DeltaTable(rules[0].path).update(updates={"v": "'b'"}, predicate="id = 1")
    with pytest.raises(AssertionError, match=r"silver/source/t: only by the steps \[\('id=1', \"v='b'\""):
        compare_writers(lake)
    DeltaTable(lake.bronze_path).delete('"offset" = 2')
    with pytest.raises(AssertionError, match=r"bronze/source: only by the steps \[\], only by Spark at once .*'offset=2'"):
        compare_writers(lake)


def test_what_says_why_not_is_left_out(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "a"}))
    lake.append(lake.all_of("t"))
    DeltaTable(lake.bronze_path).delete()
    lake.not_compared = "its only record was taken out by hand"
    assert len(WRITTEN) == 1
    compare_written()
    assert WRITTEN == {}
