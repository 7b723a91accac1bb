"""What `cdc adopt` makes of a connector's config alone: tables, topics, secrets, the form of records, the entry's text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cdc_assets.capture.adoption.adopted_source import entry_text, envelope_of, write_entry
from cdc_assets.capture.adoption.running_connector import (
    RunningConnector,
    final_topic,
    is_captured,
    message_keys,
    read_connector,
    secret_reference,
    table_entries,
)
from cdc_assets.capture.adoption.setting_differences import of_capture, of_mirror
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.clients.kafka import Record, TopicState
from cdc_assets.registry.errors import RefusalError, RegistryError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import KINDS

ORDERS, LINES = TableId("public", "orders"), TableId("sales", "lines")


def running(**config: str) -> RunningConnector:
    settings = {key.replace("__", "."): value for key, value in config.items()}
    return RunningConnector("erp", "http://c", KINDS["postgresql"], settings, {}, frozenset({"database.password"}), ())


class Connect:
    """One connector of this config and state."""

    url = "http://c"

    def __init__(self, config: Mapping[str, str] | None, state: str = "RUNNING") -> None:
        self._config, self._state = config, state

    def config(self, _: str) -> Mapping[str, str] | None:
        return self._config

    def overview(self) -> dict[str, object]:
        return {}

    def status(self, name: str) -> ConnectorStatus:
        said = {
            "connector": {"state": self._state},
            "tasks": [{"id": 0, "state": self._state, "trace": "java.lang.Exception: gone"}],
        }
        return ConnectorStatus.parse(name, said)


class Topics:
    """A cluster whose only topic has these values, in order."""

    def __init__(self, *values: bytes | None) -> None:
        self._values = values

    @property
    def states(self) -> list[TopicState]:
        return [TopicState("t", "id", {0: (0, len(self._values))})]

    def records(self, _: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Record]:
        begin, end = ranges[0]
        return (Record(0, at, 0, b"{}", self._values[at], ()) for at in range(begin, end))


@pytest.mark.parametrize(
    ("config", "taken"),
    [
        ({}, {ORDERS, LINES}),
        ({"table__include__list": "public.ORDERS"}, {ORDERS}),
        ({"table__include__list": r"public\.or.*,sales\.x"}, {ORDERS}),
        ({"table__exclude__list": "public.orders"}, {LINES}),
        ({"schema__include__list": "sales"}, {LINES}),
        ({"schema__exclude__list": "sales", "table__include__list": ".*"}, {ORDERS}),
    ],
)
def test_tables_are_taken_by_the_connector_s_lists(config: dict[str, str], taken: set[TableId]) -> None:
    assert {table for table in (ORDERS, LINES) if is_captured(running(**config), table)} == taken


def test_topics_go_where_the_transforms_send_them() -> None:
    router = {
        "type": "org.apache.kafka.connect.transforms.RegexRouter",
        "regex": r"erp\.(\w+)\.(.*)",
        "replacement": "lake-$1-$2",
    }
    config = {"transforms": "route", **{f"transforms.route.{key}": value for key, value in router.items()}}
    assert final_topic(running(**config), "erp.public.orders") == "lake-public-orders"
    assert final_topic(running(**config), "other") == "other"
    other = {"transforms": "route", "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter"}
    with pytest.raises(RefusalError, match="renames topics in a way that is not followed here"):
        final_topic(running(**other), "erp.public.orders")


def test_tables_have_the_keys_and_columns_that_the_connector_gives_them() -> None:
    config = running(message__key__columns=r"(?-i)public\.orders:a,b;.*x:y", column__exclude__list="public.orders.secret,.*.x")
    assert message_keys(config) == {ORDERS: ["a", "b"]}
    topics = {ORDERS: "erp.public.orders", LINES: "lines"}
    derived = {ORDERS: "erp.public.orders", LINES: "erp.sales.lines"}
    assert table_entries(config, [LINES, ORDERS], topics, derived) == [
        {"name": "public.orders", "keys": ["a", "b"], "except_column_list": ["secret"]},
        {"name": "sales.lines", "topic": "lines"},
    ]


@pytest.mark.parametrize(
    ("placeholder", "reference"),
    [
        ("hunter2", {"secret": "erp_password"}),
        ("${dir:/opt/secrets:erp_db}", {"secret": "erp_db"}),
        ("${env:ERP_PW}", {"secret": "erp_password", "on_connect": {"env": "ERP_PW"}}),
        ("${file:/etc/db.properties:pw}", {"secret": "erp_password", "on_connect": {"file": "/etc/db.properties", "key": "pw"}}),
    ],
)
def test_a_password_becomes_a_reference(placeholder: str, reference: dict[str, object]) -> None:
    assert secret_reference("erp", placeholder) == reference


def test_secrets_are_kept_and_never_written() -> None:
    config = running(
        database__password="hunter2", database__user="u", kafka__jaas="x", url="http://me:hunter2@host", ref="${env:A}"
    )
    keys = ("database.password", "database.user", "kafka.jaas", "url", "ref", "absent")
    assert [config.value_to_keep(key) for key in keys] == ["(kept)", "u", "(kept)", "(kept)", "${env:A}", None]
    assert "hunter2" not in repr(config) + str(config.display("database.password"))


@pytest.mark.parametrize(
    ("config", "state", "told"),
    [
        (None, "RUNNING", "no connector erp at http://c; connectors of Debezium there: none"),
        ({"connector.class": "FileStreamSource"}, "RUNNING", "is FileStreamSource, and not one of Debezium's"),
        (
            {"connector.class": "io.debezium.connector.oracle.OracleConnector"},
            "RUNNING",
            "takes over those of kind postgresql, mariadb, mysql, sqlserver only",
        ),
        ({"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}, "STOPPED", "does not run (STOPPED"),
        (
            {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"},
            "FAILED",
            "cdc restart erp, then cdc adopt erp",
        ),
    ],
)
def test_what_is_not_taken_over_is_said(config: dict[str, str] | None, state: str, told: str) -> None:
    with pytest.raises(RefusalError) as caught:
        read_connector(Connect(config, state), "erp", ())  # type: ignore[arg-type]
    assert told in str(caught.value)


def test_the_form_of_records_is_read_from_the_last_ones() -> None:
    event = {"op": "c", "source": {}, "after": {}}
    plain, under = json.dumps(event).encode(), json.dumps({"schema": {}, "payload": event}).encode()
    for values, form in (((plain, None), "debezium-json"), ((under,), "debezium-json-schema"), ((), "debezium-json")):
        topics = Topics(*values)
        assert envelope_of(topics, topics.states, "erp") == form  # type: ignore[arg-type]
    for value, told in ((b"\x00\x00", "in Avro"), (b'{"id": 1}', "in flattened rows"), (b"<x/>", "in another format than JSON")):
        topics = Topics(value)
        with pytest.raises(RefusalError, match=told):
            envelope_of(topics, topics.states, "erp")  # type: ignore[arg-type]
    mixed = Topics(plain, under)
    with pytest.raises(RefusalError, match="have two forms"):
        envelope_of(mixed, mixed.states, "erp")  # type: ignore[arg-type]


def test_differences_are_weighed() -> None:
    assert of_capture("plugin.name")[1] == "wrong"
    assert of_capture("signal.data.collection")[1] == "weaker"
    assert of_capture("max.batch.size") == ("Debezium's or Connect's own; nothing here depends on it", "none")
    assert of_mirror("value.converter")[1] == "wrong"


def test_an_entry_that_the_folder_cannot_have_leaves_no_file(tmp_path: Path) -> None:
    document = {
        "source": "erp",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "capture": {"settings": {"database.password": "(kept)", "signal.data.collection": None, "max.batch.size": "1"}},
        "tables": [{"name": "public.orders"}],
    }
    file = tmp_path / "erp.yaml"
    write_entry(file, running(), document)
    assert file.read_text().startswith("# Connector erp at http://c runs as it did before: cdc diff erp\nsource: erp\n")
    assert "signal.data.collection: null" in entry_text(document)
    with pytest.raises(RefusalError, match="is there already"):
        write_entry(file, running(), document)
    other = tmp_path / "other.yaml"
    with pytest.raises(RegistryError, match="already declared"):
        write_entry(other, running(), document)
    assert not other.exists()
