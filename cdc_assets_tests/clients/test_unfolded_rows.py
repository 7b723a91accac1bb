"""How many events between two places of the log silver has folded; written by delta-rs, with a protocol of Spark's."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_assets.capture.model_differences import RowsBetween, rows_between
from spark.table.commit_metadata import Committed, CommittedTopic, Folded, TopicCommit, bronze_metadata

TOPIC = "core.shop.shop.orders"
PLACES = ("0000000001.0000000000000002", "0000000001.0000000000000004")


@pytest.fixture
def bronze(tmp_path: Path) -> str:
    """Four events, one at each of the places 1 to 4."""
    share = TopicCommit("orders", "id", 0, {0: (0, 4)}, records=4)
    metadata = {"userMetadata": bronze_metadata("op", Committed(-1, {}), {TOPIC: share})}
    rows = pa.table(
        {
            "topic": [TOPIC] * 4,
            "partition": pa.array([0] * 4, pa.int32()),
            "offset": pa.array(range(4), pa.int64()),
            "position": [f"0000.0000000001.{place:016x}" for place in range(1, 5)],
        }
    )
    write_deltalake(tmp_path / "bronze", rows, commit_properties=CommitProperties(custom_metadata=metadata))
    return str(tmp_path / "bronze")


@pytest.mark.parametrize(("offset", "expected"), [(0, RowsBetween(0, 2)), (2, RowsBetween(1, 1)), (4, RowsBetween(2, 0))])
def test_events_that_silver_has_and_those_that_it_has_not(bronze: str, offset: int, expected: RowsBetween) -> None:
    folded = Folded(0, {TOPIC: CommittedTopic("orders", "id", 0, {0: offset}, records=offset)})
    assert rows_between(bronze, TOPIC, folded, PLACES) == expected


def test_nothing_is_said_of_events_that_cannot_be_counted(bronze: str) -> None:
    """0 would let rows of a model that nobody has compared into silver."""
    features = ["typeWidening"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    Path(bronze, "_delta_log", f"{1:020d}.json").write_text(json.dumps({"protocol": protocol}))
    assert DeltaTable(bronze).version() == 1
    assert rows_between(bronze, TOPIC, None, PLACES) is None
