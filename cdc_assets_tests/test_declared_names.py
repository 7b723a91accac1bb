"""Names that a source may declare: without a declaration they are what they always were, and nobody claims one twice."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import ValidationError

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.postgresql_connector import temporary_config
from cdc_assets.capture.connectors.setting_overrides import settle, with_public_text
from cdc_assets.registry import names
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source, load_sources
from cdc_assets.registry.source_declaration import Source, UnaskedSource

POSTGRESQL = {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}}
FOUND = {
    "connector": "inventory-connector",
    "topic_prefix": "inv",
    "slot": "debezium",
    "publication": "dbz_publication",
    "signals": "ops.debezium_signal",
    "notifications": "inv-snapshots",
}


@pytest.fixture(autouse=True)
def _addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core:9092")
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", "lake:9092")
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/secrets")


def shop(**more: object) -> Source:
    tables = [{"name": "public.orders"}, {"name": "sales.order line"}]
    return Source.model_validate({"source": "shop", "database": POSTGRESQL, "tables": tables, **more})


def adopted(**more: object) -> Source:
    mirror = {"connector": "mm-data-lake-v4", "alias": "onprem"}
    return shop(capture={**FOUND, **more}, mirror=mirror)


def names_of(source: Source) -> dict[str, object]:
    """Every name that a declaration may replace."""
    return {
        "connector": names.connector_name(source),
        "slot": names.slot_name(source),
        "publication": names.publication_name(source),
        "mirror": names.mirror_connector_name(source),
        "notifications": names.notification_topic(source),
        "heartbeat": names.heartbeat_topic(source),
        "marker": names.marker_topic(source),
        "signals": str(names.signal_table(source)),
        "signal topic": names.signal_topic(source),
        "topics": [names.topic(source, table) for table in source.tables],
        "copies": [names.lake_topic(source, table) for table in source.tables],
    }


def test_names_that_nobody_declares_are_what_they_were() -> None:
    """Written out: a stack that runs has connectors, slots and topics of these names."""
    assert names_of(shop()) == {
        "connector": "shop-capture",
        "slot": "cdc_shop",
        "publication": "cdc_shop",
        "mirror": "shop-mirror",
        "notifications": "shop.notifications",
        "heartbeat": "__debezium-heartbeat.shop",
        "marker": "shop.message",
        "signals": "cdc_assets.signal_shop",
        "signal topic": "shop.cdc_assets.signal_shop",
        "topics": ["shop.public.orders", "shop.sales.order_line"],
        "copies": ["core.shop.public.orders", "core.shop.sales.order_line"],
    }
    source = UnaskedSource.model_validate(
        {
            "source": "till",
            "database": {"kind": "mysql", "host": "h", "user": "u", "password": {"secret": "s"}},
            "tables": [{"name": "a.b", "keys": ["id"], "columns": {"id": "bigint not null"}}],
        }
    )
    history = "till.schema-history"
    assert [names.schema_history_topic(source), names.temporary_schema_history_topic(source)] == [history, f"{history}-onboard"]
    assert names.schema_history_group(source) == "till-schemahistory"


def test_the_connectors_of_a_source_that_declares_no_names_are_what_they_were() -> None:
    """The settings in which names stand, written out."""
    capture, mirror = capture_config(shop()), mirror_config(shop())
    assert {key: capture[key] for key in ("name", "topic.prefix", "slot.name", "publication.name", "transforms")} == {
        "name": "shop-capture",
        "topic.prefix": "shop",
        "slot.name": "cdc_shop",
        "publication.name": "cdc_shop",
        "transforms": "unchanged",
    }
    assert capture["value.converter.schemas.enable"] == "false"
    assert (mirror["name"], mirror["source.cluster.alias"], mirror["target.cluster.alias"]) == ("shop-mirror", "core", "lake")
    assert mirror["topics"] == r"shop\.public\.orders,shop\.sales\.order_line"


def test_declared_names_are_everywhere_that_ours_would_be() -> None:
    source = adopted()
    assert names_of(source) == {
        "connector": "inventory-connector",
        "slot": "debezium",
        "publication": "dbz_publication",
        "mirror": "mm-data-lake-v4",
        "notifications": "inv-snapshots",
        "heartbeat": "__debezium-heartbeat.inv",
        "marker": "inv.message",
        "signals": "ops.debezium_signal",
        "signal topic": "inv.ops.debezium_signal",
        "topics": ["inv.public.orders", "inv.sales.order_line"],
        "copies": ["onprem.inv.public.orders", "onprem.inv.sales.order_line"],
    }
    config, lake = capture_config(source), names.silver_path("/lake", source, source.tables[0])
    assert config["signal.data.collection"] == "ops.debezium_signal"
    assert config["notification.sink.topic.name"] == "inv-snapshots"
    assert mirror_config(source)["source.cluster.alias"] == "onprem"
    # What is in the lake, and Dagster's keys, go by the source.
    assert (lake, names.asset_key("silver", source, source.tables[0])) == (
        "/lake/silver/shop/orders",
        ("silver", "shop", "silver_orders"),
    )


def test_a_topic_of_another_name_is_reached_by_a_route() -> None:
    tables = [{"name": "public.orders", "topic": "erp-orders"}, {"name": "public.lines", "topic": "shop.public.lines"}]
    source = shop(tables=tables)
    assert [names.topic(source, table) for table in source.tables] == ["erp-orders", "shop.public.lines"]
    expected = {
        "transforms.topic1.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.topic1.regex": r"shop\.public\.orders",
        "transforms.topic1.replacement": "erp-orders",
    }
    for config, transforms in (
        (settle(capture_config(source), None), "unchanged,topic1"),
        (with_public_text(capture_config(source)), "topic1"),
        (temporary_config(source, source.tables, anchor=7), "topic1,anchor"),
    ):
        assert {key: config.get(key) for key in expected} == expected
        assert config["transforms"] == transforms
        assert not transforms.startswith("unchanged") or config["transforms.unchanged.header"]


def test_settings_of_a_connector_replace_ours_or_leave_them_out() -> None:
    settings = {
        "heartbeat.interval.ms": None,
        "max.batch.size": "4096",
        "database.password": "(kept)",
        "table.include.list": "public.orders,public.cust.*",
    }
    source = shop(capture={"settings": settings})
    config = capture_config(source)
    assert "heartbeat.interval.ms" not in config
    assert config["max.batch.size"] == "4096"
    # What the list lacks comes behind it: another table, and the table for signals.
    listed = config["table.include.list"].split(",")
    assert listed[:2] == ["public.orders", "public.cust.*"]
    assert listed[2:] == [r"(?-i:sales\.order\ line)", r"(?-i:cdc_assets\.signal_shop)"]
    assert settle(config, {"database.password": "theirs"})["database.password"] == "theirs"
    assert settle(config, None)["database.password"] == "${dir:/secrets:s}"
    beside = temporary_config(source, source.tables, anchor=7)
    assert beside["database.password"] == "${dir:/secrets:s}"
    assert beside["max.batch.size"] == "4096"


def test_a_mirror_s_own_pattern_stays_and_carries_what_it_lacks() -> None:
    of_all = shop(mirror={"settings": {"topics": r"shop\..*", "sync.topic.acls.enabled": None}})
    assert mirror_config(of_all)["topics"] == r"shop\..*"
    assert "sync.topic.acls.enabled" not in mirror_config(of_all)
    of_one = shop(mirror={"settings": {"topics": "shop.public.orders"}})
    assert mirror_config(of_one)["topics"] == r"shop.public.orders,shop\.sales\.order_line"


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"capture": {"settings": {"slot.name": "x"}}}, "capture.settings.slot.name: it is declared by capture.slot"),
        ({"capture": {"settings": {"name": "x"}}}, "capture.settings.name: it is declared by capture.connector"),
        ({"mirror": {"settings": {"source.cluster.alias": "x"}}}, "it is declared by mirror.alias"),
        ({"capture": {"settings": {"database.hostname": "x"}}}, "it is declared under database"),
        ({"capture": {"settings": {"database.password": "hunter2"}}}, "a secret's value is not written here"),
        ({"capture": {"topic_prefix": "a b"}}, "topic_prefix"),
        ({"capture": {"connector": "a/b"}}, "connector"),
        ({"capture": {"signals": "signals"}}, "a table is named schema.table"),
        ({"mirror": {"alias": "on.prem"}}, "alias"),
        ({"managed_by": "gitops", "mirror": {"alias": "onprem"}}, "declare mirror.resource: connector"),
        ({"managed_by": "gitops", "capture": {"connector": "Inv_1"}}, "Kubernetes takes lower-case letters"),
    ],
)
def test_bad_declarations_are_refused(block: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=".") as caught:
        shop(**block)
    assert told in str(caught.value)
    assert "hunter2" not in "".join(error["msg"] for error in caught.value.errors())


def test_settings_that_a_kind_has_not_are_refused() -> None:
    database = {"kind": "sqlserver", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}}
    table = {"name": "a.b", "keys": ["id"], "columns": {"id": "bigint not null"}}
    with pytest.raises(ValidationError, match=r"capture.signals: a source of kind sqlserver has no such setting"):
        UnaskedSource.model_validate(
            {"source": "s", "database": database, "capture": {"signals": "a.signals"}, "tables": [table]}
        )


FILE = """\
    source: {source}
    database: {{kind: postgresql, host: h, dbname: {dbname}, user: u, password: {{secret: s}}}}
    capture:
      {capture}
    mirror:
      {mirror}
    tables:
      - {{name: public.orders}}
"""


@pytest.mark.parametrize(
    ("capture", "mirror", "told"),
    [
        ("connector: shop-capture", "alias: core", "FILE:4: capture.connector: source bank and source shop would both write "),
        ("slot: cdc_shop", "alias: core", "FILE:4: capture.slot: source bank and source shop would both write to replication"),
        ("publication: cdc_shop", "alias: core", "FILE:4: capture.publication: source bank and source shop would both write to"),
        ("topic_prefix: shop", "alias: core", "FILE:1: source: source bank and source shop would both write to topic"),
        ("heartbeat: 10s", "connector: shop-mirror", "FILE:6: mirror.connector: source bank and source shop would both write"),
    ],
)
def test_two_sources_do_not_claim_one_name(tmp_path: Path, capture: str, mirror: str, told: str) -> None:
    other = "d" if capture.startswith(("slot", "publication")) else "other"
    bank = FILE.format(source="bank", dbname="d", capture="heartbeat: 10s", mirror="alias: core")
    (tmp_path / "bank.yaml").write_text(dedent(bank).replace("bank", "shop", 1), encoding="utf-8")
    file = tmp_path / "other.yaml"
    file.write_text(dedent(FILE.format(source="bank", dbname=other, capture=capture, mirror=mirror)), encoding="utf-8")
    with pytest.raises(RegistryError) as caught:
        load_sources(tmp_path)
    said = [str(finding).replace(str(file), "FILE").replace(str(tmp_path), "") for finding in caught.value.findings]
    assert any(told in each for each in said), said
    assert any("give one of them a name of its own" in each for each in said)


def test_one_topic_of_two_tables_is_refused(tmp_path: Path) -> None:
    text = FILE.format(source="bank", dbname="d", capture="heartbeat: 10s", mirror="alias: core")
    file = tmp_path / "bank.yaml"
    file.write_text(dedent(text) + "  - {name: public.lines, topic: bank.public.orders}\n", encoding="utf-8")
    with pytest.raises(RegistryError, match=r"public.lines and public.orders would both write to topic 'bank.public.orders'"):
        load_source(file)
