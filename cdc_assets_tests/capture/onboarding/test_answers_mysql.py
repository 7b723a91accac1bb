"""What onboarding asks and says of a MySQL, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.temporary_connectors import definitions_config, temporary_config
from cdc_assets.capture.onboarding import onboarding_run, topic_verification
from cdc_assets.capture.onboarding.binlog_onboarding import MySqlKind, _declaration_problems
from cdc_assets.capture.onboarding.onboarding_run import Outcome
from cdc_assets.capture.onboarding.onboarding_state import Onboarding, OnboardingWork, Route, find_source
from cdc_assets.capture.onboarding.topic_verification import _exact
from cdc_assets.cli.output_formats import Format
from cdc_assets.cli.verbs.source_verbs import _answer
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets.registry.table_declaration import DeclaredTable, Table
from cdc_assets_tests.support.declared import declare_source

TEXT = """
source: shop
database: {kind: mysql, host: db, user: cdc, password: {secret: shop}}
reconciliation: {signals: ours.signals}
tables:
  - {name: shop.orders, keys: [id], columns: {id: bigint not null, v: text}}
  - {name: shop.lines, keys: [id], columns: {id: bigint not null, v: text}}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UnaskedSource:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    return declare_source(tmp_path, monkeypatch, TEXT, UnaskedSource)


def work(source: UnaskedSource, route: Route, *tables: str) -> OnboardingWork:
    return OnboardingWork(Platform(), Onboarding("one", source.name, route, tables, "now"), source, print)


def test_the_connector_beside_captures_the_new_tables_alone_and_keeps_to_itself(shop: UnaskedSource) -> None:
    running, beside = capture_config(shop), temporary_config(shop, [shop.table("shop.lines")])
    for key in ("name", "database.server.id", "schema.history.internal.kafka.topic"):
        assert beside[key] != running[key]
    assert beside["topic.prefix"] == running["topic.prefix"]
    assert beside["table.include.list"] == r"(?-i:shop\.lines)"
    assert beside["message.key.columns"] == r"(?-i)shop\.lines:id"
    assert beside["notification.sink.topic.name"] == running["notification.sink.topic.name"] == "shop.notifications"
    assert (beside["snapshot.mode"], beside["snapshot.locking.mode"]) == ("initial_only", "minimal")
    only = definitions_config(shop, [shop.table("shop.lines"), Table(name="ours.signals")])
    assert only["schema.history.internal.kafka.topic"] == names.temporary_schema_history_topic(shop)
    assert only["schema.history.internal.store.only.captured.tables.ddl"] == "true"
    assert only["database.include.list"] == "(?-i:ours),(?-i:shop)"
    assert not [key for config in (beside, only) for key in config if key.startswith(("signal.", "heartbeat."))]


def test_the_signal_table_is_the_declared_one_and_its_definition_is_written_too(shop: UnaskedSource) -> None:
    assert names.signal_table(shop) == TableId("ours", "signals")
    assert capture_config(shop)["signal.data.collection"] == "ours.signals"
    assert [t.name for t in MySqlKind().tables_to_define(work(shop, "incremental", "shop.lines"))] == [
        "shop.lines",
        "ours.signals",
    ]
    assert [t.name for t in MySqlKind().tables_to_define(work(shop, "temporary", "shop.lines"))] == ["shop.lines"]


def test_a_table_that_is_not_declared_has_the_types_of_the_catalogue(shop: UnaskedSource) -> None:
    """What is declared of another one stands."""
    one = work(shop, "incremental", "shop.new")
    new, lines = TableId("shop", "new"), TableId("shop", "lines")
    columns = (CatalogueColumn("id", "int unsigned", False), CatalogueColumn("v", "varchar(20)", True, "utf8mb4"))
    found = MySqlKind().columns(one, {id_: CatalogueTable(id_, columns, ("id",)) for id_ in (new, lines)})
    assert [(c.type, c.kind) for c in found[new].columns] == [("bigint", ""), ("text", "")]
    assert [c.type for c in found[lines].columns] == ["bigint", "text"]
    assert not [*_declaration_problems(Table(name="shop.new"), found[new])]


def test_before_it_the_connector_has_the_other_tables_only(shop: UnaskedSource) -> None:
    one = work(shop, "incremental", "shop.lines")
    assert [t.name for t in one.before.tables] == ["shop.orders"]
    assert [t.name for t in one.after.tables] == ["shop.orders", "shop.lines"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("shop.lines", "shop.lines has no column v, which the registry declares; it has: id, n"),
        ("shop.lines", "shop.lines: keys that may be NULL: id"),
    ],
)
def test_what_is_declared_is_held_against_the_catalogue(shop: UnaskedSource, table: Table | str, told: str) -> None:
    columns = tuple(CatalogueColumn(name, "bigint", True) for name in ("id", "n"))
    found = CatalogueTable(TableId("shop", "lines"), columns, ())
    one = shop.table(table) if isinstance(table, str) else table
    assert [each for each in _declaration_problems(one, found) if each.startswith(told)]


def test_what_it_cannot_take_is_refused_before_anything_is_begun(shop: UnaskedSource) -> None:
    assert find_source("shop", "temporary") == shop
    with pytest.raises(RefusalError, match="take route incremental or temporary"):
        onboarding_run.plan("shop", ["shop.lines"], "blocking")
    with pytest.raises(RefusalError, match="without --watch"):
        onboarding_run.begin("shop", ["shop.lines"], "incremental", watched=True)


def test_without_tls_the_driver_may_ask_for_the_servers_key(shop: UnaskedSource) -> None:
    assert "driver.allowPublicKeyRetrieval" not in capture_config(shop)
    plain = shop.model_copy(update={"database": shop.database.model_copy(update={"sslmode": "disabled"})})
    assert capture_config(plain)["driver.allowPublicKeyRetrieval"] == "true"


def test_a_row_of_a_snapshot_says_the_same_in_its_own_words() -> None:
    columns = {"id": "bigint not null", "f": "real", "j": "jsonb", "v": "text"}
    table = DeclaredTable.model_validate({"name": "shop.t", "keys": ["id"], "columns": columns})
    read = {"id": 1, "f": 1.23457, "j": '{"a": [1, 2]}', "v": '{"a": 1}'}
    logged = {**read, "f": 1.2345679, "j": '{"a":[1,2]}'}
    assert _exact(table, read) == _exact(table, logged)
    assert _exact(table, read) != _exact(table, {**logged, "j": '{"a":[1,3]}'})
    assert _exact(table, read) != _exact(table, {**logged, "v": '{"a":1}'})


@pytest.mark.parametrize(
    ("database", "mend"),
    [
        ("kind: mysql, host: db", "cdc repair bronze shop shop__orders --anew"),
        (
            "kind: sqlserver, host: db, dbname: shop",
            "no command reads their deletes again; write each of these keys once more at the source, and delete it there",
        ),
    ],
)
def test_rows_that_no_event_deletes_are_the_last_word_with_no_command_that_would_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database: str, mend: str
) -> None:
    shop = declare_source(tmp_path, monkeypatch, TEXT.replace("kind: mysql, host: db", database), UnaskedSource)
    monkeypatch.setattr(topic_verification, "_count_rows", lambda _: topic_verification._Counted({}, {}, {"shop.orders": 2}))
    begun = Onboarding("i", "shop", "incremental", ("shop.orders",), "now")
    facts = topic_verification.verify_topics(OnboardingWork(Platform(), begun, shop, print))
    for output in (Format.text, Format.json):
        with pytest.raises(typer.Exit) as ended:
            _answer(Outcome("shop", begun.tables, "incremental", "done", {"verify": facts}), output)
        assert ended.value.exit_code == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == (
            "shop.orders: 2 rows of its topic deleted while it was not captured stay in silver, since no event tells of that: "
            f"{mend}"
        )
