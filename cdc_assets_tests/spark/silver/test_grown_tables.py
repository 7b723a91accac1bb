"""A table that keeps deleted rows, once it is large (deletion vectors) and has a name that Delta maps: folded, and counted right.

Spark is the oracle: what counts is delta-rs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets.clients.platform import Platform
from cdc_assets.clients.schema_ledger import rows_up_to, rows_without_value
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.bronze_writers import Feed
from cdc_assets_tests.support.lake.topics import Broker
from spark.silver import silver_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"id": "integer not null", "the name": "text"}


@pytest.mark.spark
@pytest.mark.all
def test_soft_deletes_of_a_grown_table_are_counted(
    remote: str, kafka: str, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silver's run ended red after its commit, at each run: a PyArrow dataset of delta-rs refuses both features."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(silver_table, "DELETION_VECTORS_FROM", 1)
    monkeypatch.setattr(silver_table, "SIZE_LOOK_EVERY", 1)
    platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(tmp_path / "lake"))
    feed = Feed(Broker(kafka), platform, tmp_path, declared={"deletes": "soft", "columns": COLUMNS})
    path = names.silver_path(platform.lake, feed.source, feed.source.tables[0])
    key = dg.AssetKey(names.asset_key("silver", feed.source, feed.source.tables[0]))

    def told() -> object:
        for layer in ("bronze", "silver"):
            feed.run(feed.asset(layer))
        event = feed.instance.get_latest_materialization_event(key)
        assert event is not None
        assert event.asset_materialization is not None
        return event.asset_materialization.metadata["dagster/row_count"].value

    def held() -> dict[int, tuple[str | None, bool]]:
        return {row.id: (row["the name"], row._cdc_deleted) for row in session.read.format("delta").load(path).collect()}

    feed.produce(*[(n, {"id": n, "the name": f"v{n}"}) for n in range(1, 7)])
    assert told() == 6
    feed.produce((2, None), (3, {"id": 3, "the name": "new"}), (4, None))
    assert told() == 4
    assert {n: row for n, row in held().items() if not row[1]} == {
        n: (v, False) for n, v in ((1, "v1"), (3, "new"), (5, "v5"), (6, "v6"))
    }
    assert sorted(n for n, (_, deleted) in held().items() if deleted) == [2, 4]
    feed.produce((2, {"id": 2, "the name": None}), (6, None), (7, {"id": 7, "the name": "v7"}))
    assert told() == len([1 for _, deleted in held().values() if not deleted]) == 5
    assert held()[2] == (None, False)
    features = set(DeltaTable(path).protocol().reader_features or ())
    vectors = DeltaTable(path).deletion_vectors().read_all()
    assert {"columnMapping", "deletionVectors"} <= features
    assert pa.table(vectors).num_rows > 0
    # The check `schema` asks the same reader; it could not say.
    silver = session.read.format("delta").load(path)
    newest = max(row._cdc_position for row in silver.select("_cdc_position").collect())
    assert (rows_up_to(path, newest), rows_up_to(path, "")) == (7, 0)
    without = sum(name is None for name, _ in held().values())
    assert (rows_without_value(path, "the name", newest), rows_without_value(path, "none", newest)) == (without, 0)
    assert without > 0
