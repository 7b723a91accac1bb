"""Databases that are not asked: what is declared instead, and what their chain is told."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from cdc_assets.capture.kind_capture import CAPTURE
from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.capture.onboarding.snapshot_again import refuse_kind
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import table_spec
from cdc_assets.defs.capture_assets import severity_of
from cdc_assets.defs.check_specs import EVENTS_FLOW
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.proof.capture_flow import Flow
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError, MissingSecretError, RefusalError, RegistryError
from cdc_assets.registry.kinds import experimental_warnings
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets.stack import component_plan
from cdc_assets.stack.declared_needs import places_to_remember
from cdc_assets.stack.home import Home
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.fakes import without_clusters

ORACLE = """
source: erp
database: {kind: oracle, host: db, dbname: ORCL, user: cdc, password: {secret: erp}}
tables:
  - {name: SALES.ORDERS, keys: [ID], columns: {ID: bigint not null, TOTAL: "numeric(12,2)"}}
"""
MYSQL = """
source: shop
database: {kind: mysql, host: db, user: cdc, password: {secret: shop}}
tables:
  - {name: shop.orders, keys: [id], columns: {id: bigint not null}}
"""
MONGO = """
source: docs
database: {kind: mongodb, hosts: "m:27017", user: cdc, password: {secret: docs}}
tables:
  - {name: shop.orders, keys: [_id], columns: {_id: text not null, lines: jsonb}}
"""
CHAINS = [(ORACLE, "debezium-json", "oracle"), (MONGO, "debezium-mongodb", "mongodb")]


def source_of(folder: Path, text: str) -> UnaskedSource:
    file = folder / "source.yaml"
    file.write_text(text)
    found = load_source(file)
    assert isinstance(found, UnaskedSource)
    return found


@pytest.mark.parametrize(("text", "envelope", "connector"), CHAINS)
def test_silver_has_the_declared_columns_and_the_positions_of_its_kind(
    tmp_path: Path, text: str, envelope: str, connector: str
) -> None:
    source = source_of(tmp_path, text)
    table = source.tables[0]
    spec = silver_spec("/lake", source, table, catalogue_of(Chain(Platform(), source), source.tables)[table.id])
    assert (spec.envelope, spec.connector, spec.keys) == (envelope, connector, table.keys)
    assert [c.name for c in spec.columns] == list(table.columns)
    assert [c.nullable for c in spec.columns] == [False, True]


def test_its_chain_has_a_connector_and_no_check_of_rows_where_nobody_can_mark_the_log(tmp_path: Path) -> None:
    chain = build_source_defs(source_of(tmp_path, ORACLE))
    graph = dg.Definitions.merge(chain, dg.Definitions(resources={"platform": PlatformResource()})).resolve_asset_graph()
    checks = {key.name for key in graph.asset_check_keys}
    assert {"connector_running", "preflight", "record_parity"} <= checks
    assert "reconciled" not in checks
    assert {
        dg.AssetKey(["connector", "erp", "connector_erp"]),
        dg.AssetKey(["silver", "erp", "silver_SALES__ORDERS"]),
    } <= graph.get_all_asset_keys()


def test_a_mysql_alone_is_asked_whether_its_changes_become_events(tmp_path: Path) -> None:
    source = source_of(tmp_path, MYSQL)
    graph = dg.Definitions.merge(
        build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()})
    ).resolve_asset_graph()
    assert "events_flow" in {key.name for key in graph.asset_check_keys}
    assert not EVENTS_FLOW.keys(source_of(tmp_path, ORACLE))
    # Nobody here can ask it: its chain goes on.
    for unasked in (DatabaseError("MySQL at db:3306: Connection refused"), MissingSecretError("shop", ())):
        assert severity_of(source, unasked) == dg.AssetCheckSeverity.WARN
    for found in (Flow({"shop.orders": "no event"}), CaughtUpTimeoutError("shop: connector shop-capture is nowhere")):
        assert severity_of(source, found) == dg.AssetCheckSeverity.ERROR


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (ORACLE.replace("keys: [ID], ", ""), "with declared columns kind oracle is not asked for keys, declare them"),
        (ORACLE.replace("keys: [ID]", "keys: [NO]"), "keys that are not among the columns"),
        (ORACLE + "capture: {slot: s}\n", "capture.slot: a source of kind oracle has no such setting"),
        (ORACLE.replace("oracle", "db2"), "accepted: postgresql, mariadb, mysql, sqlserver, oracle, mongodb"),
        (ORACLE.replace("dbname", "lobs: true, dbname"), "Debezium does not read them with mining: hybrid"),
        (MONGO.replace("keys: [_id]", "keys: [lines]"), "the key of a MongoDB collection is _id"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, finding: str) -> None:
    with pytest.raises(RegistryError) as refused:
        source_of(tmp_path, text)
    assert finding in str(refused.value)


def test_onboarding_takes_each_kind_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(tmp_path, ORACLE)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    assert find_source(source.name, "incremental") == find_source(source.name, "temporary") == source
    own = ("postgresql", "mariadb", "mysql", "sqlserver", "oracle", "mongodb")
    assert [name for name in own if not CAPTURE[name].onboarding] == []


def test_a_kind_without_onboarding_is_told_what_to_do_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of docs/how-to/add-a-database.md."""
    source = source_of(tmp_path, ORACLE)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    monkeypatch.setitem(CAPTURE, "oracle", dataclasses.replace(CAPTURE["oracle"], onboarding=None))  # type: ignore[arg-type]
    with pytest.raises(RefusalError, match="erp is of kind oracle, and onboarding takes tables of .*mongodb only. By hand"):
        find_source(source.name)
    with pytest.raises(RefusalError, match="is of kind oracle, whose signals are not sent from here.*cdc reconcile erp --heal"):
        refuse_kind(source)


def test_a_kind_that_met_no_server_is_called_experimental_wherever_it_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, which kinds.experimental_warning words."""
    said = "kind oracle is experimental: not run against a server"
    sources = [source_of(tmp_path, ORACLE), source_of(tmp_path, MYSQL)]
    assert experimental_warnings(sources) == {"erp": said}
    (tmp_path / "source.yaml").write_text(ORACLE)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    # `up --no-examples` leaves a folder there, which would take the examples away from other tests.
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CDC_SECRET_ERP", "hidden")
    without_clusters(monkeypatch)
    monkeypatch.setitem(sys.modules, "oracledb", None)
    runner = CliRunner()
    monkeypatch.setattr("cdc_assets.capture.connectors.connector_inventory.connector_rows", lambda *_: [])
    monkeypatch.setattr("cdc_assets.cli.verbs.stack_verbs._check_packages", lambda _: sys.exit("nothing is started here"))
    for arguments in (
        ["apply", "erp", "--dry-run"],
        ["diff", "erp", "-o", "json"],
        ["get", "connectors", "-o", "json"],
        ["onboard", "erp", "SALES.LINES", "--dry-run"],
        ["reconcile", "erp"],
        ["remove", "erp", "--dry-run"],
        ["snapshot", "erp", "SALES.ORDERS", "--dry-run"],
        ["up", "--no-examples"],
    ):
        result = runner.invoke(app, arguments)
        assert f"cdc: erp: {said}" in result.stderr, arguments
        assert said not in result.stdout, arguments
    assert f"erp: {said}" in runner.invoke(app, ["preflight", "erp"]).output
    (report,) = json.loads(runner.invoke(app, ["preflight", "erp", "-o", "json"]).stdout)
    assert report["experimental"] == said
    assert json.loads(runner.invoke(app, ["validate", "-o", "json"]).stdout)["experimental"] == {"erp": said}
    spec = {key.to_user_string(): spec for spec in table_specs(sources[0]) for key in [spec.key]}
    assert spec["silver/erp/silver_SALES__ORDERS"].metadata["cdc/experimental"] == said
    assert "cdc/experimental" not in spec["bronze/erp/bronze_SALES__ORDERS"].metadata


def table_specs(source: UnaskedSource) -> list[dg.AssetSpec]:
    return [table_spec(layer, source, source.tables[0]) for layer in ("bronze", "silver")]


def test_the_embedded_worker_has_a_plugin_when_its_kind_is_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(tmp_path, MONGO)
    assert not names.has_schema_history(source)
    assert "debezium-mongodb" not in component_plan.jar_sets()
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    assert "debezium-mongodb" in component_plan.jar_sets()


def test_a_vendors_driver_is_fetched_for_whoever_accepts_its_licence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source_of(tmp_path, MYSQL)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    home = Home(tmp_path / "home").create()
    with pytest.raises(StackError, match="CDC_VENDOR_DRIVERS=mysql ./cdc up accepts it and fetches the driver"):
        component_plan.choose(home, environment={})
    monkeypatch.setenv("CDC_VENDOR_DRIVERS", "oracle, mysql")
    assert "debezium-mysql" in component_plan.jar_sets()
    asked: list[set[str]] = []
    monkeypatch.setattr(component_plan, "java_having", lambda modules: asked.append({*modules}) or Path("java"))
    assert component_plan.choose(home, environment={}).plugins == ("debezium-postgres", "debezium-mysql")
    assert asked == [{"jdk.charsets"}]
    assert places_to_remember(home)["CDC_VENDOR_DRIVERS"] == "oracle, mysql"


def test_a_connector_that_would_lose_letters_on_every_java_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_of(tmp_path, MYSQL)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    monkeypatch.setenv("CDC_VENDOR_DRIVERS", "mysql")
    monkeypatch.setattr(component_plan, "java_having", lambda modules: None)
    home = Home(tmp_path / "home").create()
    with pytest.raises(StackError, match=r"lacks jdk.charsets, and so does each Java .*: snapshots of kind mysql") as refused:
        component_plan.choose(home, environment={})
    assert "install a whole Java, 17 or newer" in str(refused.value)
    assert "JAVA_HOME=… ./cdc up" in str(refused.value)
    # A worker of the user's own has a Java of its own.
    assert component_plan.choose(home, environment={"CDC_CORE_CONNECT": "http://connect:8083"}).plugins[1:] == ("debezium-mysql",)


def test_a_vendors_driver_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source_of(tmp_path, ORACLE)
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    assert "debezium-oracle" not in component_plan.jar_sets()
    with pytest.raises(StackError, match="kind oracle needs its vendor's driver"):
        component_plan.choose(Home(tmp_path / "home").create(), environment={})
