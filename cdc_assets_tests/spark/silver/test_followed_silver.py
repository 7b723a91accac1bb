"""What follows silver and backup, with real folds: built once for each change of rows. Silver's page has the lake's columns.

Spark is the oracle of types, and Dagster's own evaluation that of conditions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.bronze_writers import Feed
from cdc_assets_tests.support.lake.topics import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "id": "integer not null",
    "the sum": "numeric(10,2)",
    "tags": "text[]",
    "at": "timestamp without time zone",
    "of": "bigint",
}
CONDITIONS = {
    "eager": dg.AutomationCondition.eager(),
    "changed": dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()),
}


class Followers:
    """An asset for each condition behind each of the layers."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.cursor = feed, None
        self.layers = {layer: dg.AssetKey(names.asset_key(layer, feed.source, feed.source.tables[0])) for layer in LAYERS}
        assets = [
            dg.asset(key=[layer, condition], deps=[key], automation_condition=how)(lambda: None)
            for layer, key in self.layers.items()
            for condition, how in CONDITIONS.items()
        ]
        feed.defs = dg.Definitions.merge(feed.defs, dg.Definitions(assets=assets))
        self.names = [asset.key for asset in assets]

    def carry(self) -> None:
        """A run of each layer, as the sensor asks for them: without checks, and without what is behind."""
        for layer in ("bronze", *LAYERS):
            self.feed.run(self.feed.asset(layer))

    def asked_for(self) -> list[str]:
        found: Any = dg.evaluate_automation_conditions(self.feed.defs, self.feed.instance, cursor=self.cursor)
        self.cursor = found.cursor
        asked = [key for key in self.names if found.get_num_requested(key)]
        self.build(asked)
        return sorted(key.to_user_string() for key in asked)

    def build(self, keys: list[dg.AssetKey]) -> None:
        for key in keys:
            self.feed.instance.report_runless_asset_event(dg.AssetMaterialization(key))

    def versions(self) -> list[list[str]]:
        """By layer, of the newest materialization and of the observation behind it."""
        found = []
        for key in self.layers.values():
            made = self.feed.instance.get_latest_materialization_event(key)
            assert made is not None
            (seen,) = self.feed.instance.fetch_observations(key, limit=1).records
            assert seen.event_log_entry.timestamp > made.timestamp
            found.append([event.tags["dagster/data_version"] for event in (made, seen.event_log_entry)])
        return found


LAYERS = ("silver", "backup")
BOTH = ["backup/changed", "backup/eager", "silver/changed", "silver/eager"]


@pytest.mark.spark
@pytest.mark.parametrize("history", ["scd1", pytest.param("scd2", marks=pytest.mark.all)])
def test_folds_build_what_follows_once_for_each_change(
    remote: str, kafka: str, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: str
) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(tmp_path / "lake"))
    feed = Feed(Broker(kafka), platform, tmp_path, declared={"columns": COLUMNS, "history": history})
    followers = Followers(feed)
    feed.produce(*[(n, row(n)) for n in (1, 2, 3)])
    followers.carry()
    followers.build(followers.names)
    assert followers.asked_for() == []
    versions = []
    for change in ((4, row(4)), (2, row(7)), (3, None)):
        feed.produce(change)
        followers.carry()
        assert followers.asked_for() == BOTH
        # At rest, as somebody who starts runs of nothing has it.
        followers.carry()
        assert followers.asked_for() == []
        versions.append(followers.versions())
        assert [len(set(of_layer)) for of_layer in versions[-1]] == [1, 1], "an observation tells another version"
    assert len({str(each) for each in versions}) == 3
    # A key that comes and goes within one fold: records, and no row. The backup has the records.
    feed.produce((9, row(9)), (9, None))
    followers.carry()
    assert [name for name in followers.asked_for() if name.startswith("silver/")] == ([] if history == "scd1" else BOTH[2:])
    assert_columns(feed, session)


def row(number: int) -> dict[str, object]:
    return {"id": number, "the sum": "12.50", "tags": ["a"], "at": "2026-11-30T10:00:00", "of": number}


def assert_columns(feed: Feed, session: SparkSession) -> None:
    """Names and types as Spark reads them, with the source's types beside them."""
    table = feed.source.tables[0]
    event = feed.instance.get_latest_materialization_event(dg.AssetKey(names.asset_key("silver", feed.source, table)))
    assert event is not None
    assert event.asset_materialization is not None
    told: Any = event.asset_materialization.metadata
    paths = {"dagster/column_schema": names.silver_path(feed.platform.lake, feed.source, table)}
    if table.history == "scd2":
        paths["cdc/history_columns"] = names.history_path(feed.platform.lake, feed.source, table)
        assert told["cdc/history_table"].value == "history.feeds.t"
    for label, path in paths.items():
        columns = (told[label].schema if label.startswith("cdc/") else told[label].value).columns
        held = session.read.format("delta").load(path).dtypes
        assert [(column.name, column.type) for column in columns] == held
        at_source = {column.name: column.constraints.other for column in columns if column.constraints.other}
        assert at_source == {name: [f"at the source: {type_.removesuffix(' not null')}"] for name, type_ in COLUMNS.items()}
        assert all(column.description for column in columns if column.name.startswith("_"))
