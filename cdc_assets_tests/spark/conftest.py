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

# What takes minutes is run when it is asked for: servers restored, promoted and purged under the whole chain, rounds under
# writes; so many histories and their connectors, half a minute each.
_ASKED = {
    "test_incarnations.py": "CDC_TEST_INCARNATIONS",
    "test_purged_binlog.py": "CDC_TEST_INCARNATIONS",
    "test_two_step_live.py": "CDC_TEST_TWO_STEP",
    "test_topic_rows_live.py": "CDC_TEST_TOPIC_ROWS",
    "test_topic_forms_live.py": "CDC_TEST_TOPIC_ROWS",
    "test_key_signals_live.py": "CDC_TEST_KEY_SIGNALS",
    "test_flow_binlog.py": "CDC_TEST_FLOW_MARIADB CDC_TEST_MYSQL",
    "test_stateful_histories.py": "CDC_TEST_STATEFUL",
    "test_mysql_live.py": "CDC_TEST_MYSQL",
    "test_mysql_positions.py": "CDC_TEST_MYSQL",
}
collect_ignore = [file for file, variables in _ASKED.items() if not any(map(os.environ.get, variables.split()))]


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
