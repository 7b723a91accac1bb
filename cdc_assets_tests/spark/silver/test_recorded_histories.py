"""What Debezium sent for random histories of a real PostgreSQL, folded anyhow, is what PostgreSQL held in the end.

The recording is one of `python -m benchmarks.histories --count 20 --tables 2 --kinds pair plain --steps 24 --seed 8 --save DIR`:
every kind of statement, DDL and snapshot is in it. The same command makes and folds as many new histories as asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import cdc_assets_tests.support.histories as package
from cdc_assets_tests.support.histories.comparison import difference
from cdc_assets_tests.support.histories.recording import load
from cdc_assets_tests.support.histories.replay import fold
from cdc_assets_tests.support.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_silver_equals_postgresql(session: SparkSession, remote: str, tmp_path: Path) -> None:
    recorded = load(Path(package.__file__).with_name("recording.json.gz"))
    lake = Lake(session, tmp_path)
    specs = fold(lake, recorded, "8", remote=remote, batches=3)
    assert [difference(lake, specs[table.table], table) for table in recorded] == [None] * len(recorded)
