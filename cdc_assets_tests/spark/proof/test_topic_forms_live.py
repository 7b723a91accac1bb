"""Topics in Avro and in flattened rows, as Dagster runs them, compared with themselves: on a real broker and a real Spark."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from confluent_kafka import Producer

from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.lake.avro import framed, registry
from cdc_assets_tests.support.lake.topics import Broker

pytestmark = pytest.mark.all

READING = {"type": "record", "name": "Reading", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": "double"}]}
IN_AVRO = ({"id": 1, "v": 0.1}, {"id": 2, "v": -0.0}, {"id": 1, "v": 1e300})
FLAT = ({"id": 1, "v": 0.1}, {"id": 2, "v": 2}, {"id": 1, "v": 0.3}, {"id": 2, "__deleted": "true"})


@pytest.mark.spark
def test_read_again_in_every_form(remote: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    platform = Platform(lake_bootstrap=kafka, spark_remote=remote, lake_root=str(tmp_path / "lake"))
    in_avro, flattened = Broker(kafka).topic(), Broker(kafka).topic()
    producer = Producer({"bootstrap.servers": kafka})
    readings = {"keys": ["id"], "columns": {"id": "integer not null", "v": "double precision"}}
    tables = [
        {"name": "avro", "topic": in_avro, "envelope": "avro", **readings},
        {"name": "flat", "topic": flattened, "envelope": "debezium-unwrapped", **readings},
    ]
    with registry() as kept:
        number = kept.register("readings-value", READING)
        for row in IN_AVRO:
            producer.produce(in_avro, framed(number, READING, row))
        for row in FLAT:
            producer.produce(flattened, json.dumps(row).encode())
        producer.flush(30)
        declared = {"source": "feeds", "kind": "topics", "cluster": "lake", "schema_registry": kept.url, "tables": tables}
        source = TopicSource.model_validate(declared)
        defs = dg.Definitions.merge(
            build_source_defs(source), dg.Definitions(resources={"platform": platform}, executor=dg.in_process_executor)
        )
        assert defs.resolve_implicit_global_asset_job_def().execute_in_process().success
        found = compare_rows(Chain(platform, source), list(source.tables))
        told = {name: (r.verdict, r.source_rows, r.silver_rows, r.reason) for name, r in found.items()}
        assert told == {"avro": ("equal", 2, 2, ""), "flat": ("equal", 1, 1, "")}
        for name, damage in (("avro", "UPDATE {t} SET v = 0.0 WHERE id = 2"), ("flat", "DELETE FROM {t}")):
            statement = damage.format(t=f"delta.`{tmp_path}/lake/silver/feeds/{name}`")
            platform.spark().run(lambda session, sql: session.sql(sql).collect(), statement)
        found = compare_rows(Chain(platform, source), list(source.tables))
        assert {name: [(d.key, d.kind) for d in r.differences] for name, r in found.items()} == {
            "avro": [("2;", "differs")],
            "flat": [("1;", "missing")],
        }
