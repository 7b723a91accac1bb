"""A source and a platform of fakes: Kafka in memory, Delta logs written by delta-rs, no service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.clients.platform import Platform
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

SOURCE: dict[str, Any] = {
    "source": "shop",
    "owners": ["team:data"],
    "database": {"kind": "postgresql", "host": "db", "dbname": "shop", "user": "u", "password": {"secret": "shop"}},
    "backup": {"store": {"kind": "s3", "bucket": "backups", "prefix": "lake"}},
    "batching": {"min_records": 1, "max_records": 100},
    "tables": [{"name": "public.orders"}, {"name": "public.lines"}],
}


@pytest.fixture
def source() -> Source:
    return Source.model_validate(SOURCE)


@pytest.fixture
def lake_kafka() -> FakeKafka:
    entry = (b"k", b"{}")
    return FakeKafka(
        {
            "core.shop.public.orders": FakeTopic("id-orders", {0: [entry] * 3}),
            "core.shop.public.lines": FakeTopic("id-lines", {0: [entry] * 5}),
        }
    )


@pytest.fixture
def platform(tmp_path: Path, lake_kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> Platform:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))

    class FakePlatform(PlatformResource):
        def lake_kafka(self) -> Any:
            return lake_kafka

    return FakePlatform(lake_root=str(tmp_path / "lake"))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance
