"""Two core clusters, two brokers: a database's topics on one, topics of others on the other, called alike; one lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.clients.platform import Platform
from cdc_assets.proof.chain_status import chain_status
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.kafka_broker import KafkaBroker
from cdc_assets.stack.home import Home
from cdc_assets.stack.loopback import HOST, assign
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import NAME, Part

# Two clusters more are a minute and a half.
pytestmark = pytest.mark.all

SOURCE, OTHER = "twocores", "feeds"
TOPIC = f"{SOURCE}.public.{SOURCE}"
"""On both clusters."""
DECLARED = """
source: {source}
cluster: erp
database: {{kind: postgresql, host: {host}, port: {port}, dbname: {db}, user: {db}, password: {{secret: {db}}}}}
tables: [{{name: public.{source}}}]
"""
FEEDS = """
source: {other}
kind: topics
tables: [{{name: rows, topic: {topic}, envelope: json, keys: [id], columns: {{id: text}}}}]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The second core cluster."""
    site = Site(Home(tmp_path_factory.mktemp("core") / "home").create(), assign(("core-kafka", "core-kafka-controller"), {}))
    part = Part(KafkaBroker(site, "core", 1))
    part.start()
    try:
        yield site.bootstrap("core")
    finally:
        part.kill()


@pytest.fixture(scope="module")
def two(make_cdc: Callable[[str], Cdc], broker: str) -> Iterator[Cdc]:
    cdc = make_cdc(SOURCE)
    port = cdc.live.postgres.site.ports["postgres"]
    (cdc.folder / f"{SOURCE}.yaml").write_text(DECLARED.format(source=SOURCE, host=HOST, port=port, db=NAME))
    (cdc.folder / f"{OTHER}.yaml").write_text(FEEDS.format(other=OTHER, topic=TOPIC))
    with cdc.live.connection() as connection:
        connection.execute(f"CREATE TABLE {SOURCE} (id int PRIMARY KEY, v text)")
        connection.execute(f"INSERT INTO {SOURCE} SELECT i, 'v' || i FROM generate_series(1, 3) i")
        connection.execute(f"CREATE TABLE {SOURCE}_more (id int PRIMARY KEY, v text)")
        connection.execute(f"INSERT INTO {SOURCE}_more VALUES (1, 'one')")
    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": broker, "log_level": 0})
    for key in ("a", "b"):
        producer.produce(TOPIC, f'{{"id": "{key}"}}'.encode(), key=f'{{"id": "{key}"}}'.encode())
    assert producer.flush(60) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_CORE_BOOTSTRAP", broker)
        patch.delenv("CDC_CORE_CONNECT", raising=False)
        patch.setenv("CDC_CORE_ERP_BOOTSTRAP", cdc.live.bootstrap)
        patch.setenv("CDC_CORE_ERP_CONNECT", cdc.live.connect.url)
        yield cdc
        for name in (f"{SOURCE}-mirror", f"{OTHER}-mirror"):
            cdc.lake.connect.delete(name)


def copied(topic: str) -> int:
    """How many records a reader of the lake's copy gets."""
    lake = Platform().lake_kafka()
    state = lake.states([topic]).get(topic)
    return sum(1 for _ in lake.records(topic, state.ranges)) if state else 0


def test_each_cluster_is_mirrored_under_a_name_of_its_own(two: Cdc) -> None:
    rows = {row["connector"]: row["summary"] for row in two.json("apply")}
    assert rows == dict.fromkeys((f"{SOURCE}-capture", f"{SOURCE}-mirror", f"{OTHER}-mirror"), "created")
    until(lambda: (copied(f"erp.{TOPIC}"), copied(f"core.{TOPIC}")) == (3, 2))
    config = two.lake.connect.config(f"{SOURCE}-mirror") or {}
    assert (config["source.cluster.alias"], config["source.cluster.bootstrap.servers"]) == ("erp", two.live.bootstrap)
    listed = {row["name"]: row["cluster"] for row in two.json("get", "connectors") if row["source"] in (SOURCE, OTHER)}
    assert listed == {f"{SOURCE}-capture": "erp", f"{SOURCE}-mirror": "lake", f"{OTHER}-mirror": "lake"}
    topics = {(row["cluster"], row["topic"]) for row in two.json("get", "topics")}
    assert topics >= {("erp", TOPIC), ("core", TOPIC), ("lake", f"erp.{TOPIC}"), ("lake", f"core.{TOPIC}")}


def test_status_preflight_figures_and_peek_ask_the_right_one(two: Cdc) -> None:
    two("diff")
    until(lambda: {chain.source: chain.mirror_lag for chain in chain_status(Platform())} == {SOURCE: 0, OTHER: 0})
    two("preflight", SOURCE)
    figures = two("metrics", "--once").splitlines()
    for core in ("core", "erp"):
        assert f'cdc_part_up{{part="{core}_kafka"}} 1.0' in figures
        assert f'cdc_under_replicated_partitions{{cluster="{core}"}} 0.0' in figures
    assert len(two("peek", TOPIC, "--cluster", "erp", "-o", "json").splitlines()) == 3
    assert len(two("peek", TOPIC, "--cluster", "core", "-o", "json").splitlines()) == 2


def test_a_table_comes_in_beside_the_other_cluster(two: Cdc) -> None:
    done = two.json("onboard", SOURCE, f"public.{SOURCE}_more", "--route", "temporary")
    assert (done["state"], done["steps"]["verify"]["rows"]) == ("done", {f"public.{SOURCE}_more": {"source": 1, "topic": 1}})
    until(lambda: copied(f"erp.{SOURCE}.public.{SOURCE}_more") == 1)


def test_a_connector_beside_another_cluster_is_adopted(two: Cdc) -> None:
    entry = two.folder / f"{SOURCE}.yaml"
    declared = entry.read_text()
    entry.unlink()
    assert "CDC_CORE_CONNECT" in two("adopt", f"{SOURCE}-capture", "--source", SOURCE, "--dry-run", code=1)
    two("adopt", f"{SOURCE}-capture", "--source", SOURCE, "--cluster", "erp", "--yes")
    written = entry.read_text()
    assert "cluster: erp" in written
    assert "alias" not in written
    two("diff", SOURCE)
    entry.write_text(declared.replace("cluster: erp", "cluster: lake"))
    assert "a connector writes to a core cluster" in two("validate", code=1)
    entry.write_text(declared.replace("cluster: erp", "cluster: nowhere"))
    assert "CDC_CORE_NOWHERE_BOOTSTRAP" in two("apply", SOURCE, code=1)
    entry.write_text(written)
