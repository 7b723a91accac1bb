"""Traces of real runs, by a real POST: the body is read by OpenTelemetry's own message, from its package."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cdc_assets.defs.alert_and_trace_sensors import build_trace_sensors
from cdc_assets_tests.support.posts import Posts, posts_server

BROKEN: set[str] = set()


@dg.asset(key=["bronze", "shop", "bronze_orders"])
def bronze() -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"cdc/records": 3, "cdc/seconds": 0.5, "cdc/note": "three"})


@dg.asset(key=["silver", "shop", "silver_orders"], deps=[bronze])
def silver() -> None:
    if BROKEN:
        raise ValueError("no such column")


JOB = dg.Definitions(assets=[bronze, silver], jobs=[dg.define_asset_job("cycle")]).resolve_job_def("cycle")


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Posts]:
    with posts_server() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
        yield server
        BROKEN.clear()


class Ticks:
    """The sensor, tick by tick."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance, self.cursor = instance, None
        (self.sensor,) = build_trace_sensors()

    def tick(self) -> str:
        done = self.sensor.evaluate_tick(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        self.cursor = done.cursor
        return done.skip_message or ""

    def run(self) -> str:
        return JOB.execute_in_process(instance=self.instance, raise_on_error=False).run_id


def read(body: Any) -> list[Any]:
    """As a collector reads it. Protobuf's JSON has bytes as base64, where OTLP's has hexadecimal digits."""
    for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    found = json_format.ParseDict(body, ExportTraceServiceRequest())
    (resource,) = found.resource_spans
    assert [(each.key, each.value.string_value) for each in resource.resource.attributes] == [("service.name", "cdc_assets")]
    return list(resource.scope_spans[0].spans)


def test_a_cycle_is_a_trace_that_is_sent_once(posts: Posts) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ticks = Ticks(instance)
        ticks.run()  # Before the sensor began.
        assert ticks.tick() == "sent 0 runs"
        run = ticks.run()
        assert (ticks.tick(), ticks.tick()) == ("sent 1 run", "sent 0 runs")
    ((path, body),) = posts.bodies
    assert path == "/v1/traces"
    root, *steps = read(body)
    assert (root.name, root.parent_span_id, len(root.trace_id), len(root.span_id)) == ("run cycle", b"", 16, 8)
    assert {each.key: each.value.string_value for each in root.attributes}["dagster.run_id"] == run
    assert sorted(step.name for step in steps) == ["bronze__shop__bronze_orders", "silver__shop__silver_orders"]
    for step in steps:
        assert (step.parent_span_id, step.trace_id, step.status.code) == (root.span_id, root.trace_id, 1)
        assert root.start_time_unix_nano <= step.start_time_unix_nano <= step.end_time_unix_nano <= root.end_time_unix_nano
    (made,) = next(step for step in steps if step.name.startswith("bronze")).events
    assert made.name == "materialized bronze/shop/bronze_orders"
    values = {each.key: each.value for each in made.attributes}
    assert (values["cdc/records"].int_value, values["cdc/seconds"].double_value) == (3, 0.5)
    assert values["cdc/note"].string_value == "three"


@pytest.mark.slow
def test_a_run_that_failed_says_why(posts: Posts) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ticks = Ticks(instance)
        ticks.tick()
        BROKEN.add("silver")
        ticks.run()
        ticks.tick()
    spans = {span.name: span for span in read(posts.bodies[0][1])}
    assert (spans["run cycle"].status.code, spans["run cycle"].status.message) == (2, "ValueError: no such column")
    assert spans["silver__shop__silver_orders"].status.code == 2
    assert spans["bronze__shop__bronze_orders"].status.code == 1


@pytest.mark.slow
def test_what_a_collector_does_not_take_is_sent_again(posts: Posts) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        ticks = Ticks(instance)
        ticks.tick()
        ticks.run()
        posts.status = 503
        assert "answers 503" in ticks.tick()
        posts.status = 200
        assert (ticks.tick(), ticks.tick()) == ("sent 1 run", "sent 0 runs")
    assert len(posts.bodies) == 1


def test_without_a_collector_there_is_no_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert build_trace_sensors() == []
