"""What of a source is applied where preflight fails: of a server nothing, of one table the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.capture.connectors import apply_source
from cdc_assets.capture.connectors.apply_source import Brought, Judged, judge_source
from cdc_assets.capture.connectors.declared_connectors import capture_config, tables_in_list
from cdc_assets.capture.preflight.inspection import Finding, Report
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import Source

YEAR = Finding("columns", "fail", "shop.b", "column 'y' holds the year 0000", "correct it")
NO_TABLE = Finding("table", "fail", "shop.c", "does not exist")
OF_SERVER = Finding("log_bin", "fail", "server", "there is no binlog", "log_bin")
OF_ALL = Finding("compressed_columns", "fail", "shop.b", "stops every table", "ALTER", stops_others=True)
WARNING = Finding("key", "warn", "shop.a", "has no primary key")


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CDC_CORE_BOOTSTRAP", "CDC_LAKE_BOOTSTRAP"):
        monkeypatch.setenv(name, "kafka:9092")


def source_of(**more: Any) -> Source:
    database = {"kind": "mariadb", "host": "db", "port": 1, "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": f"shop.{name}"} for name in "abc"]
    return Source.model_validate({"source": "shop", "database": database, "tables": tables, **more})


def judge(
    monkeypatch: pytest.MonkeyPatch, source: Source, findings: tuple[Finding, ...], *, running: dict[str, str] | None = None
) -> Judged:
    """As preflight would find it, on a Connect that takes everything."""
    connect = SimpleNamespace(config=lambda _: running)
    for cluster in ("core_kafka", "lake_kafka", "core_connect", "connect"):
        monkeypatch.setattr(Platform, cluster, lambda *_: connect)
    for name in ("refuse_one_cluster", "refuse_other", "difference_of", "refuse"):
        monkeypatch.setattr(apply_source, name, lambda *_: None)
    monkeypatch.setattr(apply_source, "preflight", lambda *_: Report("shop", "db:1", findings))
    monkeypatch.setattr(apply_source, "uncapturable_findings", lambda *_: iter(findings))
    return judge_source(Chain(Platform(), source))


def captured(judged: Judged, source: Source) -> list[str]:
    (config,) = [each.config for each in judged.connectors if each.role == "capture"]
    return tables_in_list(source, config)


def test_a_table_that_cannot_be_captured_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of()
    judged = judge(monkeypatch, source, (YEAR, NO_TABLE, WARNING))
    assert captured(judged, source) == ["shop.a"]
    assert [each.role for each in judged.connectors] == ["capture", "mirror"]
    (mirror,) = [each.config for each in judged.connectors if each.role == "mirror"]
    assert mirror["topics"].count(",") == 2
    told = Brought("shop-capture", refused=tuple(judged.messages)).errors
    assert [line.partition(" is left out, the others are captured: ")[::2] for line in told] == [
        (
            "table shop.b",
            "column 'y' holds the year 0000 (correct it); then cdc apply takes it in, and cdc onboard reads its rows",
        ),
        ("table shop.c", "does not exist; then cdc apply takes it in, and cdc onboard reads its rows"),
    ]
    assert Brought("shop-capture", refused=tuple(judged.messages)).to_json()["error"] == "\n".join(told)


def test_a_table_that_the_connector_has_stays_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its changes would be lost without it; it is told all the same."""
    source = source_of()
    running = capture_config(source.model_copy(update={"tables": source.tables[:2]}))
    judged = judge(monkeypatch, source, (YEAR, NO_TABLE), running=running)
    assert captured(judged, source) == ["shop.a", "shop.b"]
    assert judged.messages[1] == "table shop.b is captured already, and is not right: column 'y' holds the year 0000 (correct it)"


@pytest.mark.parametrize(
    ("findings", "more", "told"),
    [
        ((OF_SERVER, YEAR), {}, "server: log_bin: there is no binlog; log_bin\nshop.b: columns: column 'y' holds"),
        ((OF_ALL,), {}, "shop.b: compressed_columns: stops every table; ALTER"),
        (tuple(Finding("columns", "fail", f"shop.{name}", "x") for name in "abc"), {}, "shop.c: columns: x"),
        ((YEAR,), {"managed_by": "gitops"}, "shop.b: columns"),
    ],
)
def test_what_stops_the_whole_source_is_applied_nowhere(
    monkeypatch: pytest.MonkeyPatch, findings: tuple[Finding, ...], more: dict[str, Any], told: str
) -> None:
    with pytest.raises(RefusalError, match="source shop is not ready, nothing was applied") as refused:
        judge(monkeypatch, source_of(**more), findings)
    assert told in str(refused.value)


def test_a_source_without_a_finding_is_applied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of()
    judged = judge(monkeypatch, source, (WARNING,))
    assert (captured(judged, source), judged.messages) == (["shop.a", "shop.b", "shop.c"], [])
