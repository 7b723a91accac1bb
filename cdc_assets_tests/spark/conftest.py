"""One Spark Connect server and one Kafka broker for the whole tier; a lake folder per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.jvm import kafka_broker, spark_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with spark_connect(tmp_path_factory.mktemp("spark")) as (address, _):
        yield address


@pytest.fixture(scope="session")
def session(remote: str) -> Iterator[SparkSession]:
    from spark.delta.session import connect

    session = connect(remote)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap
