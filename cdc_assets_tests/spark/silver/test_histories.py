"""Random histories, cut, repeated and interrupted anyhow, end in the state of the source.

Each example holds several independent worlds, one per topic partition, so that one Spark job checks many histories.
"""

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
from cdc_assets_tests.support.lake.capture import Connector, Database
from cdc_assets_tests.support.lake.lake import Lake, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


@FEW_EXAMPLES
@given(seed=st.integers(0, 2**32))
def test_silver_equals_the_source(session: SparkSession, tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    lake = Lake(session, tmp_path / str(next(_numbers)))
    histories = [random_steps(choice) for _ in range(18)]
    worlds = [play(steps, first_key=100 * number) for number, steps in enumerate(histories)]
    for partition, (_, connector) in enumerate(worlds):
        lake.put("t", *connector.records, partition=partition)
    spec = lake.spec("t")
    ends = [connector.next_offset for _, connector in worlds]
    at = [0] * len(worlds)
    while at != ends:
        at = [min(end, now + choice.choice([0, 5, end // 3, end // 2, end])) for now, end in zip(at, ends, strict=True)]
        asked = lake.ranges("t", dict(enumerate(at)))
        lake.append(asked)
        if choice.random() < 0.3:
            # Killed between the commit and what follows it: the same ranges are asked for again.
            assert lake.append(asked).version is None
        if choice.random() < 0.6 or at == ends:
            lake.fold(spec)
    assert lake.fold(spec).version is None
    expected = sorted((row["id"], row["v"]) for database, _ in worlds for row in database.rows.values())
    assert sorted((row["id"], row["v"]) for row in values(spec.path)) == expected


@pytest.mark.parametrize("blocking", [pytest.param(False, marks=pytest.mark.all), True])
def test_a_transaction_open_at_the_snapshot_beats_it(session: SparkSession, tmp_path: Path, blocking: bool) -> None:
    database = Database()
    connector = Connector(database)
    for key in (1, 2, 3):
        database.write(0, "insert", key)
    database.commit(0)
    if blocking:
        connector.snapshot()
        database.write(0, "insert", 9)
        database.commit(0)
    database.write(1, "update", 1)
    database.write(1, "delete", 2)
    database.lsn += 1000
    connector.snapshot(blocking=blocking)
    database.commit(1)
    connector.stream()
    lake = Lake(session, tmp_path)
    lake.put("t", *connector.records)
    lake.append(lake.all_of("t"))
    spec = lake.spec("t")
    lake.fold(spec)
    assert sorted(values(spec.path), key=lambda row: row["id"]) == sorted(database.rows.values(), key=lambda row: row["id"])
