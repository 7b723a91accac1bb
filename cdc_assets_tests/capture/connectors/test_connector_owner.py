"""What git owns is observed: nothing is asked of Connect that would change it, whatever is found."""

from __future__ import annotations

import pytest

from cdc_assets.capture.connectors import apply_source
from cdc_assets.capture.connectors.apply_connector import bring_connector
from cdc_assets.clients import connect as client
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import DatabaseError, ServiceError
from cdc_assets.registry.source_declaration import BaseSource, Source
from cdc_assets_tests.support.servers.scripted_connect import CONFIG, FakeConnect


def source(managed_by: str) -> Source:
    database = {"kind": "postgresql", "host": "db", "dbname": "d", "user": "u", "password": {"secret": "s"}}
    tables = [{"name": "public.orders"}]
    return Source.model_validate({"source": "shop", "managed_by": managed_by, "database": database, "tables": tables})


def written(connect: FakeConnect) -> tuple[int, int, int]:
    return connect.posts, connect.puts, connect.restarts


def test_what_git_owns_is_compared_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, git = FakeConnect(), source("gitops")
    with pytest.raises(
        ServiceError, match=r"connector c is not on Connect .* managed_by: gitops, nothing was written; commit what"
    ):
        bring_connector(connect.client(), git, CONFIG)
    connect.config = {**CONFIG, "pin.secret": "${secrets:kafka/cdc-secrets:shop}"}
    same = bring_connector(connect.client(), git, {**CONFIG, "pin.secret": "${dir:/run/secrets:shop}"})
    assert (same.summary, same.written) == ("unchanged", False)
    other = bring_connector(connect.client(), git, {**CONFIG, "pin.secret": "${dir:/run/secrets:shop}", "x": "2"})
    assert (other.summary, other.changed_keys) == ("differs", ("x",))
    connect.task = "FAILED"
    with pytest.raises(ServiceError, match="no route"):
        bring_connector(connect.client(), git, connect.config)
    assert written(connect) == (0, 0, 0)
    connect.task = "RUNNING"
    assert bring_connector(
        connect.client(), source("cdc"), {**CONFIG, "pin.secret": "${dir:/run/secrets:shop}"}
    ).changed_keys == ("pin.secret",)
    assert written(connect) == (0, 1, 0)


def test_a_wait_ends_where_no_task_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_IDLE_SECONDS", 0.0)
    connect = FakeConnect(task="")
    connect.config = CONFIG
    assert connect.client().wait_running("c", hopeless=lambda: True).idle


def test_a_refused_source_names_each_of_its_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Chain[BaseSource]) -> None:
        raise DatabaseError("has no table public.orders")

    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", "127.0.0.1:2")
    monkeypatch.setattr(apply_source, "judge_source", refuse)
    found = [each.to_json() for each in apply_source.bring_sources(Platform(), [source("cdc")])]
    assert [each["connector"] for each in found] == ["shop-capture", "shop-mirror"]
    assert found[0]["error"] == "has no table public.orders"
    assert found[1]["error"] == "connector shop-mirror: left as it is, since source shop is refused"
