"""Rendered connector configs: escaped lists, no secret as text; applying only what differs."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.config_difference import difference
from cdc_assets.capture.connectors.connector_start import begin_anew, is_beginning
from cdc_assets.capture.connectors.debezium_settings import prefix_of
from cdc_assets.capture.connectors.declared_connectors import capture_config as full_config
from cdc_assets.capture.connectors.declared_connectors import not_listed
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets.capture.connectors.setting_overrides import DRAWN, PUBLIC, settle, with_public_text
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.clients.databases.postgresql import CatalogueColumn, CatalogueTable
from cdc_assets.registry.errors import RefusalError, ServiceError
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.servers.scripted_connect import CONFIG, FakeConnect

CANARY = "canary-3c1f"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", "127.0.0.1:2")
    monkeypatch.setenv("CDC_SECRET_SHOP", CANARY)
    return Source.model_validate(
        {
            "source": "shop",
            "database": {"kind": "postgresql", "host": "db", "dbname": "shop", "user": "u", "password": {"secret": "shop"}},
            "tables": [{"name": "public.orders"}, {"name": 'odd."we.ird,name(x)"', "keys": ["a", "b"]}],
        }
    )


def test_table_names_are_escaped_and_match_only_themselves(source: Source) -> None:
    patterns = capture_config(source)["table.include.list"].split(",")
    assert len(patterns) == 3
    assert re.fullmatch(patterns[2], "cdc_assets.signal_shop")
    assert re.fullmatch(patterns[0], "public.orders")
    assert not re.fullmatch(patterns[0], "publicXorders")
    assert re.fullmatch(patterns[1], "odd.we.ird,name(x)")
    # Debezium matches without regard to case unless a pattern says otherwise.
    assert not any(
        re.fullmatch(pattern, twin, re.IGNORECASE) for pattern in patterns for twin in ("public.Orders", "Public.orders")
    )


def test_tables_that_a_running_connector_does_not_list_are_told(source: Source) -> None:
    first = source.model_copy(update={"tables": source.tables[:1]})
    assert not_listed(source, capture_config(first)) == 'odd."we.ird,name(x)"'
    assert not_listed(source, capture_config(source)) == not_listed(source, None) == ""


def test_declared_keys_become_the_record_key(source: Source) -> None:
    table, columns = capture_config(source)["message.key.columns"].removeprefix("(?-i)").rsplit(":", 1)
    assert re.fullmatch(table, "odd.we.ird,name(x)")
    assert columns == "a,b"


def test_no_name_has_what_debezium_splits_or_trims_its_lists_at(source: Source) -> None:
    odd = source.model_copy(update={"tables": (Table(name='public."keys;odd:name, x "', keys=("k,2", " a\t", "b:c ")),)})
    config = capture_config(odd)
    (pattern, _) = config["table.include.list"].split(",")
    assert re.fullmatch(pattern, "public.keys;odd:name, x ")
    assert pattern == pattern.strip()
    table, columns = config["message.key.columns"].removeprefix("(?-i)").split(":")
    assert ";" not in config["message.key.columns"]
    assert re.fullmatch(table, "public.keys;odd:name, x ")
    for column, key in zip(columns.split(","), ("k,2", " a\t", "b:c "), strict=True):
        assert re.fullmatch(column, key)
        assert column == column.strip()
    assert not_listed(odd, {"table.include.list": re.escape("public.keys;odd:name") + r"\x2C\ x\ "}) == ""


def test_silver_looks_for_the_placeholder_that_the_connector_sends(source: Source) -> None:
    found = CatalogueTable(source.tables[0].id, (CatalogueColumn("id", "integer", nullable=False),), ("id",))
    spec = silver_spec("/lake", source, source.tables[0], found)
    assert not spec.foreign
    assert spec.unavailable == with_public_text(capture_config(source))["unavailable.value.placeholder"]
    drawn = settle(capture_config(source), None)
    text = drawn["unavailable.value.placeholder"]
    assert re.fullmatch("cdc_unchanged_[0-9a-f]{32}", text)
    assert drawn["transforms.unchanged.value.literal"] == text
    assert settle(capture_config(source), drawn) == drawn
    assert settle(capture_config(source), with_public_text(capture_config(source)))["unavailable.value.placeholder"] not in (
        text,
        spec.unavailable,
    )
    assert not [key for key in with_public_text(capture_config(source)) if key.startswith("transforms")]


def test_only_messages_of_a_drawn_prefix_are_sent_on(source: Source) -> None:
    drawn = settle(capture_config(source), None)
    prefix = drawn["message.prefix.include.list"]
    assert re.fullmatch("cdc_assets_[0-9a-f]{32}", prefix)
    assert f"'{prefix}'" in drawn["heartbeat.action.query"]
    assert prefix_of(drawn) == prefix != settle(capture_config(source), None)["message.prefix.include.list"]
    # An upgrade draws one; a connector of git's keeps what everybody knows.
    before = {**drawn, "message.prefix.include.list": "cdc_assets"}
    assert settle(capture_config(source), before)["message.prefix.include.list"] not in (prefix, "cdc_assets")
    rendered = with_public_text(capture_config(source))
    assert prefix_of(rendered) == rendered["message.prefix.include.list"] == "cdc_assets"
    assert "'cdc_assets'" in rendered["heartbeat.action.query"]


@pytest.mark.parametrize("listed", ["cdc_assets,theirs", "theirs", "(kept)"])
def test_a_list_of_ones_own_keeps_a_prefix_that_it_may_have(source: Source, listed: str) -> None:
    capture = source.capture.model_copy(update={"settings": {"message.prefix.include.list": listed}})
    own = source.model_copy(update={"capture": capture})
    running = {"message.prefix.include.list": f"cdc_assets_{'0' * 32}"}
    settled = settle(full_config(own), running)
    prefix = running["message.prefix.include.list"] if listed == "(kept)" else "cdc_assets"
    assert prefix_of(settled) == prefix
    assert f"'{prefix}'" in settled["heartbeat.action.query"]


def test_no_secret_is_in_a_rendered_config(source: Source) -> None:
    for config in (capture_config(source), mirror_config(source)):
        assert CANARY not in json.dumps(config)
    assert capture_config(source)["database.password"].startswith("${dir:")


def test_the_mirror_copies_exactly_the_declared_topics(source: Source) -> None:
    patterns = mirror_config(source)["topics"].split(",")
    assert any(re.fullmatch(pattern, "shop.public.orders") for pattern in patterns)
    assert any(re.fullmatch(pattern, "shop.odd.we.ird_name_x_") for pattern in patterns)
    assert not any(re.fullmatch(pattern, "shop.public.orders2") for pattern in patterns)


def test_the_web_servers_404_is_a_worker_that_starts_and_no_missing_connector() -> None:
    page = httpx.Response(404, html="<html><head><title>Error 404 Not Found</title></head></html>")
    answers = iter([httpx.Response(404), page, httpx.Response(200, json={"name": "c"})])
    connect = ConnectClient("http://connect", transport=httpx.MockTransport(lambda _: next(answers)))
    assert connect.config("c") == {"name": "c"}


def test_a_worker_that_has_not_joined_its_group_knows_no_status_and_its_connector_is_not_missing() -> None:
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}
    none = httpx.Response(404, json={"error_code": 404, "message": "No status found for connector c"})
    config = httpx.Response(200, json={"name": "c"})

    def said(*answers: httpx.Response) -> ConnectorStatus:
        given = iter(answers)
        return ConnectClient("http://connect", transport=httpx.MockTransport(lambda _: next(given))).status("c")

    assert said(none, none) is None
    assert said(none, config, httpx.Response(200, json=status)).running
    assert said(none, config, none).state == "UNASSIGNED"


def test_applying_twice_changes_nothing() -> None:
    connect = FakeConnect()
    assert apply_connector(connect.client(), CONFIG).summary == "created"
    connect.reads = 0
    assert apply_connector(connect.client(), CONFIG).summary == "unchanged"
    assert connect.reads == 1
    changed = apply_connector(connect.client(), {**CONFIG, "x": "2"})
    assert (changed.summary, changed.changed_keys) == ("changed", ("x",))
    assert (connect.posts, connect.puts) == (2, 1)


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED"])
def test_a_connector_gets_another_text_for_unchanged_values_while_it_has_no_task(state: str) -> None:
    """Connect takes the header that tells the text from the connector's config, and the text from the task's."""
    connect, texts = FakeConnect(), {"unavailable.value.placeholder": DRAWN}
    apply_connector(connect.client(), {**CONFIG, "unavailable.value.placeholder": PUBLIC})
    connect.state = state
    with nullcontext() if state == "RUNNING" else pytest.raises(ServiceError, match=f"it is {state}"):
        apply_connector(connect.client(), {**CONFIG, **texts})
    assert (connect.put_while, connect.state) == (["STOPPED"], state)
    connect.state = "RUNNING"
    assert apply_connector(connect.client(), {**CONFIG, **texts}).summary == "unchanged"
    apply_connector(connect.client(), {**CONFIG, **texts, "x": "2"})
    assert connect.put_while == ["STOPPED", "RUNNING"]


def test_a_difference_shows_no_secret_and_changes_nothing() -> None:
    connect = FakeConnect()
    apply_connector(connect.client(), {**CONFIG, "pin": "1234", "gone": "0"})
    found = difference(connect.client(), {**CONFIG, "x": "2", "pin": CANARY, "a.password": "${dir:/run:a}"})
    assert found.summary == "change"
    assert found.lines()[2:] == [
        "+a.password=${dir:/run:a}",
        "-gone=0",
        "-pin=[hidden]",
        "+pin=[hidden]",
        "-x=1",
        "+x=2",
    ]
    assert CANARY not in json.dumps(found.to_json())
    assert connect.puts == 0
    assert difference(connect.client(), {**CONFIG, "pin": "1234", "gone": "0"}).lines() == []


def test_a_foreign_connector_of_that_name_is_left_alone() -> None:
    connect = FakeConnect()
    apply_connector(connect.client(), {**CONFIG, "connector.class": "org.other.Sink"})
    assert difference(connect.client(), CONFIG).summary == "refused"
    with pytest.raises(ServiceError, match=r"runs org\.other\.Sink: it is not ours"):
        apply_connector(connect.client(), CONFIG)
    assert (connect.posts, connect.puts) == (2, 0)


def test_a_stopped_connector_gets_its_config_and_stays_stopped() -> None:
    connect = FakeConnect()
    apply_connector(connect.client(), CONFIG)
    connect.state = "STOPPED"
    with pytest.raises(ServiceError, match="is applied, but it is STOPPED; when that is over: cdc resume c"):
        apply_connector(connect.client(), {**CONFIG, "x": "2"})
    assert connect.puts == 1


def test_offsets_of_an_earlier_connector_are_never_taken_up_without_a_word() -> None:
    connect = FakeConnect()
    connect.offsets = [{"partition": {"server": str(n)}, "offset": {"lsn": n}} for n in range(5)]
    for _ in range(2):
        with pytest.raises(RefusalError, match=r"'0'} at {'lsn': 0}; .* and 2 more"):
            apply_connector(connect.client(), CONFIG)
    assert (connect.posts, connect.state, is_beginning(connect.config)) == (1, "STOPPED", True)
    applied = apply_connector(connect.client(), CONFIG, resume_offsets=True)
    assert (applied.resumed_offsets, connect.config, connect.state) == (5, CONFIG, "RUNNING")
    connect.config = None
    begin_anew(connect.client(), CONFIG)
    assert (connect.offsets, connect.config, connect.state) == ([], CONFIG, "RUNNING")


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [409, 500, 503, None])
def test_what_passes_is_waited_for(trouble: int | None) -> None:
    """While it rebalances, starts, or does not answer."""
    connect = FakeConnect(conflicts=2, trouble=trouble)
    assert apply_connector(connect.client(), CONFIG).status.running
    assert (connect.conflicts, connect.posts) == (0, 2)


def test_a_creation_that_was_answered_too_late_is_taken_for_done() -> None:
    class Late(FakeConnect):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            taken = self.config is not None
            answer = super().__call__(request)
            if request.url.path != "/connectors":
                return answer
            if not taken:
                raise httpx.ReadTimeout("timed out")
            return httpx.Response(409, json={"message": "Connector c already exists"})

    connect = Late()
    assert apply_connector(connect.client(), CONFIG).status.running
    # It is made twice, to begin anew; each time the request is sent again.
    assert (connect.posts, connect.config) == (4, CONFIG)


def test_an_invalid_config_is_not_applied() -> None:
    connect = FakeConnect(findings={"database.hostname": ["is required"]})
    with pytest.raises(ServiceError, match="nothing was applied: database.hostname: is required"):
        apply_connector(connect.client(), CONFIG)
    assert connect.posts == 0


@pytest.mark.slow
def test_a_failed_task_is_restarted_once_and_then_named() -> None:
    connect = FakeConnect(task="FAILED")
    with pytest.raises(ServiceError, match=r"org\.example\.Boom: no route"):
        apply_connector(connect.client(), CONFIG)
    assert connect.restarts == 1


def test_a_connector_without_a_task_says_what_it_may_wait_for() -> None:
    connect = FakeConnect(task="")
    waited = r"is not running after 0 s: RUNNING, tasks \(\); no task has said anything yet"
    for class_, told in {
        "x.PostgresConnector": ": .* PostgreSQL.*: cdc preflight",
        "x.MirrorSourceConnector": ": MirrorMaker",
    }.items():
        connect.config = {**CONFIG, "connector.class": class_}
        with pytest.raises(ServiceError, match=waited + told) as found:
            connect.client().wait_running("c", deadline=0)
        assert ("PostgreSQL" in str(found.value)) == ("Postgres" in class_)
    assert connect.restarts == 0


def test_no_answer_is_told_with_the_address() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    client = ConnectClient("http://connect", deadline=0.5, transport=httpx.MockTransport(refuse))
    with pytest.raises(ServiceError, match="http://connect/connectors: no answer: refused"):
        client.connectors()


def test_a_login_is_sent_and_one_that_is_missing_is_told_at_once() -> None:
    def guarded(request: httpx.Request) -> httpx.Response:
        known = request.headers.get("authorization") == "Basic Y2RjOmE6Yg=="
        return httpx.Response(200, json=["c"]) if known else httpx.Response(401, text="User cannot access the resource.")

    transport = httpx.MockTransport(guarded)
    assert ConnectClient("http://connect", transport=transport, login="cdc:a:b").within(1).connectors() == ["c"]
    with pytest.raises(ServiceError, match="HTTP 401: this Connect asks for another login; CDC_CORE_CONNECT_LOGIN_FILE"):
        ConnectClient("http://connect", transport=transport).connectors()
