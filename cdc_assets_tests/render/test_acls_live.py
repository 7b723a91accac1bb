"""The rendered KafkaUsers against a real authorizer: what each component does works with them, and nothing else does.

CDC_TEST_ACLS=1 python -m pytest cdc_assets_tests/render/test_acls_live.py
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets import names
from cdc_assets.connectors.declared import declared_connectors
from cdc_assets.connectors.mariadb import capture_config as mariadb_config
from cdc_assets.connectors.postgresql import capture_config
from cdc_assets.registry.models import Database, Source
from cdc_assets.render.tree import render
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets_tests.live_mariadb import LiveMariaDb
from cdc_assets_tests.live_source import LiveSource
from cdc_assets_tests.mariadb_server import PASSWORD
from cdc_assets_tests.mirroring.clusters import until
from cdc_assets_tests.render.registry import deployment
from cdc_assets_tests.render.secured import Secured, client, java, secured
from cdc_assets_tests.render.test_manifests import of_kind
from cdc_assets_tests.spark.conftest import remote as remote
from cdc_assets_tests.spark.conftest import session as session
from spark import bronze
from spark.specs import BronzeSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC, COPY = "guarded.public.guarded", "core.guarded.public.guarded"
DENIED = ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
          "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")  # fmt: skip


@dataclass
class Ground:
    """Every component of one source runs as its own user."""

    place: Secured
    live: LiveSource
    source: Source
    maria: LiveMariaDb
    users: dict[str, list[dict[str, Any]]]

    @property
    def kept(self) -> Source:
        """The source whose connector keeps a schema history."""
        return self.maria.source(["guarded.kept"])

    @cached_property
    def capturing(self) -> ConnectClient:
        """The core's worker, as the user that captures."""
        return self.place.worker("core", "cdc-capture-core")

    @property
    def bootstrap(self) -> str:
        return self.place.broker.address


@pytest.fixture(scope="module")
def ground(live: LiveSource, mariadb: LiveMariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    own, maria = replace(live, name="guarded"), mariadb.renamed("kept")
    maria.server.execute(
        "CREATE DATABASE guarded", "CREATE TABLE guarded.kept (id int PRIMARY KEY)", "INSERT INTO guarded.kept VALUES (1)"
    )
    plan = {"mirror": {"heartbeats": "1s", "checkpoints": {"groups": ["readers"], "every": "1s"}}}
    source = Source.model_validate({**own.source(["public.guarded"]).model_dump(mode="json", exclude_none=True), **plan})
    place = deployment(mirror="connector", core=_cluster("core"), lake=_cluster("lake"))
    rendered = of_kind(render("strimzi", [source, maria.source(["guarded.kept"])], place), "KafkaUser")
    users = {name: user["spec"]["authorization"]["acls"] for name, user in rendered.items()}
    with live.connection() as connection:
        connection.execute("CREATE TABLE public.guarded (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.guarded VALUES (1, 'one')")
    with secured(tmp_path_factory.mktemp("secured"), (*users, "nobody"), live.home.secrets) as found:
        for user, acls in users.items():
            found.grant(user, acls)
        # As the KafkaTopics make them.
        found.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        (found.site.home.secrets / "mariadb").write_text(PASSWORD)
        yield Ground(found, own, source, maria, users)
    with live.connection() as connection, suppress(Exception):
        connection.execute("SELECT pg_drop_replication_slot('cdc_guarded')")


def _cluster(role: str) -> dict[str, str]:
    return {"kafka": role, "connect": f"{role}-connect", "bootstrap": f"{role}:9092"}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, ground: Ground) -> Callable[[str], KafkaCluster]:
    """The product's own reader of a cluster, as a user."""

    def as_user(user: str) -> KafkaCluster:
        monkeypatch.setattr(confluent_kafka, "Consumer", lambda conf: Consumer({**conf, **client(user)}))
        cluster = KafkaCluster(ground.bootstrap)
        cluster._admin_client = _admin(ground.bootstrap, user)
        return cluster

    return as_user


def test_debezium_mirrormaker_and_the_lake_have_what_they_need(
    ground: Ground, reader: Callable[[str], KafkaCluster], session: SparkSession, tmp_path: Path
) -> None:
    connect = ground.capturing
    with ground.live.settings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_CONNECT_SECRETS", str(ground.place.site.home.secrets))
        patch.setenv("CDC_CORE_BOOTSTRAP", ground.bootstrap)
        patch.setenv("CDC_LAKE_BOOTSTRAP", ground.bootstrap)
        connect.put_config("guarded-capture", capture_config(ground.source))
        mirrors = [each for each in declared_connectors([ground.source]) if each.cluster == "lake"]
    connect.wait_running("guarded-capture")
    core = reader("cdc-assets-core")
    until(lambda: core.states([TOPIC])[TOPIC].ends[0] > 0)
    _signalled(ground)
    _has_read(ground.bootstrap, "readers")
    lake_connect = ground.place.worker("lake", "cdc-mirror-lake")
    assert len(mirrors) == 3
    for mirror in mirrors:
        logins = {**java("cdc-mirror-core", "source.cluster."), **java("cdc-mirror-lake", "target.cluster.")}
        lake_connect.put_config(mirror.name, {**mirror.config, **logins})
    for mirror in mirrors:
        lake_connect.wait_running(mirror.name)
    with ground.live.connection() as connection:
        connection.execute("INSERT INTO public.guarded VALUES (2, 'two')")
    lake = reader("cdc-assets-lake")
    until(lambda: COPY in lake.states([COPY]) and len(list(lake.records(COPY, lake.states([COPY])[COPY].ranges))) == 2, 90)
    state = lake.states([COPY])[COPY]
    assert lake.topic_config(COPY)["cleanup.policy"] == "delete"
    topic = TopicRange("guarded", COPY, state.topic_id, 0, dict(state.ranges))
    spec = BronzeSpec(str(tmp_path / "bronze"), ground.bootstrap, (topic,), uuid.uuid4().hex, java("cdc-assets-lake", "kafka."))
    assert bronze.run(session, spec).by_op == {"r": 1, "c": 1}
    seen = AdminClient({"bootstrap.servers": ground.bootstrap, **client("admin")})
    wanted = {names.signal_topic(ground.source), "heartbeats", "core.checkpoints.internal", names.marker_topic(ground.source)}
    until(lambda: wanted <= set(seen.list_topics(timeout=20).topics), 60)
    connect.wait_running("guarded-capture")


def test_a_schema_history_has_a_login_of_its_own_and_is_read(ground: Ground, reader: Callable[[str], KafkaCluster]) -> None:
    rendered = of_kind(render("strimzi", [ground.kept], deployment()), "KafkaConnector")["kept-capture"]["spec"]["config"]
    clients = [key.removesuffix("security.protocol") for key in rendered if key.endswith(".security.protocol")]
    with ground.maria.settings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_CONNECT_SECRETS", str(ground.place.site.home.secrets))
        patch.setenv("CDC_CORE_BOOTSTRAP", ground.bootstrap)
        config = mariadb_config(ground.kept)
    logins = {key: value for client in clients for key, value in java("cdc-capture-core", client).items()}
    ground.capturing.put_config("kept-capture", {**config, **logins})
    ground.capturing.wait_running("kept-capture")
    core, history = reader("cdc-assets-core"), names.schema_history_topic(ground.kept)
    topic = names.topic(ground.kept, ground.kept.tables[0])

    def read(name: str) -> list[bytes]:
        return [one.value or b"" for state in core.states([name]).values() for one in core.records(name, state.ranges)]

    until(lambda: any(b'"op":"r"' in value for value in read(topic)), 60)
    assert any(b"CREATE TABLE `kept`" in value for value in read(history))
    ground.capturing.wait_running("kept-capture")


def _signalled(ground: Ground) -> None:
    """As an onboarding or a healing asks for rows: the connector sends the signal table's own rows too."""
    assert isinstance(ground.source.database, Database)
    signals = names.signal_table(ground.source)
    with ground.live.settings():
        database = PostgresCapture(ground.source.database)
        database.ensure_signal_table(signals)
        database.publish(names.publication_name(ground.source), [signals])
        database.send_signal(signals, "one", "log", '{"message": "asked"}')


def _has_read(place: str, group: str) -> None:
    """Somebody's consumer group, whose place the checkpoints tell."""
    consumer = Consumer({"bootstrap.servers": place, "group.id": group, "enable.auto.commit": False, **client("admin")})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


# One operation each that no work of the user's needs.
NOT_GRANTED: dict[str, Callable[[str, str], None]] = {}


def not_granted(user: str) -> Callable[[Callable[[str, str], None]], Callable[[str, str], None]]:
    def keep(act: Callable[[str, str], None]) -> Callable[[str, str], None]:
        NOT_GRANTED[f"{user}: {act.__name__.strip('_').replace('_', ' ')}"] = lambda place, _: act(place, user)
        return act

    return keep


def _admin(place: str, user: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": place, "socket.timeout.ms": 8000, **client(user)})


@not_granted("cdc-capture-core")
@not_granted("nobody")
def _reads_the_tables_topic(place: str, user: str) -> None:
    consumer = Consumer({"bootstrap.servers": place, "group.id": "core-connect", **client(user)})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        for _ in range(40):
            message = consumer.poll(0.5)
            if message is not None:
                raise KafkaException(message.error()) if message.error() else AssertionError("it was read")
    finally:
        consumer.close()


@not_granted("cdc-mirror-core")
@not_granted("cdc-assets-core")
def _writes_into_the_tables_topic(place: str, user: str) -> None:
    said: list[Any] = []
    producer = Producer({"bootstrap.servers": place, "message.timeout.ms": 8000, **client(user)})
    producer.produce(TOPIC, b"v", on_delivery=lambda error, _: said.append(error))
    producer.flush(20)
    if said[0] is not None:
        raise KafkaException(said[0])


@not_granted("cdc-assets-lake")
def _deletes_the_copy(place: str, user: str) -> None:
    admin = _admin(place, user)
    admin.delete_topics([COPY])[COPY].result(20)


@not_granted("cdc-capture-core")
@not_granted("cdc-mirror-lake")
def _makes_a_topic_of_another_source(place: str, user: str) -> None:
    admin = _admin(place, user)
    admin.create_topics([NewTopic("guarded.public.guarded_too", 1, 1)])["guarded.public.guarded_too"].result(20)


@not_granted("cdc-mirror-core")
def _writes_with_a_transactional_id_of_the_worker(place: str, user: str) -> None:
    settings = {"transactional.id": "core-connect-guarded-capture-0", "transaction.timeout.ms": 5000}
    Producer({"bootstrap.servers": place, **settings, **client(user)}).init_transactions(20)


@pytest.mark.parametrize("act", NOT_GRANTED)
def test_nothing_else_is_allowed(ground: Ground, act: str) -> None:
    with pytest.raises(KafkaException) as refused:
        NOT_GRANTED[act](ground.bootstrap, "")
    assert refused.value.args[0].name() in DENIED, refused.value
