"""What Debezium sent for random histories of a real PostgreSQL, folded anyhow, is what PostgreSQL held in the end.

The recording is one of `python -m benchmarks.histories --save`, which also runs as many new histories as asked for.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cdc_assets_tests.histories as package
from cdc_assets_tests.histories.recording import load
from cdc_assets_tests.histories.replay import difference, fold
from cdc_assets_tests.spark.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = {r.table: r for r in load(Path(package.__file__).with_name("recording.json.gz"))}


@pytest.mark.parametrize("table", sorted(RECORDED))
def test_silver_equals_postgresql(session: SparkSession, tmp_path: Path, table: str) -> None:
    lake = Lake(session, tmp_path)
    spec = fold(lake, RECORDED[table], random.Random(f"7/{table}"), batches=3)
    assert difference(lake, spec, RECORDED[table]) is None
