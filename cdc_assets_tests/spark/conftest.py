"""One Spark Connect server and one Kafka broker for the whole tier; a lake folder per test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.spark.jvm import kafka_broker, spark_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Servers restored and promoted under the whole chain take some minutes: CDC_TEST_INCARNATIONS=1 asks for them.
collect_ignore = [] if os.environ.get("CDC_TEST_INCARNATIONS") else ["test_incarnations.py"]
# A history and its connector take half a minute each: CDC_TEST_STATEFUL=20 asks for so many.
collect_ignore += [] if os.environ.get("CDC_TEST_STATEFUL") else ["test_stateful_histories.py"]


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
    from spark.session import connect

    session = connect(remote)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap
