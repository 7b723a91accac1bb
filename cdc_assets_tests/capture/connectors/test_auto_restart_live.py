"""A connector that fails at its first record: restarted, given up, alerted, and well again after its config is mended."""

from __future__ import annotations

import json
from collections.abc import Callable

from cdc_assets.capture.connectors.connector_restart import MAX_RESTARTS
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.restart_sensors import evaluate
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until

STATUSES = "_core-connect-status"


def test_restarted_given_up_alerted_and_well_again(make_cdc: Callable[[str], Cdc]) -> None:
    cdc = make_cdc("patient")
    with cdc.live.connection() as connection:
        connection.execute("CREATE TABLE public.patient (id int PRIMARY KEY)")
        connection.execute("INSERT INTO public.patient VALUES (1)")
    cdc.declare("public.patient")
    source = load_source(cdc.folder / "patient.yaml")
    assert isinstance(source, Source)
    broken = {
        "transforms": "f",
        "transforms.f.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.f.fields": "no",
    }
    connect, name = cdc.live.connect, "patient-capture"
    cdc.live.capture(["public.patient"])
    healthy = connect.config(name)
    assert healthy is not None
    connect.put_config(name, {**healthy, **broken})
    try:
        with cdc.live.connection() as connection:
            connection.execute("INSERT INTO public.patient VALUES (2)")
        cursor, now, alerts = "{}", 1e9, []
        for expected in (1, 2):
            until(lambda times=expected: _failed(cdc, name, times))
            result = evaluate(source, Platform(), cursor, now=now)
            cursor, now = result.cursor or "", now + 3600
            assert json.loads(cursor)[name]["restarts"] == expected
            alerts += result.asset_events
        assert alerts == []
        until(lambda: _failed(cdc, name, 3))
        spent = json.dumps({name: {"restarts": MAX_RESTARTS, "last": now - 4000, "given_up": False}})
        result = evaluate(source, Platform(), spent, now=now)
        (alert,) = result.asset_events
        assert not alert.passed  # type: ignore[union-attr]
        assert f"cdc restart {name}" in str(result.skip_reason)
        assert evaluate(source, Platform(), result.cursor, now=now + 1e6).asset_events == []
        connect.put_config(name, healthy)
        connect.wait_running(name)
        assert evaluate(source, Platform(), result.cursor, now=now + 1e6).cursor == "{}"
        assert '{"id":2}' in [r.key for r in cdc.live.delivered()["patient.public.patient"][0]]
    finally:
        connect.delete(name)
        with cdc.live.connection() as connection:
            connection.execute("SELECT pg_drop_replication_slot('cdc_patient')")


def _failed(cdc: Cdc, name: str, times: int) -> bool:
    """It has failed so often, by the worker's own log: its status alone is for a moment still that of before a restart."""
    status, cluster = cdc.live.connect.status(name), KafkaCluster(cdc.live.bootstrap)
    told = cluster.records(STATUSES, cluster.states([STATUSES])[STATUSES].ranges)
    failures = [r for r in told if r.key == f"status-task-{name}-0".encode() and b'"FAILED"' in (r.value or b"")]
    return status is not None and status.failed and len(failures) >= times
