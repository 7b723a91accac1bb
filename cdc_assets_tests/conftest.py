"""What several tiers share: PostgreSQL and MariaDB with Debezium, Spark, a Kafka broker, each once for the whole session."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from cdc_assets_tests.chosen import pytest_addoption as pytest_addoption
from cdc_assets_tests.chosen import pytest_collection_modifyitems as pytest_collection_modifyitems
from cdc_assets_tests.chosen import pytest_report_collectionfinish as pytest_report_collectionfinish
from cdc_assets_tests.run.ground import ground_address
from cdc_assets_tests.support.foreign_project import build_wheel, create_environment
from cdc_assets_tests.support.lake.jvm import kafka_broker, spark_connect
from cdc_assets_tests.support.lakehouse import lakehouse as lakehouse
from cdc_assets_tests.support.lakehouse import mariadb_shop as mariadb_shop
from cdc_assets_tests.support.lakehouse import mysql_plant as mysql_plant
from cdc_assets_tests.support.lakehouse import pager as pager
from cdc_assets_tests.support.live.cdc import Cdc, Lake, declared_in, live_lake
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_mongodb import LiveMongoDb
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.live_source import LiveSource, live_source
from cdc_assets_tests.support.servers.endpoints import Endpoint
from cdc_assets_tests.support.servers.endpoints import running as running_endpoint
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.mongodb_server import mongodb_server
from cdc_assets_tests.support.servers.mysql_server import GTIDS, mysql_server
from cdc_assets_tests.support.servers.mysql_worker import mysql_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By default an example that takes 0.2 s fails, and one drawn slowly: a machine that does something else for so long is no fault.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
# A shell's background job ignores SIGINT, and so does all that it starts. Dagster takes SIGTERM as SIGINT: nothing would end it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
_LOG_SHOWN = 30_000
"""Characters: some two minutes of a worker that rebalances."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure, what Connect, the broker and PostgreSQL wrote last: their folder is gone when the run is over."""
    report = yield
    source: Any = getattr(item, "funcargs", {}).get("live")
    if report.failed and source is not None:
        for part in source.parts.values():
            report.sections.append((f"the end of {part.component.log.name}", part.component.log.read_text()[-_LOG_SHOWN:]))
    return report


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether more rounds of what is random were asked for, by `--all`."""
    return bool(pytestconfig.option.all)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install` gets."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def foreign_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has our wheel installed."""
    return create_environment(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture(scope="session")
def remote(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server: of the run's ground, where there is one, else of one of our own."""
    if address := ground_address(pytestconfig.option.ground, "spark"):
        yield address
        return
    with spark_connect(tmp_path_factory.mktemp("spark")) as (address, _):
        yield address


@pytest.fixture(scope="session")
def session(remote: str) -> Iterator[SparkSession]:
    from spark.table.spark_session import connect

    session = connect(remote)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker, for tests that need no database; as `remote`."""
    if address := ground_address(pytestconfig.option.ground, "kafka"):
        yield address
        return
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def s3_endpoint(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The stack's own S3, with a bucket that all tests have; as `remote`."""
    yield from endpoint("s3", pytestconfig, tmp_path_factory)


@pytest.fixture(scope="session")
def gcs_endpoint(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """As `s3_endpoint`."""
    yield from endpoint("gcs", pytestconfig, tmp_path_factory)


def endpoint(kind: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    if address := ground_address(pytestconfig.option.ground, kind):
        port, _, folder = address.partition(" ")
        yield Endpoint(kind, Path(folder), int(port))
        return
    with running_endpoint(kind, tmp_path_factory.mktemp(kind)) as started:
        yield started


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSource]:
    """PostgreSQL with Debezium; a test takes a connector of its own: `replace(live, name=...)`."""
    with live_source(tmp_path_factory.mktemp("live")) as source:
        yield source


@pytest.fixture(scope="module", autouse=True)
def connectors_end_with_their_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where the module's tests use `live`: what they leave behind would take a share of each later test's time."""
    if not any(item.path == request.path and "live" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield
        return
    live: LiveSource = request.getfixturevalue("live")
    yield
    live.clear()


@pytest.fixture(scope="session")
def lake(live: LiveSource) -> Iterator[Lake]:
    with live_lake(live) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def make_cdc(live: LiveSource, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cdc]]:
    """`cdc` on a registry folder of the module; called with the name of the test's own connector."""
    with declared_in(tmp_path_factory.mktemp("sources"), live, lake) as make:
        yield make


@pytest.fixture(scope="session")
def mariadb(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveMariaDb]:
    """MariaDB, on the same Connect worker; a test takes a connector of its own: `mariadb.renamed(...)`."""
    with mariadb_server(tmp_path_factory.mktemp("mariadb")) as server:
        yield LiveMariaDb(server, live)


@pytest.fixture(scope="session")
def mysql(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveMySql]:
    """MySQL, with a Connect worker of its own; a test takes a connector of its own: `mysql.renamed(...)`."""
    with mysql_worker(live) as own, mysql_server(tmp_path_factory.mktemp("mysql"), *GTIDS) as server:
        yield LiveMySql(server, own)


@pytest.fixture(scope="session")
def mongodb(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveMongoDb]:
    """A MongoDB-compatible server, on the same Connect worker; a test takes a connector of its own: `mongodb.renamed(...)`."""
    with mongodb_server(tmp_path_factory.mktemp("mongodb")) as server:
        yield LiveMongoDb(server, live)
