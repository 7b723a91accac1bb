"""Keys of silver put right from bronze: what bronze says of them, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.both_writers import compare_writers
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.versions import COLUMNS, sent
from spark.proof import heal_from_bronze
from spark.proof.row_text import RowText

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


def test_a_row_that_was_moved_keeps_what_it_had_under_its_old_key(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", COLUMNS)
    lake.put("t", sent(0, 0, 1, "a", "x", "c"), sent(1, 1, 3, "a", "z", "c"))
    lake.put("t", sent(2, 4, 1, None, None, "d"), sent(3, 4, 2, "b", GAP, "c"), sent(4, 5, 2, "c", GAP, "u"))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    before = sorted(values(spec.path), key=lambda row: row["id"])
    assert before == [{"id": 2, "v": "c", "note": "x"}, {"id": 3, "v": "a", "note": "z"}]
    compare_writers(lake)
    # Broken by hand: as it was, and as it must be again.
    session.sql(f"UPDATE delta.`{spec.path}` SET note = 'broken', v = 'broken'")
    keys = session.range(1, 3).select(sf.col("id").cast("int").alias("c0"))
    texts = [row.key for row in keys.select(RowText(spec).key().alias("key")).collect()]
    assert heal_from_bronze.refold_keys(session, heal_from_bronze.Refold(spec, texts)) == 2
    assert sorted(values(spec.path), key=lambda row: row["id"]) == [before[0], {"id": 3, "v": "broken", "note": "broken"}]
