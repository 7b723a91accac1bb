"""`cdc spec`: what it prints is what the asset would run, read back by the job's own reader; and what it says where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.deploy.next_specs import next_bronze, next_history, next_silver
from cdc_assets.registry.errors import RefusalError, TopicGapError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.fakes import FakeKafka
from spark.specs import BronzeSpec


def test_bronze_reads_what_the_topics_hold_in_as_many_jobs_as_it_takes(source: Source, platform: Platform) -> None:
    spec, jobs = next_bronze(Chain(platform, source), source.tables)
    assert jobs == 1
    assert BronzeSpec.from_json(spec.to_json()) == spec
    read = {topic.topic: topic.ranges for topic in spec.topics}
    assert read == {"core.shop.public.orders": {0: (0, 3)}, "core.shop.public.lines": {0: (0, 5)}}
    short = source.model_copy(update={"batching": source.batching.model_copy(update={"max_records": 2})})
    assert next_bronze(Chain(platform, short), source.tables)[1] == 3


def test_what_cannot_be_run_is_told(source: Source, platform: Platform, lake_kafka: FakeKafka) -> None:
    (orders, _) = source.tables
    with pytest.raises(RefusalError, match="bronze of shop holds nothing yet: cdc spec bronze shop"):
        next_silver(Chain(platform, source), orders)
    with pytest.raises(RefusalError, match="shop/orders keeps no history: declare history: scd2"):
        next_history(Chain(platform, source), orders)
    del lake_kafka.topics["core.shop.public.orders"]
    with pytest.raises(TopicGapError, match=r"topic core.shop.public.orders does not exist yet"):
        next_bronze(Chain(platform, source), source.tables)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gold", "world"], "no job 'gold'; there are: bronze, silver, history, ledger"),
        (["bronze", "nowhere"], "no source nowhere; there are: bank, world"),
        (["silver", "world"], "which table of world? public.country, public.city"),
        (["silver", "world", "town"], "world has no table town; it has: public.country, public.city"),
    ],
)
def test_a_wrong_argument_ends_with_2_and_names_the_right_ones(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.delenv("CDC_SOURCES", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(app, ["spec", *arguments])
    assert done.exit_code == 2
    assert told in " ".join(done.output.replace("│", " ").split())
