"""A MongoDB-compatible server with the product's own connector on the Connect worker of `live_source`."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mongodb_server import REPLICA_SET, MongoDbServer

if TYPE_CHECKING:
    from typing_extensions import Self

SECRET, MARKS = "mongodb", "zz_marks"


@dataclass(frozen=True)
class LiveMongoDb:
    """A server and, once `capture` has been called, a connector; its collections are in the database of the source's name."""

    server: MongoDbServer
    live: LiveSource
    name: str = "mongo"
    images: str = "full"
    reconciliation: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return self.live.bootstrap

    @property
    def home(self) -> Home:
        return self.live.home

    @property
    def connect(self) -> ConnectClient:
        return self.live.connect

    def renamed(self, name: str) -> Self:
        """The same server, for another connector."""
        return replace(self, name=name)

    def source(self, tables: Sequence[str | Mapping[str, object]]) -> UnaskedSource:
        """The registry's declaration of these collections."""
        login = {"user": "cdc", "password": {"secret": SECRET}}
        database = {"kind": "mongodb", "hosts": self.server.hosts, "replica_set": REPLICA_SET, "images": self.images, **login}
        declared = [{"name": t} if isinstance(t, str) else t for t in tables]
        made = {"source": self.name, "database": database, "reconciliation": self.reconciliation, "tables": declared}
        return UnaskedSource.model_validate(made)

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Where the product finds secrets and the cluster."""
        self.write_secret()
        with self.live.settings(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("CDC_CORE_BOOTSTRAP", self.live.bootstrap)
            yield

    def write_secret(self) -> None:
        file = self.live.home.secrets / SECRET
        file.write_text(PASSWORD)
        file.chmod(0o600)

    def capture(self, tables: Sequence[str | Mapping[str, object]], **overrides: str) -> None:
        """Start the product's own connector on these collections and on the one of marks; `overrides` change its config."""
        marks = {"name": f"{self.name}.{MARKS}", "keys": ["_id"], "columns": {"_id": "text not null"}}
        with self.settings():
            config = capture_config(self.source([*tables, marks]))
        config |= {key.replace("__", "."): value for key, value in overrides.items()}
        assert self.connect.validate(config) == {}
        self.connect.put_config(config["name"], config)
        self.connect.wait_running(config["name"])

    def delivered(self, *, seconds: float = 240) -> dict[str, dict[int, list[Record]]]:
        """Every record of every collection, once all that is committed until now has come: a mark written since is streamed."""
        began, deadline = uuid.uuid4().hex, time.monotonic() + seconds
        with self.server.client() as client:
            marks = client[self.name][MARKS]
            for number in range(10**6):
                # Again now and then: one that a snapshot reads says nothing of the changes behind it.
                marks.insert_one({"_id": f"{began}-{number}"})
                found = self.records()
                if self._streamed(found, began):
                    return found
                status = self.connect.status(f"{self.name}-capture")
                assert status is not None, self.name
                assert not status.failed, status
                assert time.monotonic() < deadline, status
                time.sleep(0.5)
        raise AssertionError

    def records(self) -> dict[str, dict[int, list[Record]]]:
        """What the topics hold now, by topic and partition."""
        topics = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=60).topics
        cluster = KafkaCluster(self.bootstrap)
        found: dict[str, dict[int, list[Record]]] = {}
        for topic, state in cluster.states([t for t in topics if t.startswith(f"{self.name}.")]).items():
            for read in cluster.records(topic, state.ranges):
                texts = [None if part is None else part.decode() for part in (read.key, read.value)]
                found.setdefault(topic, {}).setdefault(read.partition, []).append(Record(read.offset, *texts))
        return found

    def _streamed(self, found: Mapping[str, Mapping[int, Sequence[Record]]], began: str) -> bool:
        values = [r.value for read in found.get(f"{self.name}.{self.name}.{MARKS}", {}).values() for r in read if r.value]
        return any(began in value and json.loads(value)["op"] == "c" for value in values)
