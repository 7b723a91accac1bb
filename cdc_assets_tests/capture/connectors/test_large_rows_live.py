"""A row that the worker's producer does not send, on a worker without our converter: the way past it of docs/how-to/repair.md."""

from __future__ import annotations

import pytest

from cdc_assets.capture.connectors.record_converters import JSON
from cdc_assets.clients.connect import connector_trouble
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets_tests.support.live.captured_table import in_table, in_topic, run, start_streaming
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource


@pytest.mark.all
def test_a_large_row(captured: LiveSource) -> None:
    name = f"{captured.name}-capture"

    def status() -> ConnectorStatus:
        found = captured.connect.status(name)
        assert found is not None
        return found

    start_streaming(captured, value__converter=JSON)
    run(captured, f"INSERT INTO public.{captured.name} VALUES (1, repeat('x', 12000000))")
    until(lambda: status().failed, 240)
    told = connector_trouble(captured.connect, name)
    assert "bytes, and its producer sends 10485760 at most (max.request.size): a restart meets it again" in told
    assert "docs/how-to/repair.md#a-row-that-is-too-large-for-kafka" in told
    assert "cdc restart" not in told
    more = {
        "value__converter": JSON,
        "producer__override__max__request__size": "67108864",
        "producer__override__compression__type": "zstd",
    }
    captured.capture([f"public.{captured.name}"], **more)
    run(captured, f"INSERT INTO public.{captured.name} VALUES (2, 'behind it')")
    assert in_topic(captured) == in_table(captured)
    assert len(in_topic(captured)[1]) == 12_000_000
