"""A source of SQL Server, Oracle or MongoDB with Connect and Kafka around it, all of it in memory, and killed where a test says.

Connect is its REST interface for any number of connectors; the database is a catalogue in SQLite behind what a driver has, or
documents behind what pymongo has. A connector that runs, lists its signal table and finds a signal there says in the notification
topic that it has read the tables that it lists, and sends their rows; one of `initial_only` does so when it begins. What a server
would do beyond that is not played.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import httpx

from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.errors import DatabaseError
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic


class KilledError(BaseException):
    """Where kill -9 would have been."""


@dataclass
class Calls:
    """Everything that goes out, counted; the one with this number does not come through, nor does any behind it."""

    kill_at: int | None = None
    made: int = 0

    def touch(self) -> None:
        if self.kill_at is not None and self.made >= self.kill_at:
            raise KilledError
        self.made += 1


class ManyConnectors:
    """Connect's REST for connectors by their names; `begun` is told of each that starts to run."""

    def __init__(self, calls: Calls, begun: Callable[[str, Mapping[str, str]], None]) -> None:
        self._calls, self._begun = calls, begun
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        self.offsets: dict[str, list[dict[str, Any]]] = {}

    def run(self, name: str) -> None:
        self.states[name] = "RUNNING"
        self.offsets.setdefault(name, [{"partition": {"server": "erp"}, "offset": {"commit_lsn": "00:01"}}])
        self._begun(name, self.configs[name])

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self._calls.touch()
        parts = [unquote(part) for part in request.url.path.strip("/").split("/")]
        if parts[0] == "connector-plugins":
            return httpx.Response(200, json={"configs": []} if parts[-1] == "validate" else [])
        if len(parts) == 1:
            sent = json.loads(request.content)
            self.configs[sent["name"]] = sent["config"]
            self.states[sent["name"]] = "STOPPED"
            if sent.get("initial_state", "RUNNING") == "RUNNING":
                self.run(sent["name"])
            return httpx.Response(201, json={})
        return self._of(parts[1], parts[2] if len(parts) > 2 else "", request)

    def _of(self, name: str, what: str, request: httpx.Request) -> httpx.Response:
        if what == "offsets":
            if request.method == "DELETE":
                self.offsets.pop(name, None)
                return httpx.Response(200, json={"message": "reset"})
            return httpx.Response(200, json={"offsets": self.offsets.get(name, [])})
        if what == "config" and request.method == "PUT":
            self.configs[name] = json.loads(request.content)
            self.states.setdefault(name, "RUNNING")
            return httpx.Response(200, json={})
        if name not in self.configs:
            return httpx.Response(404, json={"error_code": 404, "message": "not there"})
        if what == "config":
            return httpx.Response(200, json=self.configs[name])
        if what == "status":
            running = self.states[name] == "RUNNING"
            tasks = [{"id": 0, "state": "RUNNING", "worker_id": "w"}] if running else []
            return httpx.Response(200, json={"connector": {"state": self.states[name], "worker_id": "w"}, "tasks": tasks})
        if what == "stop":
            self.states[name] = "STOPPED"
        elif what == "resume":
            self.run(name)
        elif request.method == "DELETE":
            del self.configs[name], self.states[name]
        return httpx.Response(202, json={"message": ""})


class KilledKafka(FakeKafka):
    """A cluster in memory whose topics are made and removed."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def ensure_topic(self, name: str, **_: Any) -> bool:
        self._calls.touch()
        new = name not in self.topics
        self.topics.setdefault(name, FakeTopic(name, {0: []}))
        return new

    def await_state(self, name: str, *, deadline: float) -> Any:
        return self.states([name])[name]

    def delete_topic(self, name: str) -> None:
        self._calls.touch()
        del self.topics[name]

    def send(self, topic: str, value: Mapping[str, Any]) -> None:
        self.topics.setdefault(topic, FakeTopic(topic, {0: []})).logs[0].append((b"1", json.dumps(value).encode()))


@dataclass
class ScriptedWorld:
    """One source called `erp`, whose connector captures one table already."""

    file: Path
    scope: tuple[str, ...]
    calls: Calls = field(default_factory=Calls)

    def __post_init__(self) -> None:
        self.core, self.lake = KilledKafka(self.calls), KilledKafka(self.calls)
        self.connect = ManyConnectors(self.calls, self._begin)
        self.mirrors = ManyConnectors(self.calls, self._mirror)
        self.signals: list[tuple[str, str, dict[str, Any]]] = []

    def platform(self) -> Platform:
        clients = {
            each: ConnectClient(f"http://{each}", deadline=5, transport=httpx.MockTransport(handler))
            for each, handler in (("core", self.connect), ("lake", self.mirrors))
        }
        found = Platform(lake_root=str(self.file.parent / "lake"))
        vars(found).update(
            core_connect=lambda _: clients["core"],
            lake_connect=lambda: clients["lake"],
            core_kafka=lambda _: self.core,
            lake_kafka=lambda: self.lake,
        )
        return found

    def listed(self, connector: str = "erp-capture") -> list[str]:
        """The tables in the connector's list."""
        config = self.connect.configs[connector]
        patterns = (config.get("table.include.list") or config["collection.include.list"]).split(",")
        return [pattern.replace("\\", "") for pattern in patterns]

    def signal(self, signal: str, kind: str, data: str) -> None:
        """A signal is written; a connector that runs answers it."""
        self.signals.append((signal, kind, json.loads(data)))
        config = self.connect.configs["erp-capture"]
        if (
            kind != "execute-snapshot"
            or self.connect.states["erp-capture"] != "RUNNING"
            or "signal.data.collection" not in config
        ):
            return
        for pattern in json.loads(data)["data-collections"]:
            for table in self.listed():
                name = ".".join((*self.scope, table))
                if re.fullmatch(pattern, name):
                    self._read("Incremental Snapshot", name, table, signal)

    def _begin(self, name: str, config: Mapping[str, str]) -> None:
        if name.endswith("-onboard"):
            assert config["snapshot.mode"] == "initial_only", config
            if history := config.get("schema.history.internal.kafka.topic"):
                self.core.topics.setdefault(history, FakeTopic(history, {0: []}))
            for table in self.listed(name):
                self._read("Initial Snapshot", ".".join((*self.scope, table)), table, "x")

    def _mirror(self, name: str, config: Mapping[str, str]) -> None:
        for topic in self.core.topics:
            self.lake.topics.setdefault(f"core.{topic}", FakeTopic(topic, {0: []}))

    def _read(self, aggregate: str, name: str, table: str, signal: str) -> None:
        told = {"scanned_collection": name, "status": "SUCCEEDED", "total_rows_scanned": "3"}
        value = {"id": signal, "aggregate_type": aggregate, "type": "TABLE_SCAN_COMPLETED", "additional_data": told}
        self.core.send("erp.notifications", value)
        topic = name if self.scope and "erp." not in name else table
        self.core.send(f"erp.{topic}", {"op": "r", "after": {"id": 1}, "source": {}})


@contextmanager
def sqlite_cursor(world: ScriptedWorld, catalogue: Any) -> Iterator[Any]:
    """A cursor of the catalogue, whose inserted signals the connector meets."""
    world.calls.touch()
    with catalogue.cursor() as cursor:

        def execute(query: str, values: Sequence[Any] = ()) -> None:
            try:
                cursor.execute(query, values)
            except sqlite3.Error as error:
                raise DatabaseError(str(error)) from error
            if query.startswith("INSERT INTO") and "signals" in query:
                world.signal(*values)

        yield SimpleNamespace(execute=execute, fetchall=cursor.fetchall, rowcount=1)
