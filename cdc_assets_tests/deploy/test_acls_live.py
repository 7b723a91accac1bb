"""The rendered KafkaUsers against a real authorizer behind TLS: what each component does works with them, and nothing else does.

Connectors are given as rendered (`authentication: tls`), and read their certificates from Strimzi's Secrets as folders.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import ServiceError
from cdc_assets_tests.deploy.guarded import COPY, TOPIC, Ground
from cdc_assets_tests.deploy.guarded import ground as ground
from cdc_assets_tests.deploy.secured import password
from cdc_assets_tests.support.live.clusters import until
from spark.bronze import append_job as bronze
from spark.errors import JobRefusedError
from spark.specs import BronzeSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

DENIED = ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
          "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")  # fmt: skip


def test_debezium_mirrormaker_and_the_lake_have_what_they_need(ground: Ground, session: SparkSession, tmp_path: Path) -> None:
    ground.started(ground.capturing, "guarded-capture")
    core = ground.reader("cdc-assets-core")
    until(lambda: core.states([TOPIC])[TOPIC].ends[0] > 0)
    _signalled(ground)
    _has_read(ground, "readers")
    mirrors = [f"guarded-{role}" for role in ("mirror", "checkpoints", "heartbeats")]
    ground.started(ground.mirroring, *mirrors)
    with ground.live.connection() as connection:
        connection.execute("INSERT INTO public.guarded VALUES (2, 'two')")
    lake = ground.reader("cdc-assets-lake")
    until(lambda: COPY in lake.states([COPY]) and len(list(lake.records(COPY, lake.states([COPY])[COPY].ranges))) == 2, 90)
    state = lake.states([COPY])[COPY]
    assert lake.topic_config(COPY)["cleanup.policy"] == "delete"
    seen = ground.place.admin
    wanted = {names.signal_topic(ground.source), "heartbeats", "core.checkpoints.internal", names.marker_topic(ground.source)}
    until(lambda: wanted <= set(seen.list_topics(timeout=20).topics), 60)
    ground.capturing.wait_running("guarded-capture")
    topic = TopicRange("guarded", COPY, state.topic_id, 0, dict(state.ranges))
    for number, (address, login) in enumerate(_logins(ground).items()):
        spec = BronzeSpec(str(tmp_path / f"bronze{number}"), address, (topic,), uuid.uuid4().hex, login=login)
        assert bronze.run(session, spec).by_op == {"r": 1, "c": 1}
        committed = "".join(file.read_text() for file in (tmp_path / f"bronze{number}" / "_delta_log").glob("*.json"))
        assert password("cdc-assets-lake") not in committed + spec.to_json()


def _logins(ground: Ground) -> dict[str, str]:
    """Our reader of the lake, by certificate and by password."""
    logins, user, broker = ground.place.logins, "cdc-assets-lake", ground.place.broker
    return {broker.address: logins.store(user), broker.by_password: logins.scram(user, password(user))}


def test_a_password_is_a_login_too(ground: Ground) -> None:
    logins, user, place = ground.place.logins, "cdc-assets-core", ground.place.broker.by_password
    cluster = KafkaCluster(place, login=logins.scram(user, password(user)))
    assert cluster.states([TOPIC])[TOPIC].topic_id == ground.reader(user).states([TOPIC])[TOPIC].topic_id


def test_a_refused_login_is_told_at_once_with_its_file_and_the_next_command(
    ground: Ground, session: SparkSession, tmp_path: Path
) -> None:
    logins, user, place = ground.place.logins, "cdc-assets-lake", ground.place.broker.by_password
    path = logins.scram(user, "canary-wrong")
    cluster, started = KafkaCluster(place, login=path), time.monotonic()
    with pytest.raises(
        ServiceError, match=rf"Kafka at {place} refuses the login of {path}: .*; correct that file, then \./cdc"
    ) as said:
        cluster.states([COPY])
    with pytest.raises(ServiceError, match="refuses the login") as read:
        list(KafkaCluster(place, login=path).records(COPY, {0: (0, 1)}))
    with pytest.raises(ServiceError, match="refuses the login of .*bare.properties: .*bad certificate"):
        KafkaCluster(ground.bootstrap, login=logins.bare()).states([COPY])
    # Each would end after 20 s without an answer.
    assert time.monotonic() - started < 15
    topic = TopicRange("guarded", COPY, "id", 0, {0: (0, 1)})
    spec = BronzeSpec(str(tmp_path / "bronze"), place, (topic,), uuid.uuid4().hex, login=path)
    with pytest.raises(JobRefusedError, match=rf"Kafka at {place} does not let Spark in by {path}: .*; correct that file") as job:
        bronze.run(session, spec)
    assert "canary-wrong" not in f"{said.value} {read.value} {job.value}"
    # The lease's own file, and no table.
    assert [each.name for each in (tmp_path / "bronze").rglob("*")] == ["_cdc_writer"]
    # The password is corrected in its file: the same cluster takes it.
    logins.scram(user, password(user))
    cluster.states([COPY])


def test_a_password_is_nowhere_but_in_its_file(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What ran before has left logs, Delta commits, topics and properties in the tests' own folders."""
    wanted, own = b"cdc-assets-lake-pass", ground.place.logins.authority.folder
    files = [each for each in tmp_path_factory.getbasetemp().rglob("*") if each.is_file() and own not in each.parents]
    assert [str(file) for file in files if file.stat().st_size < 32 << 20 and wanted in file.read_bytes()] == []
    assert {"connect.properties", "core-connect.log"} <= {file.name for file in files}
    assert [p.info["name"] for p in psutil.process_iter(["name", "cmdline"]) if wanted.decode() in str(p.info["cmdline"])] == []


def test_a_schema_history_has_a_login_of_its_own_and_is_read(ground: Ground) -> None:
    ground.started(ground.capturing, "kept-capture")
    core, history = ground.reader("cdc-assets-core"), names.schema_history_topic(ground.kept)
    topic = names.topic(ground.kept, ground.kept.tables[0])

    def read(name: str) -> list[bytes]:
        return [one.value or b"" for state in core.states([name]).values() for one in core.records(name, state.ranges)]

    until(lambda: any(b'"op":"r"' in value for value in read(topic)), 60)
    assert any(b"CREATE TABLE `kept`" in value for value in read(history))
    ground.capturing.wait_running("kept-capture")


def test_connectors_that_cdc_apply_writes_log_in_by_the_worker_s_own_file(ground: Ground) -> None:
    ground.applied(ground.mirroring, "guarded-mirror", [ground.source], core="cdc-mirror-core", lake="cdc-mirror-lake")
    ground.applied(ground.capturing, "kept-capture", [ground.kept], core="cdc-capture-core")
    with ground.live.connection() as connection:
        connection.execute("INSERT INTO public.guarded VALUES (3, 'three')")
    ground.maria.server.execute("ALTER TABLE guarded.kept ADD COLUMN v int", "INSERT INTO guarded.kept VALUES (2, 2)")
    core, lake = ground.reader("cdc-assets-core"), ground.reader("cdc-assets-lake")
    until(lambda: len(list(lake.records(COPY, lake.states([COPY])[COPY].ranges))) == 3, 90)
    history = names.schema_history_topic(ground.kept)

    def told() -> list[bytes]:
        return [one.value or b"" for one in core.records(history, core.states([history])[history].ranges)]

    until(lambda: any(b"ADD COLUMN v" in value for value in told()), 60)


def _signalled(ground: Ground) -> None:
    """As an onboarding or a healing asks for rows: the connector sends the signal table's own rows too."""
    assert isinstance(ground.source.database, Database)
    signals = names.signal_table(ground.source)
    with ground.live.settings():
        database = PostgresCapture(ground.source.database)
        database.ensure_signal_table(signals)
        database.publish(names.publication_name(ground.source), [signals])
        database.send_signal(signals, "one", "log", '{"message": "asked"}')


def _has_read(ground: Ground, group: str) -> None:
    """Somebody's consumer group, whose place the checkpoints tell."""
    consumer = Consumer({**_client(ground, "admin"), "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


# One operation each that no work of the user's needs.
Act = Callable[[Ground, str], None]
NOT_GRANTED: dict[str, tuple[Act, str]] = {}


def not_granted(user: str) -> Callable[[Act], Act]:
    def keep(act: Act) -> Act:
        NOT_GRANTED[f"{user}: {act.__name__.strip('_').replace('_', ' ')}"] = (act, user)
        return act

    return keep


def _admin(ground: Ground, user: str) -> AdminClient:
    return AdminClient({**_client(ground, user), "socket.timeout.ms": 8000})


def _client(ground: Ground, user: str) -> dict[str, Any]:
    return {"bootstrap.servers": ground.bootstrap, **ground.place.logins.client(user)}


@not_granted("cdc-capture-core")
@not_granted("nobody")
def _reads_the_tables_topic(ground: Ground, user: str) -> None:
    consumer = Consumer({**_client(ground, user), "group.id": "core-connect"})
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
def _writes_into_the_tables_topic(ground: Ground, user: str) -> None:
    said: list[Any] = []
    producer = Producer({**_client(ground, user), "message.timeout.ms": 8000})
    producer.produce(TOPIC, b"v", on_delivery=lambda error, _: said.append(error))
    producer.flush(20)
    if said[0] is not None:
        raise KafkaException(said[0])


@not_granted("cdc-assets-lake")
def _deletes_the_copy(ground: Ground, user: str) -> None:
    admin = _admin(ground, user)
    admin.delete_topics([COPY])[COPY].result(20)


@not_granted("cdc-capture-core")
@not_granted("cdc-mirror-lake")
def _makes_a_topic_of_another_source(ground: Ground, user: str) -> None:
    admin = _admin(ground, user)
    admin.create_topics([NewTopic("guarded.public.guarded_too", 1, 1)])["guarded.public.guarded_too"].result(20)


@not_granted("cdc-mirror-core")
def _writes_with_a_transactional_id_of_the_worker(ground: Ground, user: str) -> None:
    settings = {"transactional.id": "core-connect-guarded-capture-0", "transaction.timeout.ms": 5000}
    Producer({**_client(ground, user), **settings}).init_transactions(20)


@pytest.mark.parametrize("act", NOT_GRANTED)
def test_nothing_else_is_allowed(ground: Ground, act: str) -> None:
    does, user = NOT_GRANTED[act]
    with pytest.raises(KafkaException) as refused:
        does(ground, user)
    assert refused.value.args[0].name() in DENIED, refused.value
