"""`cdc restore` and `cdc drill` as a person calls them, where no service runs: bronze alone, exit codes, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.jobs_on_demand import build_restore_job
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.command_line import cdc
from cdc_assets_tests.recovery.object_damage import cut_short, flip, second_object
from cdc_assets_tests.recovery.original import TABLES, Original, fill, held


@pytest.fixture
def lake(shop: Source, store: ObjectStore, original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CDC_SPARK_REMOTE", raising=False)
    fill(original)
    original.back_up(store, *TABLES)
    return tmp_path / "lake"


def test_a_dry_run_reads_what_there_is_and_writes_nothing(lake: Path, root: Path) -> None:
    code, told, _ = cdc("restore", "shop", "--dry-run")
    assert (code, [(row["table"], row["outcome"], row["records"]) for row in told]) == (
        0,
        [("orders", "restorable", 1612), ("customers", "restorable", 1200)],
    )
    assert told[0]["positions"] == {"0": 909, "1": 707}
    assert not lake.exists()


@pytest.mark.parametrize("damage", [flip, cut_short, Path.unlink])
def test_a_dry_run_names_what_a_restore_would_name(lake: Path, root: Path, damage: Callable[[Path], None]) -> None:
    """Nothing is called restored of which a byte is another."""
    victim = second_object(root)
    damage(victim)
    code, told, said = cdc("restore", "shop", "--dry-run")
    assert (code, told[0]["outcome"], told[1]["outcome"]) == (1, "damaged", "restorable")
    assert f"damaged: {victim.relative_to(root)} " in said
    assert not lake.exists()
    planned = told[0]["damage"]
    code, told, _ = cdc("restore", "shop")
    assert (code, told[0]["outcome"], told[0]["damage"]) == (1, "damaged", planned)


@pytest.mark.slow
def test_without_spark_bronze_comes_back(lake: Path, original: Original) -> None:
    code, told, said = cdc("restore", "shop", "customers")
    assert (code, [row["table"] for row in told]) == (0, ["customers"])
    assert "silver and histories follow with the source's runs: ./cdc up" in said
    assert held(str(lake / "bronze/shop"), "customers") == held(original.path, "customers")
    assert cdc("restore", "shop")[1][1]["outcome"] == "there"
    assert held(str(lake / "bronze/shop"), *TABLES) == held(original.path, *TABLES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("restore", "shop", "nothing"), "shop declares no table nothing; there are: orders, customers"),
        (("restore", "shop", "--to", "yesterday"), "--to 'yesterday' is neither a time"),
        (("restore", "shop", "--into", "lake"), "--into lake is the lake itself"),
        (("restore", "shop", "--into", "other"), "CDC_SPARK_REMOTE is not set"),
        (("restore", "shop", "orders", "--keys", "1"), "keys are of one table beside the lake"),
        (("restore", "shop", "--into", "other", "--keys", "1"), "keys are of one table beside the lake"),
        (("restore", "shop", "orders", "--from-key", "1"), "keys are of one table beside the lake"),
        (("restore", "shop", "--into", "other", "--to-key", "1"), "keys are of one table beside the lake"),
        (
            ("restore", "shop", "orders", "--into", "other", "--keys", "1", "--to-key", "1"),
            "give single keys (--keys) or a range of them (--from-key, --to-key), not both",
        ),
        (("restore", "shop", "--past", "--to-key", "1"), "--past is up to where bronze begins"),
        (("restore", "shop", "--topics", "--from-key", "1"), "are of the whole source"),
    ],
)
def test_a_refusal_says_what_is_wrong(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = cdc(*arguments)
    assert code == 2
    assert message in said


def test_a_source_without_a_backup(lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "sources/shop.yaml"
    file.write_text("\n".join(line for line in file.read_text().splitlines() if not line.startswith("backup")))
    for verb in ("restore", "drill"):
        code, _, said = cdc(verb, "shop")
        assert code == 2
        assert "source shop declares no backup" in said
    assert cdc("drill")[0] == 2


def test_the_last_drill_of_none(lake: Path) -> None:
    assert cdc("drill", "shop", "--last")[:2] == (0, [])


def test_a_drill_needs_a_backup(lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "sources/shop.yaml"
    file.write_text("\n".join(x for x in file.read_text().splitlines() if not x.startswith("backup")) + "\ndrill: {every: 7d}\n")
    result = CliRunner().invoke(app, ["validate"])
    assert result.exit_code != 0
    assert "drill: the source declares no backup that could be restored" in result.output + result.stderr


@pytest.mark.parametrize(("kind", "word"), [("postgresql", "dbname: shop, "), ("mariadb", "")])
def test_a_log_is_kept_where_a_slot_can_keep_it(lake: Path, tmp_path: Path, kind: str, word: str) -> None:
    file = tmp_path / "sources/shop.yaml"
    text = file.read_text().replace("kind: postgresql", f"kind: {kind}").replace("dbname: shop, ", word)
    text = text.replace("{name: public.", "{name: shop.") if kind == "mariadb" else text
    file.write_text(text.replace("backup: {store:", "backup: {keep_log: true, store:"))
    result = CliRunner().invoke(app, ["validate"])
    told = result.output + result.stderr
    assert ("backup.keep_log: kind mariadb has no slot" in told) == (kind == "mariadb"), told
    assert (result.exit_code == 0) == (kind == "postgresql"), told


def test_a_drill_says_what_it_would_do(lake: Path, root: Path, shop: Source) -> None:
    """Nothing has folded yet: there is a backup that nothing can be compared with."""
    code, told, _ = cdc("drill", "shop", "--dry-run")
    assert (code, [(row["table"], row["problem"]) for row in told]) == (
        1,
        [("customers", "there is a backup and no silver"), ("orders", "there is a backup and no silver")],
    )
    next((root / "shop/orders").rglob("*.gz")).unlink()
    code, told, _ = cdc("drill", "shop", "--dry-run")
    assert "is missing" in {row["table"]: row["problem"] for row in told}["orders"]
    assert not lake.exists()
    code, _, said = cdc("drill", "shop", "--dry-run", "--last")
    assert (code, "give it without --last and --keep" in said) == (2, True)


@pytest.mark.slow
def test_the_job_shows_the_plan_and_restores_when_told_to(
    lake: Path, shop: Source, original: Original, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a source to ask nothing is folded: what there is then is bronze, and the run is red."""

    def run(**config: Any) -> Any:
        job = build_restore_job()
        told = {"ops": {"restore_tables": {"config": {"source": "shop", **config}}}}
        return job.execute_in_process(told, resources={"platform": Platform()}, raise_on_error=False)

    planned = run()
    assert planned.success
    [metadata] = [event.step_output_data.metadata for event in planned.all_node_events if event.is_successful_output]
    assert metadata["cdc/restored"].value is False
    assert [record.data["records"] for record in metadata["cdc/plan"].records] == [1612, 1200]
    assert not lake.exists()
    assert not run(dry_run=False).success
    assert held(str(lake / "bronze/shop"), *TABLES) == held(original.path, *TABLES)
