"""A history's proof: exit codes of `cdc reconcile`, the check `history_reconciled`, and which version of silver it reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import reconcile
from cdc_assets.clients.delta_log import version_that_folded
from cdc_assets.defs.check_specs import HISTORY_RECONCILED
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.rhythms import checks_of_counts
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.defs.volumetry_checks import history_check
from cdc_assets.proof import history_proof
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, HistoryDifference, HistoryResult, TableResult
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.declared import declare_source
from spark.table.commit_metadata import CommittedTopic, Folded, silver_metadata

YAML = """\
source: shop
owners: ["team:data"]
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables: [{name: public.a, history: scd2}, {name: public.b}]
"""
SILVER = TableResult("shop/a", EQUAL, lsn="0/99", source_rows=2, silver_rows=2)
WRONG = HistoryDifference("1;", ("missing",), ("0000.1",), ("v",), "history", ("bronze",))
COUNTED: dict[str, Any] = {"version": 4, "silver_version": 3, "versions": 9, "current": 2}
FOUND = {
    EQUAL: HistoryResult("shop/a", EQUAL, **COUNTED),
    DIFFERENT: HistoryResult("shop/a", DIFFERENT, **COUNTED, keys_differing=1, differences=(WRONG,)),
    INCONCLUSIVE: HistoryResult("shop/a", INCONCLUSIVE, reason="bronze lacks 3 of the 9 records", **COUNTED),
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return declare_source(tmp_path, monkeypatch, YAML)


def play(monkeypatch: pytest.MonkeyPatch, verdict: str) -> list[str]:
    """Silver is equal; the history is proven with this verdict, and after it was healed with `equal`."""
    healed: list[str] = []

    def compare(_: Any, tables: Sequence[Any], __: Any) -> dict[str, TableResult]:
        return {t.id.table: SILVER for t in tables}

    def heal(_: Any, table: Any) -> int:
        healed.append(table.name)
        return 1

    monkeypatch.setattr(reconcile, "compare_rows", compare)
    monkeypatch.setattr(history_proof, "prove", lambda *_, **__: FOUND[EQUAL if healed else verdict])
    monkeypatch.setattr(history_proof, "heal", heal)
    return healed


@pytest.mark.parametrize(("verdict", "code"), [(EQUAL, 0), (DIFFERENT, 1), (INCONCLUSIVE, 2)])
def test_the_exit_code_counts_the_history(monkeypatch: pytest.MonkeyPatch, shop: Source, verdict: str, code: int) -> None:
    play(monkeypatch, verdict)
    told = CliRunner().invoke(app, ["reconcile", "shop", "-o", "json"])
    assert told.exit_code == code, told.output
    first, second = json.loads(told.stdout)
    assert first["history"]["verdict"] == verdict
    assert "history" not in second
    text = CliRunner().invoke(app, ["reconcile", "shop"])
    assert text.exit_code == code
    assert f"shop/a history: {FOUND[verdict].sentence()}" in text.stdout
    assert ("0000.1" in text.stdout) == (verdict == DIFFERENT)


def test_heal_folds_wrong_keys_again_and_proves_them(monkeypatch: pytest.MonkeyPatch, shop: Source) -> None:
    healed = play(monkeypatch, DIFFERENT)
    assert CliRunner().invoke(app, ["reconcile", "shop", "--heal", "--dry-run"]).exit_code == 1
    assert healed == []
    told = CliRunner().invoke(app, ["reconcile", "shop", "--heal", "-o", "json"])
    assert (told.exit_code, healed) == (0, ["public.a"])
    assert "shop/a: 1 key of its history folded again from bronze" in told.stderr
    assert json.loads(told.stdout)[0]["history"]["healed"] == 1


@pytest.mark.parametrize("verdict", [EQUAL, DIFFERENT, INCONCLUSIVE])
def test_the_check_is_on_silver_and_red_for_a_difference_only(
    monkeypatch: pytest.MonkeyPatch, shop: Source, verdict: str
) -> None:
    play(monkeypatch, verdict)
    job = dg.define_asset_job("proof", selection=dg.AssetSelection.checks(HISTORY_RECONCILED.key(shop, shop.table("a"))))
    definitions = dg.Definitions(asset_checks=history_check.build(shop), jobs=[job], resources={"platform": PlatformResource()})
    with dg.DagsterInstance.ephemeral() as instance:
        run = definitions.resolve_job_def("proof").execute_in_process(instance=instance, raise_on_error=False)
    (result,) = run.get_asset_check_evaluations()
    assert (result.asset_key.path, result.check_name) == (["silver", "shop", "silver_a"], "history_reconciled")
    assert (result.passed, result.blocking) == (verdict == EQUAL, False)
    assert result.severity == (dg.AssetCheckSeverity.ERROR if verdict == DIFFERENT else dg.AssetCheckSeverity.WARN)
    assert result.metadata["cdc/history_versions"].value == 9
    assert ("cdc/differences" in result.metadata) == (verdict == DIFFERENT)


def test_it_is_in_the_volumetry_of_its_source(shop: Source) -> None:
    merged = dg.Definitions.merge(build_source_defs(shop), dg.Definitions(resources={"platform": PlatformResource()}))
    graph = merged.resolve_asset_graph()
    assert {key for key in graph.asset_check_keys if key.name == HISTORY_RECONCILED.name} == {
        HISTORY_RECONCILED.key(shop, shop.table("a"))
    }
    assert HISTORY_RECONCILED.key(shop, shop.table("a")) in checks_of_counts(shop)


def fold(path: Path, end: int | None) -> None:
    """A commit of ours that has folded so far, or (None) of somebody else."""
    state = CommittedTopic("a", "id", 0, {0: end or 0}, records=end or 0)
    said = {} if end is None else {"userMetadata": silver_metadata("op", Folded(0, {"t": state}), {})}
    write_deltalake(str(path), pa.table({"id": [1]}), mode="append", commit_properties=CommitProperties(custom_metadata=said))


def test_silver_is_read_where_it_had_folded_the_same(tmp_path: Path) -> None:
    """The newest such version: what others have done to it since must show."""
    path = tmp_path / "silver"
    for end in (3, 5, None, None, 8, 9):
        fold(path, end)

    def version(end: int) -> int | None:
        return version_that_folded(str(path), Folded(7, {"t": CommittedTopic("a", "id", 0, {0: end}, records=end)}))

    assert [version(end) for end in (3, 5, 8, 9, 4)] == [0, 3, 4, 5, None]
