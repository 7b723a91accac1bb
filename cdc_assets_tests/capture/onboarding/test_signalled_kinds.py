"""SQL Server, Oracle and MongoDB taken in by signal and by the temporary connector, killed at each call, resumed and rolled back.

No server and no Connect is started: what the connector would do is played (support/onboarding/scripted_world.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cdc_assets.capture import named_log_position
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.onboarding import connector_steps, onboarding_run, onboarding_state, snapshot
from cdc_assets.capture.onboarding.onboarding_state import Journal, Route, find_source
from cdc_assets.capture.preflight import mongodb_rules
from cdc_assets.clients.databases import mongodb as mongodb_columns
from cdc_assets.clients.databases import mongodb as mongodb_rows
from cdc_assets.clients.databases.oracle import OracleConnection
from cdc_assets.clients.databases.sqlserver import SqlServerConnection
from cdc_assets.registry.errors import DatabaseError, RefusalError
from cdc_assets_tests.support.catalogues import ORACLE, SQLSERVER, Catalogue
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.onboarding.scripted_world import KilledError, ScriptedWorld, sqlite_cursor
from cdc_assets_tests.support.row_servers import SERVERS

KINDS = {"sqlserver": ("shop",), "oracle": ("ORCL",), "mongodb": ()}
ROUTES: tuple[Route, ...] = ("incremental", "temporary")
# Each of the others takes as long, and differs in no step.
BY_DEFAULT = (("sqlserver", "temporary"), ("mongodb", "incremental"))
TEXT = """
source: erp
database: {{kind: {kind}, {server}, user: cdc, password: {{secret: erp}}}}
reconciliation: {{signals: dbo.signals}}
tables:
  - {{name: dbo.orders}}
"""
MORE_SQLSERVER = """
INSERT INTO sys.tables VALUES ('lines', 1, 13, 1), ('signals', 1, 14, 1);
INSERT INTO sys.columns (object_id, column_id, name, system_type_id, user_type_id, precision, scale, is_nullable)
  VALUES (13, 1, 'id', 231, 231, 0, 0, 0), (14, 1, 'id', 231, 231, 0, 0, 0);
INSERT INTO sys.indexes VALUES (13, 1, 1); INSERT INTO sys.index_columns VALUES (13, 1, 1, 1);
INSERT INTO cdc.change_tables VALUES (13, 23, 'dbo_lines', 3), (14, 24, 'dbo_signals', 4);
INSERT INTO cdc.captured_columns VALUES (23), (24);
"""
MORE_ORACLE = """
INSERT INTO all_tables VALUES ('dbo', 'lines'), ('dbo', 'signals');
INSERT INTO all_constraints VALUES ('dbo', 'lines', 'P', 'pk2'), ('dbo', 'signals', 'P', 'pk3');
INSERT INTO all_cons_columns VALUES ('dbo', 'lines', 'pk2', 'id', 1);
INSERT INTO all_tab_cols (owner, table_name, column_name, column_id, data_type, nullable)
  VALUES ('dbo', 'lines', 'id', 1, 'VARCHAR2', 'N'), ('dbo', 'signals', 'id', 1, 'VARCHAR2', 'N');
INSERT INTO all_log_groups VALUES ('dbo', 'lines', 'ALL COLUMN LOGGING'), ('dbo', 'signals', 'ALL COLUMN LOGGING');
CREATE TABLE v$transaction (xidusn, xidslot, xidsqn, start_time);
"""
DBO = """
ATTACH ':memory:' AS dbo;
CREATE TABLE dbo.signals (id TEXT PRIMARY KEY, type TEXT, data TEXT);
"""

World = Callable[..., ScriptedWorld]


@pytest.fixture
def catalogues(monkeypatch: pytest.MonkeyPatch) -> dict[str, Catalogue]:
    """The databases of SQL Server and Oracle."""
    found = {"sqlserver": Catalogue(SQLSERVER), "oracle": Catalogue(ORACLE)}
    found["sqlserver"].database.executescript(MORE_SQLSERVER)
    found["oracle"].database.executescript(MORE_ORACLE)
    for each in found.values():
        each.database.executescript(DBO)
        each.database.create_function("OBJECT_NAME", 1, {10: "orders", 11: "marker", 13: "lines", 14: "signals"}.get)
    return found


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalogues: dict[str, Catalogue]) -> World:
    """A world of this kind; its connector runs with one table."""
    monkeypatch.setattr(connector_steps, "_IN_FLIGHT_SECONDS", 0.0)
    # A process that dies loses nothing that it has written; a machine is not played here.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for module in (snapshot, connector_steps):
        monkeypatch.setattr(module, "_POLL_SECONDS", 0.001)
    for name in ("_ROW_POLL_SECONDS", "_OFFSET_POLL_SECONDS"):
        monkeypatch.setattr(named_log_position, name, 0.001)
    monkeypatch.setenv("CDC_SECRET_ERP", "hidden")
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/secrets")
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", "lake:9092")
    monkeypatch.setenv("CDC_CORE_CONNECT", "http://core")
    monkeypatch.setenv("CDC_LAKE_CONNECT", "http://lake")
    number = 0

    def made(kind: str) -> ScriptedWorld:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        server = ", ".join(f"{key}: '{value}'" for key, value in SERVERS[kind].items())
        world = ScriptedWorld(declare(folder, monkeypatch, TEXT.format(kind=kind, server=server), "erp"), KINDS[kind])
        if kind == "mongodb":
            serve_mongodb(world, monkeypatch)
        else:
            connection = {"sqlserver": SqlServerConnection, "oracle": OracleConnection}[kind]
            monkeypatch.setattr(connection, "cursor", lambda _: sqlite_cursor(world, catalogues[kind]))
            catalogues[kind].database.execute("DELETE FROM dbo.signals")
        config = capture_config(find_source("erp"))
        world.connect.configs["erp-capture"] = config
        world.connect.run("erp-capture")
        return world

    return made


def serve_mongodb(world: ScriptedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections as pymongo has them."""
    documents: dict[str, list[dict[str, Any]]] = {name: [] for name in ("orders", "lines", "signals")}
    documents["lines"].append({"_id": "a", "n": 1})

    class Found(list[dict[str, Any]]):
        def sort(self, *_: Any) -> Found:  # type: ignore[override]
            return self

        def limit(self, count: int) -> list[dict[str, Any]]:
            return self[:count]

    class Collection:
        def __init__(self, name: str) -> None:
            self.name = name

        def find(self, *_: Any, **__: Any) -> Found:
            return Found(documents[self.name])

        def insert_one(self, document: dict[str, Any]) -> None:
            import json

            documents[self.name].append(document)
            world.signal(document["_id"], document["type"], json.dumps(document["payload"]))

        def delete_many(self, where: dict[str, Any]) -> Any:
            gone = [each for each in documents[self.name] if not where or each["_id"] == where["_id"]]
            documents[self.name] = [each for each in documents[self.name] if each not in gone]
            return SimpleNamespace(deleted_count=len(gone))

    class Database:
        def __init__(self, name: str) -> None:
            self.name = name

        def __getitem__(self, name: str) -> Collection:
            return Collection(name)

        def get_collection(self, name: str, **_: Any) -> Collection:
            return Collection(name)

        def list_collection_names(self, *, filter: dict[str, str]) -> list[str]:  # noqa: A002 - pymongo's name
            return [name for name in documents if name == filter["name"]]

        def command(self, command: dict[str, Any]) -> dict[str, Any]:
            if "hello" in command:
                return {"setName": "rs0", "maxWireVersion": 21}
            if "find" in command:
                at = 1_000_000 + (command["sort"]["$natural"] < 0) * 200 * 3600
                return {"cursor": {"firstBatch": [{"ts": SimpleNamespace(time=at)}], "id": 0}}
            if "listCollections" in command:
                return {"cursor": {"firstBatch": [{"name": n, "type": "collection", "options": {}} for n in documents], "id": 0}}
            return {"version": "7.0"}

    class Client:
        def __getitem__(self, name: str) -> Database:
            return Database(name)

    @contextmanager
    def client(_: object) -> Iterator[Client]:
        world.calls.touch()
        yield Client()

    for module in (mongodb_rows, mongodb_columns, mongodb_rules):
        monkeypatch.setattr(module, "open_client", client)
    for name, member in (("read_concern", "ReadConcern"), ("write_concern", "WriteConcern")):
        stand_in = ModuleType(f"pymongo.{name}")
        vars(stand_in)[member] = str
        monkeypatch.setitem(sys.modules, f"pymongo.{name}", stand_in)
    monkeypatch.setitem(sys.modules, "pymongo", ModuleType("pymongo"))


def take_in(world: ScriptedWorld, route: Route, said: list[str] | None = None) -> onboarding_run.Outcome:
    onboarding_run.begin("erp", ["dbo.lines"], route)
    return onboarding_run.go_on(world.platform(), "erp", (said if said is not None else []).append)


def final_state(world: ScriptedWorld) -> dict[str, Any]:
    """What an onboarding leaves behind, however often it was killed."""
    return {
        "file": world.file.read_text(),
        "connectors": world.connect.configs,
        "states": world.connect.states,
        "mirrors": world.mirrors.configs,
        "topics": sorted(world.core.topics),
        "copies": sorted(world.lake.topics),
        "running": Journal.of("erp").running,
        "finished": {table: facts["route"] for table, facts in Journal.of("erp").finished.items()},
    }


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_taken_in(begin: World, kind: str, route: Route) -> None:
    world, said = begin(kind), list[str]()
    outcome = take_in(world, route, said)
    assert outcome.state == "done"
    assert "{name: dbo.lines}" in world.file.read_text()
    assert set(world.listed()) == {"dbo.orders", "dbo.lines", "dbo.signals"}
    assert [*world.connect.configs] == ["erp-capture"]
    assert world.connect.states["erp-capture"] == "RUNNING"
    assert outcome.steps["snapshot"]["rows_scanned"] == {"dbo.lines": 3}
    assert not any(topic.endswith("-onboard") for topic in world.core.topics)
    assert outcome.steps["verify"]["rows"] == {}
    assert any(text.startswith(f"not counted: kind {kind} is not asked for the place in its log") for text in said)
    assert any("no marker table is declared" in text for text in said)
    asked = [data["data-collections"] for _, kind_, data in world.signals if kind_ == "execute-snapshot"]
    pattern = {"sqlserver": r"shop\.dbo\.lines", "oracle": r"ORCL\.dbo\.lines", "mongodb": "dbo.lines"}[kind]
    assert asked == ([[pattern]] if route == "incremental" else [])
    # A second time there is nothing to do.
    assert onboarding_run.begin("erp", ["dbo.lines"], route) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "route"),
    [
        pytest.param(kind, route, marks=[] if (kind, route) in BY_DEFAULT else pytest.mark.all)
        for kind in KINDS
        for route in ROUTES
    ],
)
def test_killed_at_each_call_and_resumed_it_ends_in_the_same_state(begin: World, kind: str, route: Route) -> None:
    whole = begin(kind)
    take_in(whole, route)
    wanted, calls = final_state(whole), whole.calls.made
    assert calls > 20
    for at in range(calls):
        world = begin(kind)
        world.calls.made, world.calls.kill_at = 0, at
        with pytest.raises(KilledError):
            take_in(world, route)
        world.calls.kill_at = None
        assert take_in(world, route).state == "done", at
        assert final_state(world) == wanted, at


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_rolled_back_it_is_as_before(begin: World, kind: str, route: Route) -> None:
    whole = begin(kind)
    take_in(whole, route)
    for at in range(0, whole.calls.made, 7):
        world = begin(kind)
        text, config = world.file.read_text(), dict(world.connect.configs["erp-capture"])
        world.calls.made, world.calls.kill_at = 0, at
        with pytest.raises(KilledError):
            take_in(world, route)
        world.calls.kill_at = None
        assert onboarding_run.roll_back(world.platform(), "erp", lambda _: None).state == "rolled back"
        assert (world.file.read_text(), world.connect.configs) == (text, {"erp-capture": config}), at
        assert world.connect.states == {"erp-capture": "RUNNING"}, at
        assert not any(topic.endswith("-onboard") for topic in world.core.topics), at


def test_a_table_without_a_capture_instance_is_told_with_the_statement(begin: World, catalogues: dict[str, Catalogue]) -> None:
    world = begin("sqlserver")
    catalogues["sqlserver"].database.executescript(
        "UPDATE sys.tables SET is_tracked_by_cdc = 0 WHERE name = 'lines'; DELETE FROM sys.tables WHERE name = 'signals'"
    )
    before = world.file.read_text()
    with pytest.raises(RefusalError) as refused:
        take_in(world, "incremental")
    told = str(refused.value)
    assert "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'lines', @role_name = NULL" in told
    assert "there is no signal table dbo.signals; run CREATE TABLE [dbo].[signals] (id varchar(100) PRIMARY KEY" in told
    assert (world.file.read_text(), world.connect.states) == (before, {"erp-capture": "RUNNING"})
    onboarding_run.roll_back(world.platform(), "erp", lambda _: None)
    # The temporary connector needs no signal table, but it needs the capture instance.
    with pytest.raises(RefusalError) as refused:
        take_in(world, "temporary")
    assert "sp_cdc_enable_table" in str(refused.value)
    assert "there is no signal table" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("sqlserver", "EXEC sys.sp_cdc_enable_table @source_schema = N'cdc_assets', @source_name = N'signal_erp'"),
        ("oracle", 'ALTER TABLE "cdc_assets"."signal_erp" ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS'),
        ("mongodb", 'db.getSiblingDB("cdc_assets").createCollection("signal_erp")'),
    ],
)
def test_without_a_declared_signal_table_its_statements_are_told(begin: World, kind: str, statement: str) -> None:
    world = begin(kind)
    world.file.write_text(world.file.read_text().replace("reconciliation: {signals: dbo.signals}\n", ""))
    with pytest.raises(RefusalError) as refused:
        take_in(world, "incremental")
    assert statement in str(refused.value)
    assert "declare it: reconciliation: {signals: cdc_assets.signal_erp}" in str(refused.value)


def test_an_oracle_table_that_does_not_log_its_columns_is_told(begin: World, catalogues: dict[str, Catalogue]) -> None:
    world = begin("oracle")
    catalogues["oracle"].database.executescript("DELETE FROM all_log_groups WHERE table_name = 'lines'; DROP TABLE v$transaction")
    with pytest.raises(RefusalError) as refused:
        take_in(world, "temporary")
    assert "open transactions must be seen: GRANT SELECT ON V_$TRANSACTION TO cdc" in str(refused.value)
    assert 'ALTER TABLE "dbo"."lines" ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS' in str(refused.value)


def test_open_transactions_of_an_oracle_are_waited_for(
    begin: World, catalogues: dict[str, Catalogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, said = begin("oracle"), list[str]()
    database = catalogues["oracle"].database
    database.execute("INSERT INTO v$transaction VALUES (7, 1, 900, '11/27/26 06:00:00')")
    monkeypatch.setattr(onboarding_state, "_TOLD_EVERY_SECONDS", 0.0)
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        # One that begins later is not waited for.
        database.execute("INSERT INTO v$transaction VALUES (8, 2, 901, '11/27/26 06:01:00')")
        if len(sleeps) == 3:
            database.execute("DELETE FROM v$transaction WHERE xidusn = 7")

    monkeypatch.setattr(onboarding_state.time, "sleep", sleep)
    outcome = take_in(world, "incremental", said)
    assert outcome.steps["writers"]["waited_for"] == 1
    assert "waiting for a transaction open since 11/27/26 06:00:00 (xid 7.1.900)" in said


def test_what_silver_could_not_hold_is_refused_before_anything_is_begun(begin: World, catalogues: dict[str, Catalogue]) -> None:
    world = begin("sqlserver")
    catalogues["sqlserver"].database.execute(
        "INSERT INTO sys.columns VALUES (13, 2, 'any', 98, 98, 0, 0, 1, 0, 0, 0), (13, 3, 'at', 42, 42, 27, 7, 1, 0, 0, 0)"
    )
    with pytest.raises((RefusalError, DatabaseError)) as refused:
        take_in(world, "incremental")
    assert "column 'any' has type sql_variant: Debezium does not send it" in str(refused.value)
    assert "column 'at' has type timestamp(6) without time zone: Debezium loses digits of a second" in str(refused.value)
    assert "dbo.lines" not in world.file.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_has_tried_is_refused(begin: World, kind: str) -> None:
    begin(kind)
    with pytest.raises(RefusalError, match=f"of kind {kind}: nobody has looked at the offset.*take route incremental or temp"):
        onboarding_run.plan_steps("erp", ["dbo.lines"], "blocking")
    with pytest.raises(RefusalError, match="nobody has tried its connector by commits; cdc onboard without --watch"):
        onboarding_run.begin("erp", ["dbo.lines"], "incremental", watched=True)
