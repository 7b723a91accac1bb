"""A source of topics as Dagster runs it, on a real broker and a real Spark: the topic, bronze, silver, and their check."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.lake.topics import Broker
from cdc_assets_tests.support.values.attunity_messages import DELETED, INSERTED, JOMBANG, NAMES, TAIWAN, loaded, message

pytestmark = pytest.mark.all

WORDS = ("plain", "žluťoučký", "{no json")
HOURS = (3, 17)
YESTERDAY = datetime.now(timezone.utc) - timedelta(days=1)
COLUMNS = {**dict.fromkeys(NAMES, "text"), "ID": "integer not null", "Population": "integer"}


def plain_tables(kafka: str) -> list[dict[str, Any]]:
    """What others send as it comes: strings, and readings that say themselves when they were taken. Both topics are filled."""
    words, readings, producer = Broker(kafka).topic(), Broker(kafka).topic(), Producer({"bootstrap.servers": kafka})
    for word in WORDS:
        producer.produce(words, word.encode())
    for number, hour in enumerate(HOURS):
        taken = YESTERDAY.replace(hour=hour, minute=30).timestamp() * 1000
        producer.produce(readings, json.dumps({"v": number, "sent": {"at": int(taken)}}).encode())
    producer.flush(30)
    when = {"field": "sent.at", "form": "milliseconds"}
    return [
        {"name": "words", "topic": words, "envelope": "text", "columns": {"value": "text"}},
        {"name": "readings", "topic": readings, "envelope": "json", "columns": {"v": "integer"}, "event_time": when},
    ]


@pytest.mark.spark
def test_a_topic_that_replicate_fills(remote: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    topic = Broker(kafka).topic()
    producer = Producer({"bootstrap.servers": kafka})
    for sent in (loaded(TAIWAN), message(INSERTED, JOMBANG), message(DELETED, TAIWAN)):
        producer.produce(topic, json.dumps(sent).encode())
    producer.flush(30)
    table = {"name": "city", "topic": topic, "envelope": "attunity-json", "keys": ["ID"], "columns": COLUMNS}
    plain = plain_tables(kafka)
    source = TopicSource.model_validate({"source": "feeds", "kind": "topics", "cluster": "lake", "tables": [table, *plain]})
    platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(tmp_path / "lake"))
    defs = dg.Definitions.merge(
        build_source_defs(source), dg.Definitions(resources={"platform": platform}, executor=dg.in_process_executor)
    )
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process()
    checks = {(e.asset_key.to_user_string(), e.check_name): e.passed for e in result.get_asset_check_evaluations()}
    assert checks[("bronze/feeds/bronze_city", "record_parity")]
    assert all(checks.values())
    counts = {event.asset_key.path[-1]: event for event in result.asset_materializations_for_node("cdc_count_feeds")}
    counted = counts["ledger_city"]
    picture = str(counted.metadata["cdc/plot"].value)
    assert base64.b64decode(picture.partition("base64,")[2].rstrip(")"))[:8] == b"\x89PNG\r\n\x1a\n"
    events = {name: event.metadata["cdc/events"].value for name, event in counts.items()}
    assert events == {"ledger_city": 3, "ledger_words": len(WORDS), "ledger_readings": len(HOURS)}
    lake = tmp_path / "lake"
    assert sorted(row["value"] for row in values(str(lake / "silver/feeds/words"))) == sorted(WORDS)
    assert sorted(row["v"] for row in values(str(lake / "silver/feeds/readings"))) == [0, 1]
    windows = [row for row in DeltaTable(str(lake / "ledger/feeds")).to_pyarrow_table().to_pylist() if row["table"] == "readings"]
    assert {row["window_start"].hour for row in windows} == set(HOURS), "by the field, and not by when Kafka was given it"
    assert {row["window_start"].date() for row in windows} == {YESTERDAY.date()}
    silver = str(tmp_path / "lake" / "silver" / "feeds" / "city")
    assert values(silver) == [JOMBANG]
    found = compare_rows(Chain(platform, source), [source.tables[0]])["city"]
    assert (found.verdict, found.source_rows, found.silver_rows, found.reason) == ("equal", 1, 1, "")
    assert f"{topic} 0:3" in found.lsn
    platform.spark().run(lambda session, path: session.sql(f"UPDATE delta.`{path}` SET Population = 1").collect(), silver)
    (told,) = compare_rows(Chain(platform, source), [source.tables[0]])["city"].differences
    assert (told.key, told.columns, told.where) == ("4097;", ("Population",), "silver")
