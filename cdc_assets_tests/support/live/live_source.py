"""PostgreSQL, one broker and a Connect worker with Debezium, from the stack's own components, for recording real events.

A recording is what Debezium really sent: the oracle of the fold is then PostgreSQL itself, not a model of it.
"""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from cdc_assets.capture.connectors.debezium_settings import prefix_of
from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets.capture.connectors.setting_overrides import settle
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.registry.settings import CONNECT_BOUND
from cdc_assets.registry.source_declaration import Source
from cdc_assets.stack.component import Component, Site, as_child
from cdc_assets.stack.components.kafka_broker import MAX_MESSAGE_BYTES, KafkaBroker
from cdc_assets.stack.components.postgres_server import Postgres, ensure_database, ensure_role
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars.jar_sets import TEST_PLUGINS
from cdc_assets.stack.loopback import HOST, assign
from cdc_assets.stack.stack_errors import NotReadyError
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.jvm import locked_jars
from cdc_assets_tests.support.servers import apicurio

if TYPE_CHECKING:
    import psycopg

NAME = "live"
PLUGINS = ("debezium-postgres", "debezium-mariadb", *(f"debezium-{kind}" for kind in TEST_PLUGINS), apicurio.PLUGIN)


class Part:
    """One component of the stack as a process of its own, to be killed and started again."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        component = self.component
        component.prepare()
        with component.log.open("ab") as log:
            command = as_child(component.command(), component.identity)
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=component.environment(), cwd=component.run)
        deadline = time.monotonic() + 3 * component.start_timeout
        while True:
            try:
                component.probe()
                return
            except NotReadyError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{error}\n{component.log.read_text()[-3000:]}") from error
                time.sleep(0.2)

    def kill(self) -> None:
        """kill -9, its children as well; nothing when it does not run."""
        if self._process is None or self._process.poll() is not None:
            return
        whole = psutil.Process(self._process.pid)
        for process in (whole, *whole.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def stop(self) -> None:
        """As the supervisor stops it."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(self.component.stop_signal)
        try:
            self._process.wait(self.component.stop_timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class LiveSource:
    """A database called `live`, its connector once `capture` has been called, and what it has sent.

    Several connectors may capture the one database: `replace(live, name=...)` is another.
    """

    postgres: Postgres
    connect: ConnectClient
    bootstrap: str
    home: Home
    name: str = NAME
    parts: Mapping[str, Part] = field(default_factory=dict)
    beside: list[ConnectClient] = field(default_factory=list)
    """Workers on the same broker."""

    def connection(self, *, autocommit: bool = True) -> psycopg.Connection:
        return self.postgres.connect(NAME, autocommit=autocommit)

    def source(self, tables: Sequence[str | Mapping[str, object]]) -> Source:
        """The registry's declaration of these tables."""
        database = {
            "kind": "postgresql",
            "host": HOST,
            "port": self.postgres.site.ports["postgres"],
            "dbname": NAME,
            "user": NAME,
            "password": {"secret": NAME},
        }
        declared = [{"name": t} if isinstance(t, str) else t for t in tables]
        return Source.model_validate({"source": self.name, "database": database, "tables": declared})

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Where the product finds this home's secrets."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CDC_HOME", str(self.home.root))
            patch.setenv("CDC_CONNECT_SECRETS", str(self.home.secrets))
            # As the embedded worker says it.
            patch.setenv(CONNECT_BOUND, str(MAX_MESSAGE_BYTES))
            yield

    def capture(self, tables: Sequence[str | Mapping[str, object]], **overrides: str) -> None:
        """Start the product's own connector on these tables; `overrides` change its config."""
        source = self.source(tables)
        with self.settings():
            config = {**capture_config(source), **{k.replace("__", "."): v for k, v in overrides.items()}}
        self.connect.put_config(config["name"], settle(config, self.connect.config(config["name"])))
        self.connect.wait_running(config["name"])

    def delivered(self, *, seconds: float = 240) -> dict[str, dict[int, list[Record]]]:
        """Every committed record of every table topic, once all that is committed in the database until now has come."""
        mark, deadline, due = uuid.uuid4().hex, time.monotonic() + seconds, 0.0
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": mark,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # How late it is told that a partition has no more: half a second by default.
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            found: dict[str, dict[int, list[Record]]] = {}
            self._assign(consumer)
            marked, ends, read = False, {}, {}
            while not (marked and all(read.get(at, 0) >= end for at, end in ends.items())):
                if time.monotonic() > deadline or self._failed():
                    raise AssertionError(f"marker {mark}: {self.connect.status(f'{self.name}-capture')}; {sorted(found)}")
                if not marked and time.monotonic() > due:
                    # Again now and then: what lies before the place in the log that a new connector's snapshot takes never comes.
                    due = time.monotonic() + 1
                    with self.connection() as connection:
                        prefix = prefix_of(self.connect.config(f"{self.name}-capture"))
                        connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", (prefix, mark))
                messages = consumer.consume(2000, 0.1)
                if not messages and not marked:
                    self._assign(consumer, keep=True)
                for message in messages:
                    topic, value = message.topic() or "", message.value()
                    if message.error():
                        if message.error().code() == KafkaError._PARTITION_EOF:
                            read[topic, message.partition() or 0] = message.offset() or 0
                        continue
                    if topic == f"{self.name}.message":
                        if not marked and any(form in (value or b"") for form in _forms(mark.encode())):
                            # Whatever was committed before the mark lies before the last stable offsets of now.
                            marked = True
                            self._assign(consumer, keep=True)
                            ends = {(p.topic, p.partition): consumer.get_watermark_offsets(p)[1] for p in consumer.assignment()}
                        continue
                    key = message.key()
                    headers = {name: text.decode() for name, text in message.headers() or () if text is not None}
                    record = Record(message.offset() or 0, _text(key), _text(value), headers)
                    found.setdefault(topic, {}).setdefault(message.partition() or 0, []).append(record)
            return found
        finally:
            consumer.close()

    def clear(self) -> None:
        """No connector of anybody is left, and no slot: each that goes on would read all that is written from now on."""
        for connect in (self.connect, *self.beside):
            for name in connect.connectors():
                connect.delete(name)
        with self.connection() as connection:
            deadline = time.monotonic() + 240
            while connection.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchone():
                assert time.monotonic() < deadline, connection.execute("TABLE pg_replication_slots").fetchall()
                time.sleep(0.1)
            connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")

    def _failed(self) -> bool:
        status = self.connect.status(f"{self.name}-capture")
        return status is None or status.failed

    def _assign(self, consumer: Consumer, *, keep: bool = False) -> None:
        known = {(p.topic, p.partition) for p in consumer.assignment()} if keep else set()
        topics = consumer.list_topics(timeout=60).topics
        wanted = [(t, p) for t, about in topics.items() if t.startswith(f"{self.name}.") for p in about.partitions]
        new = [TopicPartition(t, p, OFFSET_BEGINNING) for t, p in wanted if (t, p) not in known]
        if new:
            consumer.incremental_assign(new)


def _text(content: bytes | None) -> Any:
    """JSON as its text, Avro as the bytes that it is."""
    return content if not content or content[0] == 0 else content.decode()


def _forms(content: bytes) -> tuple[bytes, ...]:
    """A message's content in Avro, and in JSON under each binary.handling.mode."""
    return content, base64.b64encode(content), base64.urlsafe_b64encode(content), content.hex().encode()


@contextmanager
def live_source(folder: Path) -> Iterator[LiveSource]:
    """Started for one test session or one recording; gone afterwards."""
    for jars in ("kafka", *PLUGINS):
        locked_jars(jars)
    home = Home(folder / "home").create()
    folder.chmod(0o755)
    names = ("postgres", "core-kafka", "core-kafka-controller", "core-connect")
    site = Site(home, assign(names, {}), plugins=PLUGINS)
    postgres, broker, worker = Postgres(site), KafkaBroker(site, "core", 1), apicurio.WorkerWithAvro(site, "core")
    postgres.prepare()
    with (postgres.data / "postgresql.auto.conf").open("a") as settings:
        settings.write("max_prepared_transactions = 4\n")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SECRET_LIVE", home.secret(NAME))
        parts = {component.name: Part(component) for component in (postgres, broker, worker)}
        for part in parts.values():
            # What is thrown away afterwards need not be flushed: a broker and a worker take some 12 s for that. Only a
            # killed PostgreSQL would leave something behind, its shared memory.
            stack.callback(part.stop if part.component is postgres else part.kill)
            part.start()
        with postgres.connect() as connection:
            ensure_role(connection, NAME, home.secret(NAME), "LOGIN SUPERUSER")
            ensure_database(connection, NAME, owner=NAME)
        postgres.reserve_messages(NAME, NAME)
        yield LiveSource(postgres, ConnectClient(worker.url), site.bootstrap("core"), home, parts=parts)
