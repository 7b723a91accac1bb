"""Who is asked for a snapshot again when the connector says nothing: one that began behind the signal, and no other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.onboarding import snapshot
from cdc_assets.capture.onboarding.onboarding_state import Onboarding, OnboardingWork
from cdc_assets.capture.onboarding.postgresql_onboarding import PostgresKind
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

TOPIC = "shop.notifications"
RUNNING = {"connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w"}]}
SIGNAL_AT = 100


@dataclass
class Server:
    """Sessions read its log one after the other; each look is a moment, and the last moment brings the answer.

    `sessions`: who reads at each moment, and the place that Connect has stored by then.
    """

    sessions: list[tuple[str, int]]
    signals: int = 0
    moment: int = 0
    said: list[str] = field(default_factory=list)
    kafka: FakeKafka = field(default_factory=lambda: FakeKafka({TOPIC: FakeTopic("n", {0: []})}))

    def core_kafka(self, cluster: str) -> FakeKafka:
        return self.kafka

    def core_connect(self, cluster: str) -> Server:
        return self

    def status(self, name: str) -> ConnectorStatus:
        self.moment += 1
        if self.moment == len(self.sessions):
            told = {"scanned_collection": "public.orders", "status": "SUCCEEDED", "total_rows_scanned": "3"}
            value = {"id": "1", "aggregate_type": "Initial Snapshot", "type": "TABLE_SCAN_COMPLETED", "additional_data": told}
            self.kafka.topics[TOPIC].logs[0].append((None, json.dumps(value).encode()))
        return ConnectorStatus.parse(name, RUNNING)

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return [{"partition": {"server": "shop"}, "offset": {"lsn": self.now[1]}}]

    @property
    def now(self) -> tuple[str, int]:
        return self.sessions[min(self.moment, len(self.sessions) - 1)]

    def ask(self) -> None:
        self.signals += 1


def signals_of(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the connector is asked, when each look finds that it was silent for too long."""
    monkeypatch.setattr(snapshot, "_SILENCE_SECONDS", 0.0)
    monkeypatch.setattr(snapshot, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(PostgresKind, "reader", lambda *_: server.now[0])
    monkeypatch.setattr(PostgresKind, "log_end", lambda *_: SIGNAL_AT - 1)
    file = folder / "shop.yaml"
    database = "{kind: postgresql, host: db, dbname: shop, user: u, password: {secret: s}}"
    file.write_text(f"source: shop\ndatabase: {database}\ntables: [{{name: public.orders}}]\n")
    source = load_source(file)
    assert isinstance(source, CapturedSource)
    state = Onboarding("onboard-shop-1", "shop", "blocking", ("public.orders",), "2026-01-01T00:00:00+00:00")
    work = OnboardingWork(server, state, source, server.said.append)  # type: ignore[arg-type]
    facts = snapshot.follow_snapshot(work, "shop-capture", {}, server.ask)
    assert facts["rows_scanned"] == {"public.orders": 3}
    return server.signals


@pytest.mark.parametrize(
    ("sessions", "signals"),
    [
        pytest.param([("a", 50)] * 3 + [("a", 120)] * 3, 1, id="the one that was asked is busy"),
        pytest.param([("place", 50), ("stream", 50), ("stream", 120), ("stream", 120)], 1, id="it has found its place first"),
        pytest.param([("", 50), ("a", 50), ("a", 120), ("a", 120)], 1, id="nobody read yet"),
        pytest.param([("a", 50), ("b", 50), ("b", 120), ("b", 120)], 1, id="it was started anew before it met the signal"),
        pytest.param([("a", 50), ("a", 120), ("b", 120), ("b", 120)], 2, id="it was started anew behind the signal"),
        pytest.param([("a", 50), ("b", 120), ("b", 120), ("b", 120)], 2, id="it was started anew and nobody saw where"),
    ],
)
def test_only_who_began_behind_the_signal(
    sessions: list[tuple[str, int]], signals: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(sessions)
    assert signals_of(server, tmp_path, monkeypatch) == signals
    if signals == 1:
        assert "no word from shop-capture for 0 s: it is busy, or waits for a lock on a table" in server.said
