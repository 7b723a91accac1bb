"""What Debezium sent for random histories of a real PostgreSQL, folded anyhow, is what PostgreSQL held in the end.

The recording is one of `python -m benchmarks.histories --count 20 --tables 2 --kinds pair plain --steps 24 --seed 8 --save DIR`:
every kind of statement, DDL and snapshot is in it. The same command makes and folds as many new histories as asked for.
Folded by seed 11 in two batches, silver never sees a column that one of the tables had for a while, and says so of its events.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cdc_assets_tests.support.histories as package
from cdc_assets_tests.support.histories.comparison import difference
from cdc_assets_tests.support.histories.recording import load
from cdc_assets_tests.support.histories.replay import fold
from cdc_assets_tests.support.lake.lake import Lake
from spark.events.field_columns import UNTOLD
from spark.silver import quarantine_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("seed", "batches", "unseen", "of"),
    [("8", 3, [], 2), *(pytest.param(*played, 1, marks=pytest.mark.all) for played in (("8", 3, []), ("11", 2, ["pair_0"])))],
)
def test_silver_equals_postgresql(
    session: SparkSession, remote: str, tmp_path: Path, seed: str, batches: int, unseen: list[str], of: int
) -> None:
    """Of the tables, one out of so many."""
    recorded = load(Path(package.__file__).with_name("recording.json.gz"))[::of]
    lake = Lake(session, tmp_path)
    specs = fold(lake, recorded, seed, remote=remote, batches=batches)
    assert [difference(lake, specs[table.table], table) for table in recorded] == [None] * len(recorded)
    untold = [
        name
        for name, spec in specs.items()
        if quarantine_table.exists(session, spec)
        and not quarantine_table.table(session, spec)
        .where(quarantine_table.OPEN)
        .where(f'startswith(message, "{UNTOLD}")')
        .isEmpty()
    ]
    assert untold == unseen
