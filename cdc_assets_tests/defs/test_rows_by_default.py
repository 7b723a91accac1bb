"""Rows are compared once a day where nobody has declared a rhythm, and never under a lock."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_specs import RECONCILED_IN_STEPS
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.defs.volumetry_checks import rows_check
from cdc_assets.proof import comparison, source_sides
from cdc_assets.proof.compared_table import ComparisonRequest, Way
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, TableResult
from cdc_assets.registry.source_declaration import BaseSource, Source, TopicSource
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.row_servers import SERVERS, source_of

MARKED = {"marker": "ours.marker"}
WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
TOPIC: dict[str, Any] = {
    "source": "feeds",
    "kind": "topics",
    "cluster": "lake",
    "tables": [{"name": "t", "topic": "t", "envelope": "json", "keys": ["id"], "columns": {"id": "bigint not null"}}],
}


def crons(source: BaseSource) -> list[str]:
    defs = dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()}))
    return [s.cron_schedule for s in defs.schedules or () if s.name == f"reconcile_{source.name}_schedule"]  # type: ignore[union-attr, misc]


@pytest.mark.parametrize("kind", SERVERS)
def test_every_kind_that_can_be_compared_is(kind: str) -> None:
    """Without a declared rhythm there was no check at all, and a wrong table stayed `pass` for good."""
    alone, marked = source_of(kind), source_of(kind, reconciliation=MARKED)
    assert marked.rows_every == timedelta(days=1)
    assert [key.name for key in RECONCILED_IN_STEPS.keys(marked)] == ["reconciled"]
    # MySQL tells its place itself; of the others nobody knows when the lake has what the rows show.
    assert alone.rows_every == (timedelta(days=1) if kind == "mysql" else None)
    for off in ({"every": "never"}, {**MARKED, "every": "never"}):
        assert source_of(kind, reconciliation=off).rows_tables == ()
    assert source_of(kind, reconciliation={**MARKED, "every": "6h"}).rows_every == timedelta(hours=6)


def test_a_table_can_be_left_out() -> None:
    tables = [
        {"name": f"shop.t{number}", "keys": ["id"], "columns": {"id": "bigint not null"}, **more}
        for number, more in enumerate(({}, {"reconciliation": {"every": "never"}}, {"reconciliation": {"show": "values"}}))
    ]
    assert [table.name for table in source_of("mysql", tables=tables).rows_tables] == ["shop.t0", "shop.t2"]
    tables[1]["reconciliation"] = {"every": "6h"}
    with pytest.raises(ValueError, match="reconciliation.every is of the whole source"):
        source_of("mysql", tables=tables)
    with pytest.raises(ValueError, match="500ms, 30s, 5m, 1h30m or 7d; or never"):
        source_of("mysql", reconciliation={"every": "often"})


def test_topics_and_kinds_that_are_compared_with_the_counts_have_no_rhythm_of_their_own() -> None:
    assert TopicSource.model_validate(TOPIC).rows_tables == ()
    assert TopicSource.model_validate({**TOPIC, "reconciliation": {"every": "never"}}).rows_tables == ()
    database = {"kind": "postgresql", "host": "db", "dbname": "d", "user": "cdc", "password": {"secret": "erp"}}
    declared: dict[str, Any] = {"source": "erp", "database": database, "tables": [{"name": "public.orders"}]}
    assert Source.model_validate(declared).rows_tables == ()
    never = {"reconciliation": {"every": "never"}}
    for refused in ({**declared, **never}, {**declared, "tables": [{"name": "public.orders", **never}]}):
        with pytest.raises(ValueError, match=r"is compared with the counts \(volumetry.every\)"):
            Source.model_validate(refused)


def test_validate_says_how_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "source: shop\ndatabase: {kind: %s, host: db, user: cdc, password: {secret: shop}%s}\n"
    table = "  - {name: shop.%s, keys: [id], columns: {id: bigint not null}%s}\n"
    tables = "tables:\n" + table % ("orders", "")
    oracle, mysql = (head % ("oracle", ", dbname: d") + tables, head % ("mysql", "") + tables)
    left_out = mysql + table % ("lines", ", reconciliation: {every: never}")
    declare(tmp_path, monkeypatch, oracle)
    for text, told, data in (
        (mysql, "rows are compared every 1d\n", "1d"),
        (left_out, "rows are compared every 1d, not of shop__lines\n", "1d"),
        (mysql + "reconciliation: {every: never}\n", "rows are never compared, as declared\n", "never"),
        (oracle, "rows are never compared: declare a marker table (reconciliation: {marker: schema.table})\n", "never"),
        (oracle + "reconciliation: {marker: shop.m, every: 6h}\n", "rows are compared every 6h\n", "6h"),
    ):
        (tmp_path / "sources" / "shop.yaml").write_text(text)
        assert f"shop: {told}" in CliRunner().invoke(app, ["validate"]).stdout
        assert json.loads(CliRunner().invoke(app, ["validate", "-o", "json"]).stdout)["rows_compared"] == {"shop": data}


def test_sources_do_not_begin_in_the_same_minute() -> None:
    found = {cron for name in ("erp", "shop", "crm") for cron in crons(source_of("mysql", source=name))}
    assert len(found) == 3
    assert all(cron.endswith(" */1 * *") for cron in found)
    assert crons(source_of("mysql", reconciliation={"every": "6h"})) == ["0 */6 * * *"]
    assert crons(source_of("mysql", reconciliation={"every": "never"})) == []


def test_the_log_is_marked_by_its_place_and_nothing_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker table was asked for, without which nothing was compared in two steps; and by schedule a lock was taken."""
    carried: list[str] = []

    def locked(*_: Any, **__: Any) -> Any:
        raise AssertionError("a global read lock was asked for")

    def two_step(_: Any, way: Way, __: Any) -> dict[str, TableResult]:
        with way.open() as side:
            carried.append(side.carry().lsn)
        return {"shop__orders": TableResult("erp/shop__orders", EQUAL, source_rows=1, silver_rows=1)}

    def carry(_: Any, **__: Any) -> LogPosition:
        return LogPosition("m", "binlog.000001:4", {})

    monkeypatch.setattr(source_sides, "open_cut", locked)
    monkeypatch.setattr(comparison, "compare_by", two_step)
    monkeypatch.setattr(source_sides, "catalogue_of", lambda *_: {})
    monkeypatch.setattr(comparison, "forget_equal_tables", lambda *_: None)
    monkeypatch.setattr(source_sides, "carry_named", carry)
    monkeypatch.setattr(source_sides, "open_reader", lambda _: None)
    source = source_of("mysql")
    request = ComparisonRequest(two_step=True)
    (result,) = comparison.compare_rows(Chain(Platform(), source), source.tables, request).values()
    assert (result.verdict, carried) == (EQUAL, ["binlog.000001:4"])


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """One run of the check of MySQL's table, whose comparison ends with this word; what the check says."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    instance, methods = dg.DagsterInstance.ephemeral(), []

    def run(word: str, source: BaseSource) -> dg.AssetCheckEvaluation:
        result = TableResult(
            "erp/shop__orders", word, "no way", source_rows=1, silver_rows=1, keys_differing=int(word == DIFFERENT)
        )

        def compare(_: Any, __: Any, request: ComparisonRequest) -> dict[str, TableResult]:
            methods.append(request.two_step)
            return {"shop__orders": replace(result, method="two-step")}

        monkeypatch.setattr(comparison, "compare_rows", compare)
        job = dg.define_asset_job("compared", selection=dg.AssetSelection.checks(*RECONCILED_IN_STEPS.keys(source)))
        platform = {"platform": PlatformResource(lake_root=str(tmp_path))}
        checks = rows_check.build(source)
        defs = dg.Definitions(asset_checks=checks, jobs=[job], resources=platform, executor=dg.in_process_executor)
        ran = defs.resolve_job_def("compared").execute_in_process(instance=instance, raise_on_error=False)
        assert all(methods)
        (found,) = ran.get_asset_check_evaluations()
        return found

    return run


def test_what_could_not_be_compared_warns(verdict: Any) -> None:
    """It was red at once, whatever `red_after` said; of a comparison that nobody has declared it stays a warning."""
    asked, unasked = (
        source_of("mysql", reconciliation={"red_after": after, **more}) for after, more in (("1s", {"every": "6h"}), ("1ms", {}))
    )
    for _ in range(2):
        told = verdict(INCONCLUSIVE, unasked)
        assert (told.passed, told.severity, "{every: never}" in told.description) == (False, WARN, True)
    assert verdict(EQUAL, unasked).passed
    assert verdict(INCONCLUSIVE, unasked).severity == WARN
    # What was compared once, and is not any more, is red as elsewhere.
    assert verdict(INCONCLUSIVE, unasked).severity == ERROR
    assert verdict(DIFFERENT, asked).severity == ERROR
    assert (hidden := verdict(INCONCLUSIVE, asked)).severity == ERROR
    assert "found a difference" in hidden.description
