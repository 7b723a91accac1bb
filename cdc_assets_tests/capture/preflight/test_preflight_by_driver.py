"""`cdc preflight` of the kinds that are asked through a driver: the real statements, through our own use of each driver.

SQL Server's and Oracle's drivers are stand-ins that answer from SQLite, in which catalogues with their views' names and columns
are filled by hand: a statement that is no SQL, or whose columns are not those that the rules take, fails. MongoDB's commands are
answered as its manual has them. No server of these kinds is started; MySQL's statements are answered by a MariaDB
(clients/mariadb/test_database.py).
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from cdc_assets.capture.preflight.inspection import Report, fix, preflight
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.capture_assets import preflight_result
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.support.catalogues import ORACLE, SQLSERVER, Catalogue
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

SERVERS = {
    "mysql": "host: 127.0.0.1, port: 9",
    "sqlserver": "host: db, dbname: shop",
    "oracle": "host: db, dbname: ORCL",
    "mongodb": "hosts: 'a:1,b:2', images: with_pre_image",
}
YAML = """
source: erp
database: {{kind: {kind}, {server}, user: cdc, password: {{secret: erp}}}}
reconciliation: {{marker: dbo.marker}}
tables: [{{name: dbo.orders, keys: [{key}], columns: {{{key}: text not null}}}}]
"""


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    made = ModuleType(name)
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, name, made)


@pytest.fixture
def sqlserver(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    catalogue = Catalogue(SQLSERVER)
    module(monkeypatch, "pytds", connect=catalogue.connect, tds_base=SimpleNamespace(Error=sqlite3.Error))
    return catalogue


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    catalogue = Catalogue(ORACLE)
    kinds = ("NUMBER", "CLOB", "NCLOB", "BLOB", "LONG", "LONG_NVARCHAR", "LONG_RAW")
    module(monkeypatch, "oracledb", connect=catalogue.connect, Error=sqlite3.Error, **{f"DB_TYPE_{k}": k for k in kinds})
    return catalogue


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Report]:
    """The report of a source of this kind, which is the only one of the registry; its topic is compacted."""
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    monkeypatch.setenv("CDC_SECRET_ERP", "hidden")
    for cluster in ("CORE", "LAKE"):
        monkeypatch.setenv(f"CDC_{cluster}_CONNECT", "http://127.0.0.1:9")
        monkeypatch.setenv(f"CDC_{cluster}_CONNECT_TOPICS", "none")
    names = ("erp.dbo.orders", "erp.shop.dbo.orders")
    compacted = {name: FakeTopic("id", {0: []}, config={"cleanup.policy": "compact"}) for name in names}
    monkeypatch.setattr(Platform, "core_kafka", lambda *_: FakeKafka(compacted))
    monkeypatch.setattr(Platform, "lake_kafka", lambda _: FakeKafka())
    return lambda kind: preflight(Chain(Platform(), declared(tmp_path, kind)))


def declared(folder: Path, kind: str) -> UnaskedSource:
    file = folder / "erp.yaml"
    file.write_text(YAML.format(kind=kind, server=SERVERS[kind], key="_id" if kind == "mongodb" else "id"))
    found = load_source(file)
    assert isinstance(found, UnaskedSource)
    return found


def bad(report: Report) -> dict[str, str]:
    return {f"{f.level} {f.check} {f.subject}": f.mend or "" for f in report.findings if f.level != "ok"}


COMPACTED = {"sqlserver": "erp.shop.dbo.orders"}


def topic_only(found: dict[str, str], kind: str) -> bool:
    """All rules hold but for the topic's, which are looked at for every kind."""
    return [*found] == [f"fail cleanup_policy {COMPACTED.get(kind, 'erp.dbo.orders')}"]


@pytest.mark.parametrize("kind", SERVERS)
def test_columns_that_silver_cannot_have_are_named(kind: str, tmp_path: Path) -> None:
    """Of what is declared, so also where no server answers."""
    source = declared(tmp_path, kind)
    (table,) = source.tables
    more = {**table.columns, "_cdc_op": "text", "_VALID_FROM": "text", "Note": "text", "NOTE": "text"}
    hostile = source.model_copy(update={"tables": (table.model_copy(update={"columns": more}),)})
    own, twins = [f.message for f in preflight(Chain(Platform(), hostile)).failures if f.check == "columns"]
    assert own.startswith("silver has columns of its own called _cdc_op, _VALID_FROM: ")
    assert twins.startswith("columns 'Note' and 'NOTE' differ only by case")


def test_sql_server(sqlserver: Catalogue, asked: Callable[[str], Report]) -> None:
    report = asked("sqlserver")
    assert (report.place, topic_only(bad(report), "sqlserver")) == ("db:1433", True)
    assert {f.subject for f in report.findings if f.check == "table_cdc"} == {"dbo.orders", "dbo.marker"}
    sqlserver.database.executescript(
        "UPDATE sys.databases SET snapshot_isolation_state = 0; INSERT INTO sys.columns (object_id) VALUES (10);"
        "UPDATE sys.tables SET is_tracked_by_cdc = 0 WHERE name = 'marker'; UPDATE msdb.cdc_jobs SET retention = 60;"
        "UPDATE sys.dm_server_services SET status_desc = 'Stopped'"
    )
    assert {*bad(asked("sqlserver"))} > {
        "fail snapshot_isolation shop",
        "fail capture_instance dbo.orders",
        "fail table_cdc dbo.marker",
        "fail agent server",
        "warn retention shop",
    }


def test_columns_that_nobody_declares_are_looked_at(sqlserver: Catalogue, asked: Callable[[str], Report], tmp_path: Path) -> None:
    sqlserver.database.executescript(
        "INSERT INTO sys.columns (object_id, column_id, name, system_type_id, user_type_id, scale, is_nullable) VALUES "
        "(10, 3, 'at', 42, 42, 7, 1), (10, 4, '_cdc_op', 231, 231, 0, 1)"
    )
    declared(tmp_path, "sqlserver")
    file = tmp_path / "erp.yaml"
    file.write_text(file.read_text().replace(", keys: [id], columns: {id: text not null}", ""))
    source = load_source(file)
    assert isinstance(source, UnaskedSource)
    told = [f.message for f in preflight(Chain(Platform(), source)).failures if f.check == "columns"]
    assert [sentence[:40] for sentence in told] == [
        "silver has columns of its own called _cd",
        "column 'at' has type timestamp(6) withou",
    ]
    sqlserver.database.executescript("DROP TABLE sys.indexes")
    (refused,) = [f for f in preflight(Chain(Platform(), source)).failures if f.check == "refused"]
    assert (refused.subject, refused.mend) == (
        "columns",
        "let the role read the catalogue, or declare the tables' columns and keys",
    )


def test_sql_server_without_cdc_is_not_asked_for_its_tables(sqlserver: Catalogue, asked: Callable[[str], Report]) -> None:
    sqlserver.database.executescript("UPDATE sys.databases SET is_cdc_enabled = 0; DROP TABLE cdc.change_tables")
    found = bad(asked("sqlserver"))
    assert found["fail database_cdc shop"] == "EXEC sys.sp_cdc_enable_db"
    assert not any("refused" in each for each in found)
    assert not any("cdc." in each for each in sqlserver.asked)


def test_a_view_that_may_not_be_asked_is_told_with_its_grant(sqlserver: Catalogue, asked: Callable[[str], Report]) -> None:
    sqlserver.database.executescript("DROP TABLE sys.dm_server_services; DROP TABLE msdb.cdc_jobs")
    found = bad(asked("sqlserver"))
    assert found["warn refused agent"] == "USE master; GRANT VIEW SERVER STATE TO [cdc]"
    assert found["warn refused jobs"] == "USE msdb; CREATE USER [cdc] FOR LOGIN [cdc]; GRANT SELECT ON dbo.cdc_jobs TO [cdc]"
    sqlserver.database.executescript("DROP TABLE sys.tables")
    report = asked("sqlserver")
    assert bad(report)["fail refused tables"]
    assert not any(f.check == "table_cdc" for f in report.findings)


def test_oracle(oracle: Catalogue, asked: Callable[[str], Report]) -> None:
    assert topic_only(bad(asked("oracle")), "oracle")
    oracle.database.executescript(
        "UPDATE v$database SET log_mode = 'NOARCHIVELOG', supplemental_log_data_min = 'NO'; UPDATE v$log SET bytes = 52428800;"
        "UPDATE v$archived_log SET first_time = julianday('now') - 0.25; DELETE FROM all_log_groups WHERE table_name = 'orders';"
        "DELETE FROM all_tables WHERE table_name = 'marker'"
    )
    report = asked("oracle")
    assert {*bad(report)} > {
        "fail archive_log database",
        "fail supplemental_minimal database",
        "warn retention database",
        "warn redo_size database",
        "fail supplemental_table dbo.orders",
        "fail table dbo.marker",
    }
    assert "go back 6.0 h" in next(f.message for f in report.findings if f.check == "retention")


def test_oracle_whose_views_are_not_granted(oracle: Catalogue, asked: Callable[[str], Report]) -> None:
    oracle.database.executescript("DROP TABLE v$database; DROP TABLE v$log")
    report = asked("oracle")
    found = bad(report)
    assert found["warn refused database"] == "GRANT SELECT ON V_$DATABASE TO cdc; GRANT SELECT ON V_$ARCHIVED_LOG TO cdc"
    assert found["warn refused redo"] == "GRANT SELECT ON V_$LOG TO cdc"
    assert [f.message for f in report.findings if f.check == "table"] == ["logs all columns and has a key"] * 2


class MongoError(Exception):
    pass


def mongo(monkeypatch: pytest.MonkeyPatch, answers: Callable[[str, dict[str, Any]], Any]) -> None:
    @contextmanager
    def connect(_: list[str], **__: Any) -> Iterator[Any]:
        class Client:
            def __getitem__(self, name: str) -> Any:
                return SimpleNamespace(command=lambda command: answers(name, command))

        yield Client()

    module(monkeypatch, "pymongo", MongoClient=connect, errors=SimpleNamespace(PyMongoError=MongoError))


def test_mongodb(monkeypatch: pytest.MonkeyPatch, asked: Callable[[str], Report]) -> None:
    hello = {"setName": "rs0", "maxWireVersion": 21}
    images = {"changeStreamPreAndPostImages": {"enabled": True}}
    held = [{"name": name, "type": "collection", "options": images} for name in ("orders", "marker", "other")]
    commands: list[tuple[str, str]] = []

    def answers(database: str, command: dict[str, Any]) -> Any:
        commands.append((database, next(iter(command))))
        if "hello" in command:
            return hello
        if "serverStatus" in command:
            raise MongoError("not authorized on admin to execute command")
        if "find" in command:
            at = 1_000_000 + (command["sort"]["$natural"] < 0) * 200 * 3600
            return {"cursor": {"firstBatch": [{"ts": SimpleNamespace(time=at)}], "id": 0}}
        wanted = command["filter"]["name"]["$in"]
        return {"cursor": {"firstBatch": [one for one in held if one["name"] in wanted], "id": 0}}

    mongo(monkeypatch, answers)
    report = asked("mongodb")
    assert (report.place, topic_only(bad(report), "mongodb")) == ("a:1,b:2", True)
    assert "the oplog spans 200 h" in {f.message for f in report.findings}
    assert commands == [
        ("admin", "hello"),
        ("local", "find"),
        ("local", "find"),
        ("admin", "serverStatus"),
        ("dbo", "listCollections"),
    ]
    held[0]["options"] = {}
    hello.clear()
    commands.clear()
    found = bad(asked("mongodb"))
    assert {*found} > {"fail replica_set server", "fail version server", "fail pre_images dbo.orders"}
    assert commands == [("admin", "hello"), ("dbo", "listCollections")]


def test_mongodb_that_refuses(monkeypatch: pytest.MonkeyPatch, asked: Callable[[str], Report]) -> None:
    def answers(_: str, command: dict[str, Any]) -> Any:
        if "hello" in command:
            return {"setName": "rs0", "maxWireVersion": 21}
        raise MongoError("not authorized")

    mongo(monkeypatch, answers)
    found = bad(asked("mongodb"))
    granted = 'db.getSiblingDB("admin").grantRolesToUser("cdc", [{role: "read", db: "%s"}])'
    assert found["warn refused oplog"] == granted % "local"
    assert found["fail refused collections of dbo"] == granted % "dbo"


@pytest.mark.parametrize(("kind", "driver"), [("sqlserver", "pytds"), ("oracle", "oracledb"), ("mongodb", "pymongo")])
def test_a_missing_driver_is_no_fault_of_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: Callable[[str], Report], kind: str, driver: str
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    report = asked(kind)
    found = next(f for f in report.findings if f.check == "reachable")
    package = "python-tds" if driver == "pytds" else driver
    assert found.message.endswith(f"is asked through {package}, which is not installed")
    assert (found.level, found.mend) == ("fail", "uv sync --inexact --only-group databases")
    # The rest is looked at all the same, and a run of the chain is not stopped for want of a driver.
    alone = Report(report.source, report.place, (found,))
    assert len(report.failures) == 2
    for told, severity in ((report, dg.AssetCheckSeverity.ERROR), (alone, dg.AssetCheckSeverity.WARN)):
        result = preflight_result(declared(tmp_path, kind), told)
        assert (result.passed, result.severity) == (False, severity)


def test_a_server_that_does_not_answer_by_command(asked: Callable[[str], Report], tmp_path: Path) -> None:
    declared(tmp_path, "mysql")
    result = CliRunner().invoke(app, ["preflight", "erp", "-o", "json"])
    (report,) = json.loads(result.stdout)
    (found,) = [f for f in report["findings"] if f["check"] == "reachable"]
    assert (result.exit_code, report["place"], found["level"]) == (1, "127.0.0.1:9", "fail")
    assert "cannot be asked: MySQL at 127.0.0.1:9: Can't connect" in found["message"]


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_an_address_that_is_not_set_is_a_finding_of_its_source(
    asked: Callable[[str], Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    nothing_read = SimpleNamespace(offsets=lambda _: [], config=lambda _: None)
    nothing_read.within = lambda _: nothing_read
    monkeypatch.setattr(Platform, "core_connect", lambda *_: nothing_read)
    declared(tmp_path, "mysql")
    file = tmp_path / "erp.yaml"
    text = file.read_text(encoding="utf-8").replace("host: 127.0.0.1", "host: {env: NOWHERE_SET}")
    if kind == "postgresql":
        text = text.replace("kind: mysql", "kind: postgresql, dbname: shop").replace("port: 9", "port: 1")
        text = re.sub(r"reconciliation.*\n|, keys:.*", "", text) + "}]\n"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["preflight", "-o", "json"])
    (report,) = json.loads(result.stdout)
    assert (result.exit_code, report["place"]) == (1, "an unknown address")
    assert "cannot be asked: NOWHERE_SET is not set" in json.dumps(report)


def test_fix_runs_what_is_safe_and_tells_what_the_server_says(
    sqlserver: Catalogue, asked: Callable[[str], Report], tmp_path: Path
) -> None:
    sqlserver.database.executescript(
        "UPDATE msdb.cdc_jobs SET retention = 60; UPDATE sys.databases SET snapshot_isolation_state = 0"
    )
    source = declared(tmp_path, "sqlserver")
    ((finding, said),) = fix(Chain(Platform(), source), asked("sqlserver"))
    assert (finding.check, sqlserver.asked[-1]) == ("retention", finding.mend)
    assert said.startswith("SQL Server at db:1433: near")
