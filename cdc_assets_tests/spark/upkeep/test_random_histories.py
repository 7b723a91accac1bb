"""Random histories: the table folded run by run, and the one made again at once, are the same, and the database's."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets_tests.support.histories.acts import play, random_steps
from cdc_assets_tests.support.histories.examples import FEW_EXAMPLES
from cdc_assets_tests.support.lake.lake import ID_V, values
from cdc_assets_tests.support.lake.replayed import ReplayedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


@FEW_EXAMPLES
@given(seed=st.integers(0, 2**32))
@pytest.mark.all
def test_the_shadow_is_what_the_runs_have_folded(session: SparkSession, tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    table = ReplayedTable(session, tmp_path / str(next(_numbers)), ID_V)
    worlds = [play(random_steps(choice), first_key=100 * number) for number in range(12)]
    for partition, (_, connector) in enumerate(worlds):
        table.lake.put("t", *connector.records, partition=partition)
    ends = [connector.next_offset for _, connector in worlds]
    at = [0] * len(worlds)
    while at != ends:
        at = [min(end, now + choice.choice([0, end // 2, end])) for now, end in zip(at, ends, strict=True)]
        table.lake.append(table.lake.ranges("t", dict(enumerate(at))))
        if any(at):
            table.fold()
    before = table.told()
    prepared, _ = table.replay()
    assert prepared.is_empty, prepared.differences
    assert table.told() == before
    expected = sorted((row["id"], row["v"]) for database, _ in worlds for row in database.rows.values())
    assert sorted((row["id"], row["v"]) for row in values(table.spec.path)) == expected
