"""A connector that has outlived the session in which it reads tables: a binlog's, whose server has restarted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.onboarding.onboarding_state import Onboarding, OnboardingWork
from cdc_assets.capture.onboarding.snapshot import follow_snapshot
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

CONNECTOR, TABLE = "shop-capture", "shop.orders"
RUNNING = {"connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w"}]}


@dataclass
class Connector:
    """Answers each signal; a session that is lost answers SQL_EXCEPTION until it is restarted, `broken` for ever."""

    lost: bool
    broken: bool = False
    signals: int = 0
    restarts: int = 0
    kafka: FakeKafka = field(default_factory=lambda: FakeKafka({"shop.notifications": FakeTopic("n", {0: []})}))

    def asked(self) -> None:
        self.signals += 1
        status = "SQL_EXCEPTION" if self.lost or self.broken else "SUCCEEDED"
        told = {"scanned_collection": TABLE, "status": status, "total_rows_scanned": "3"}
        value = {"id": "1", "aggregate_type": "Incremental Snapshot", "type": "TABLE_SCAN_COMPLETED", "additional_data": told}
        self.kafka.topics["shop.notifications"].logs[0].append((None, json.dumps(value).encode()))

    def core_kafka(self, cluster: str) -> FakeKafka:
        return self.kafka

    def core_connect(self, cluster: str) -> Connector:
        return self

    def restart(self, name: str) -> None:
        assert name == CONNECTOR
        self.lost, self.restarts = False, self.restarts + 1

    def status(self, name: str) -> ConnectorStatus:
        return ConnectorStatus.parse(name, RUNNING)

    def wait_running(self, name: str) -> ConnectorStatus:
        return self.status(name)


def work_of(folder: Path, platform: Any) -> OnboardingWork:
    file = folder / "shop.yaml"
    file.write_text(
        f"source: shop\ndatabase: {{kind: mariadb, host: db, user: u, password: {{secret: s}}}}\ntables: [{{name: {TABLE}}}]\n"
    )
    source = load_source(file)
    assert isinstance(source, CapturedSource)
    state = Onboarding("onboard-shop-1", "shop", "incremental", (TABLE,), "2026-01-01T00:00:00+00:00")
    return OnboardingWork(platform, state, source, lambda _: None)


def test_it_is_restarted_and_asked_again(tmp_path: Path) -> None:
    connector = Connector(lost=True)
    facts = follow_snapshot(work_of(tmp_path, connector), CONNECTOR, {}, connector.asked)
    assert (facts["rows_scanned"], connector.signals, connector.restarts) == ({TABLE: 3}, 2, 1)


def test_once_only(tmp_path: Path) -> None:
    connector = Connector(lost=True, broken=True)
    with pytest.raises(RefusalError, match=f"the snapshot of {TABLE} ended with SQL_EXCEPTION"):
        follow_snapshot(work_of(tmp_path, connector), CONNECTOR, {}, connector.asked)
    assert (connector.signals, connector.restarts) == (2, 1)
