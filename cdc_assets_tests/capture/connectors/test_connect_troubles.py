"""What a person is told while a Connect cluster is away, is something else, or runs a connector without tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from cdc_assets.capture.connectors.apply_connector import Applied
from cdc_assets.capture.connectors.apply_source import Judged
from cdc_assets.capture.connectors.connector_inventory import connector_rows, locate
from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.cli.output_formats import Format
from cdc_assets.cli.verbs import connectors
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import TopicSource

WEB = TopicSource.model_validate(
    {
        "source": "web",
        "kind": "topics",
        "tables": [{"name": "clicks", "topic": "clicks", "envelope": "json", "columns": {"id": "text"}}],
    }
)


def client(name: str, answer: Callable[[httpx.Request], httpx.Response]) -> ConnectClient:
    return ConnectClient(f"http://{name}", deadline=0.1, transport=httpx.MockTransport(answer))


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def running(name: str, *tasks: str, state: str = "RUNNING") -> Callable[[httpx.Request], httpx.Response]:
    """A cluster with one connector."""
    status = {"connector": {"state": state}, "tasks": [{"id": at, "state": task} for at, task in enumerate(tasks)]}

    def answer(request: httpx.Request) -> httpx.Response:
        if "expand" in str(request.url):
            return httpx.Response(200, json={name: {"info": {"type": "source", "config": {"name": name}}, "status": status}})
        return httpx.Response(200, json=status if request.url.path.endswith("/status") else [name])

    return answer


def platform(core: ConnectClient, lake: ConnectClient) -> Any:
    return SimpleNamespace(core_connect=lambda _: core, lake_connect=lambda: lake)


@pytest.mark.parametrize(
    ("state", "tasks", "worst"),
    [
        ("RUNNING", ["RUNNING", "UNASSIGNED"], "UNASSIGNED"),
        ("RUNNING", ["PAUSED", "FAILED"], "FAILED"),
        ("RUNNING", ["RUNNING", "RESTARTING"], "RESTARTING"),
        ("RUNNING", [], "UNASSIGNED"),
        ("STOPPED", [], "STOPPED"),
        ("FAILED", [], "FAILED"),
        ("RUNNING", ["RUNNING"], "RUNNING"),
        ("RUNNING", ["WHO KNOWS"], "WHO KNOWS"),
    ],
)
def test_the_worst_state_is_told(state: str, tasks: list[str], worst: str) -> None:
    """Without a task nothing is read, whatever the connector says of itself."""
    answer = {"connector": {"state": state}, "tasks": [{"state": task} for task in tasks]}
    assert ConnectorStatus.parse("c", answer).worst == worst


@pytest.mark.slow
def test_a_cluster_that_is_away_hides_no_other() -> None:
    rows = connector_rows(platform(client("core", running("any-capture", "RUNNING")), client("lake", away)), [WEB])
    assert [(row["name"], row["cluster"], row["state"]) for row in rows] == [
        ("web-mirror", "lake", "UNKNOWN"),
        ("any-capture", "core", "RUNNING"),
    ]
    assert "no answer: refused" in rows[0]["trace"]
    rows = connector_rows(platform(client("core", away), client("lake", running("web-mirror", "RUNNING"))), [WEB])
    assert [(row["name"], row["state"]) for row in rows] == [("web-mirror", "RUNNING")]
    with pytest.raises(ServiceError, match="refused"):
        connector_rows(platform(client("core", away), client("lake", away)), [WEB])


def test_a_connector_is_found_while_the_other_cluster_is_away() -> None:
    both = platform(client("core", away), client("lake", running("web-mirror", "RUNNING")))
    assert locate(both, "web-mirror").url == "http://lake"
    with pytest.raises(ServiceError, match="whether there is a connector web-capture cannot be told: .* refused"):
        locate(both, "web-capture")


def test_what_is_stopped_is_not_waited_for_when_it_is_restarted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = client("lake", running("web-mirror", state="STOPPED"))
    monkeypatch.setattr("cdc_assets.cli.verb_frame.Platform", lambda: platform(stopped, stopped))
    with pytest.raises(connectors.typer.Exit):
        connectors.restart(["web-mirror"])
    assert "connector web-mirror is STOPPED, and stays so when it is restarted: cdc resume web-mirror" in capsys.readouterr().err


def test_rows_that_no_snapshot_brings_are_told_by_apply(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.yaml").write_text(
        "source: shop\ndatabase: {kind: mysql, host: db, user: u, password: {secret: s}}\ntables:\n"
        "  - {name: shop.old, keys: [id], columns: {id: bigint not null}}\n"
        "  - {name: shop.new, keys: [id], columns: {id: bigint not null}}\n"
    )
    for name, value in {"CDC_SOURCES": str(tmp_path), "CDC_CORE_BOOTSTRAP": "c:1", "CDC_LAKE_BOOTSTRAP": "l:1"}.items():
        monkeypatch.setenv(name, value)
    running = SimpleNamespace(config=lambda name: {"table.include.list": r"shop\.old"})
    status = ConnectorStatus.parse("c", {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]})
    monkeypatch.setattr(
        "cdc_assets.capture.connectors.apply_source.judge_source", lambda chain: Judged(declared_connectors([chain.source]))
    )
    monkeypatch.setattr(
        "cdc_assets.capture.connectors.apply_connector.apply_connector",
        lambda _, c, **__: Applied(c["name"], False, ("x",), status),
    )
    cluster = SimpleNamespace(connect=lambda _: running, core_kafka=lambda _: None, lake_kafka=lambda: None)
    monkeypatch.setattr("cdc_assets.cli.verb_frame.Platform", lambda: cluster)
    connectors.apply([], output=Format.json)
    said = capsys.readouterr()
    assert [each["tables_to_onboard"] for each in json.loads(said.out)] == ["shop.new", ""]
    assert "only changes of shop.new come from now on; for the rows too: cdc onboard shop shop.new" in said.err


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (httpx.Response(200, html="<h1>log in</h1>"), r"HTTP 200 \(text/html.*: that is not Kafka Connect"),
        (httpx.Response(302, headers={"location": "https://login"}), "HTTP 302 to https://login .*: that is not Kafka Connect"),
    ],
)
def test_something_else_that_answers_is_told(answer: httpx.Response, told: str) -> None:
    with pytest.raises(ServiceError, match=told):
        client("core", lambda _: answer).plugins()


@pytest.mark.parametrize("url", ["localhost:8083", "http://core:80a", "", "ftp://core"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(ServiceError, match="is no address of a Connect cluster"):
        ConnectClient(url)
