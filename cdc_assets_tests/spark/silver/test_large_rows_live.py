"""A row that is larger than Kafka takes: it waits in quarantine by its key, and the source goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.proof.comparison_result import EQUAL
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "public.large_t"


@pytest.mark.stack
def test_a_row_that_is_too_large_for_kafka_stands_alone(
    live: LiveSource, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    own = replace(live, name="large")
    with own.connection() as source, own.settings():
        source.execute(f"CREATE TABLE {NAME} (id int PRIMARY KEY, n int, v text)")
        # One that the snapshot reads, one that comes by the log, one that grows; and what comes behind each.
        source.execute(f"INSERT INTO {NAME} VALUES (1, 0, 'one'), (2, 0, repeat('x', 12000000)), (3, 0, 'three')")
        own.capture([NAME])
        chain = SmallChain(own, remote, tmp_path, own.source([NAME]), session)
        source.execute(f"INSERT INTO {NAME} VALUES (4, 0, repeat('y', 11000000)), (5, 0, 'five')")
        source.execute(f"UPDATE {NAME} SET n = 1, v = repeat('z', 12000000) WHERE id = 3")
        source.execute(f"UPDATE {NAME} SET n = 2 WHERE id = 1")
        chain.advance()
        status = own.connect.status("large-capture")
        assert status is not None
        assert not status.failed, status
        rows = {row["id"]: (row["n"], row["v"]) for row in values(chain.silver(NAME))}
        assert rows == {1: (2, "one"), 3: (0, "three"), 5: (0, "five")}
        aside = {
            json.loads(row["row_key"])["id"]: row
            for row in values(names.quarantine_path(str(tmp_path), chain.source, chain.source.table(NAME)))
        }
        assert set(aside) == {2, 3, 4}
        for row in aside.values():
            assert row["error_class"] == "large"
            assert row["message"].startswith("the record is too large: 1"), row["message"]
            assert "above the 10420224 of its connector; sha256 of its value " in row["message"]
        (result,) = chain.compare().values()
        assert result.verdict != EQUAL, result
        # A smaller one says all of the row.
        source.execute(f"UPDATE {NAME} SET v = 'small again' WHERE id IN (2, 3, 4)")
        chain.advance()
        expected = source.execute(f"SELECT id, n, v FROM {NAME} ORDER BY id").fetchall()
    assert sorted((row["id"], row["n"], row["v"]) for row in values(chain.silver(NAME))) == expected
