"""A live PostgreSQL whose lake is lost: restored from its backup, and on from there. Oracles: PostgreSQL's rows, delta-rs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from cdc_assets.backup.verification import source_in_store
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.opened_store import open_store
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.upkeep_assets import build_drill_asset
from cdc_assets.recovery.drill import drill_of_backup, drill_source, last_drill, scratch_of
from cdc_assets.recovery.restore_point import DAMAGED, RESTORED, THERE, RestoreRequest
from cdc_assets.recovery.restored_source import restore_source
from cdc_assets.registry import names
from cdc_assets_tests.e2e.source_rows import current_versions, silver_rows, source_rows
from cdc_assets_tests.recovery.lost_lake import (
    CHANGES,
    DDL,
    NAMES,
    TABLES,
    assert_as_in_postgresql,
    assert_ledger_balances,
    back_up,
    by_command,
    change,
    fold_history,
    rows_of,
    told_by_check,
)
from cdc_assets_tests.recovery.original import held, quietly, states
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.table.identifiers import table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    from cdc_assets.registry.backup_store import BackupStore

    found = open_store(BackupStore(kind="local", bucket=str(tmp_path_factory.mktemp("bucket")), prefix="lake"))
    found.create_bucket()
    return found


@pytest.fixture(scope="module")
def chain(live: LiveSource, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallChain]:
    own = replace(live, name="lost")
    with own.connection() as connection:
        connection.execute(DDL)
    with small_chain(own, remote, session, tmp_path_factory.mktemp("lake"), TABLES) as made:
        for statements in (CHANGES[:3], CHANGES[3:]):
            change(made, *statements)
            made.advance()
        fold_history(made)
        yield made


def request(chain: SmallChain, store: ObjectStore, lake: Path, **more: Any) -> RestoreRequest:
    return RestoreRequest(chain.source, chain.source.tables, store, str(lake), **more)


def test_the_lake_comes_back_and_goes_on(chain: SmallChain, store: ObjectStore, tmp_path: Path) -> None:
    """Bronze row by row, silver as PostgreSQL has it; then the next changes, and a comparison of everything."""
    back_up(chain, store)
    asked = request(chain, store, tmp_path / "lake", is_successor=True)
    found = restore_source(chain.platform, asked, quietly)
    assert {each.outcome for each in found} == {RESTORED}
    was = names.bronze_path(str(chain.root), chain.source)
    assert held(asked.path, *NAMES) == held(was, *NAMES)
    assert states(asked.path) == states(was)
    assert_as_in_postgresql(chain, asked.lake)
    with chain.live.connection() as connection:
        columns, expected = source_rows(connection, "coin")
    coin = chain.source.table("coin")
    assert current_versions(Path(names.history_path(asked.lake, chain.source, coin)), columns) == expected
    assert {each.outcome for each in restore_source(chain.platform, asked, quietly)} == {THERE}

    other = SmallChain(chain.live, chain.remote, asked.lake, chain.source, chain.session, copier=chain.copier)
    change(chain, "UPDATE coin SET face = 'after' WHERE id < 100", "INSERT INTO toss VALUES (1, true), (1, true)")
    other.advance()
    before = bronze_committed(asked.path)
    other.advance()  # nothing is read twice
    assert bronze_committed(asked.path).topics == before.topics  # type: ignore[union-attr]
    assert {name: result.sentence() for name, result in other.compare().items() if not result.equal} == {}
    assert_as_in_postgresql(chain, asked.lake)
    assert_ledger_balances(chain, asked.lake)
    back_up(chain, store, lake=asked.lake)
    chain.advance()
    assert states(asked.path) == states(was)
    assert held(asked.path, *NAMES) == held(was, *NAMES)


@pytest.mark.all
def test_rows_of_keys_come_beside_the_lake(chain: SmallChain, store: ObjectStore, tmp_path: Path) -> None:
    """Oracle: the live silver's rows, and its history's, of these keys."""
    chain.advance()
    fold_history(chain)
    source, coin = back_up(chain, store), chain.source.table("coin")
    lake, asked = tmp_path / "some", ("--keys", "1", "--keys", "1100", "--keys", "7", "--keys", "99999")
    began = DeltaTable(chain.silver("coin")).version()
    code, _, said = by_command(chain, source, "restore", source.name, "coin", "--into", str(lake), "--keys", "x")
    assert (code, "'x' is no value of its key column 'id'" in said, lake.exists()) == (2, True, False), said
    code, [told], said = by_command(chain, source, "restore", source.name, "coin", "--into", str(lake), *asked)
    assert (code, told["outcome"]) == (0, RESTORED), said
    for path in (names.silver_path, names.history_path):
        live, made = (rows_of(path(str(root), chain.source, coin), 1, 7, 1100) for root in (chain.root, lake))
        assert made == live
        assert made
        assert made == rows_of(path(str(lake), chain.source, coin))
    assert [row["id"] for row in rows_of(names.silver_path(str(lake), chain.source, coin))] == [1, 1100]  # 7 is deleted
    code, [told], _ = by_command(chain, source, "restore", source.name, "coin", "--into", str(lake), *asked)
    assert (code, told["outcome"]) == (0, THERE)
    code, _, said = by_command(chain, source, "restore", source.name, "coin", "--into", str(lake), "--keys", "2")
    assert (code, "records of coin already" in said) == (2, True), said
    assert DeltaTable(chain.silver("coin")).version() == began


@pytest.mark.all
def test_a_range_of_keys_comes_beside_the_lake(chain: SmallChain, store: ObjectStore, tmp_path: Path) -> None:
    """Oracle: the live silver's rows, and its history's, of the keys from 390 to 1100, as numbers."""
    chain.advance()
    fold_history(chain)
    source, coin = back_up(chain, store), chain.source.table("coin")
    lake, range_of = tmp_path / "some", ("--from-key", "390", "--to-key", "1100")
    asked = ("restore", source.name, "coin", "--into", str(lake))
    code, _, said = by_command(chain, source, *asked, "--from-key", "x")
    assert (code, "--from-key: table coin: 'x' is no value of its key column 'id'" in said) == (2, True), said
    code, _, said = by_command(chain, source, *asked, "--from-key", "1100", "--to-key", "390")
    assert (code, "--from-key 1100 lies above --to-key 390: no key is between them" in said) == (2, True), said
    code, [planned], _ = by_command(chain, source, *asked, *range_of, "--dry-run")
    assert (code, planned["rows"], lake.exists()) == (0, "keys from 390 to 1100", False)
    code, [told], said = by_command(chain, source, *asked, *range_of)
    assert (code, told["outcome"], told["rows"]) == (0, RESTORED, "keys from 390 to 1100"), said
    for path in (names.silver_path, names.history_path):
        live, made = (rows_of(path(str(root), chain.source, coin)) for root in (chain.root, lake))
        assert made == [row for row in live if 390 <= row["id"] <= 1100]
        assert {390, 1100} <= {row["id"] for row in made} < {row["id"] for row in live}
    assert by_command(chain, source, *asked, *range_of)[1][0]["outcome"] == THERE
    code, _, said = by_command(chain, source, *asked, "--from-key", "390")
    assert (code, "records of coin already" in said) == (2, True), said


@pytest.mark.all
def test_up_to_a_position_silver_is_as_it_was(chain: SmallChain, store: ObjectStore, tmp_path: Path) -> None:
    """Oracle: PostgreSQL's rows of then."""
    chain.advance()
    with chain.live.connection() as connection:
        columns, expected = source_rows(connection, "note")
    note = chain.source.table("note")
    silver = DeltaTable(chain.silver("note")).to_pyarrow_table(columns=["_cdc_position"])["_cdc_position"].to_pylist()
    change(chain, "UPDATE note SET words = 'too late'", "DELETE FROM note WHERE id < 50")
    chain.advance()
    source = back_up(chain, store)
    code, [told], _ = by_command(
        chain, source, "restore", source.name, "note", "--into", str(tmp_path / "t"), "--to", max(silver)
    )
    assert (code, told["outcome"]) == (0, RESTORED)
    assert silver_rows(Path(names.silver_path(str(tmp_path / "t"), chain.source, note)), columns) == expected


def test_a_drill_finds_nothing_and_then_what_is_planted(chain: SmallChain, store: ObjectStore) -> None:
    chain.advance()
    fold_history(chain)
    source = back_up(chain, store)
    code, planned, _ = by_command(chain, source, "drill", source.name, "--dry-run")
    assert (code, {(row["table"], row["problem"]) for row in planned}) == (0, {(name, "") for name in NAMES})
    assert all(row["records"] and row["bytes"] and row["version"] is not None for row in planned)
    assert last_drill(str(chain.root), source) is None
    code, [told], _ = by_command(chain, source, "drill", source.name)
    drill = last_drill(str(chain.root), source)
    assert drill is not None
    assert (code, told) == (0, json.loads(json.dumps(drill.to_json())))
    assert [(each.table, each.version) for each in drill.tables] == sorted((row["table"], row["version"]) for row in planned)
    assert [(each.table, each.sentence) for each in drill.tables if not each.is_equal] == []
    assert drill.is_equal
    assert {each.table for each in drill.tables} == set(NAMES)
    assert sum(each.rows for each in drill.tables) > 600
    assert not [each for each in Path(scratch_of(str(chain.root), source)).rglob("*") if each.is_file()]
    assert told_by_check(chain, source) == (True, f"{sum(each.rows for each in drill.tables)} rows equal at {drill.moment}")

    chain.session.sql(f"UPDATE {table_at(chain.silver('coin'))} SET face = 'planted' WHERE id = 1")
    code, [told], _ = by_command(chain, source, "drill", source.name)
    assert (code, told["equal"]) == (1, False)
    drill = last_drill(str(chain.root), source)
    assert drill is not None
    coin = next(each for each in drill.tables if each.table == "coin")
    assert coin.differing == 2  # the row as it is, and as it would be
    assert coin.rows > 2 * DeltaTable(chain.silver("coin")).to_pyarrow_table().num_rows - 100  # the history as well
    assert "planted" in coin.problem
    assert [each.table for each in drill.tables if not each.is_equal] == ["coin"]
    passed, sentence = told_by_check(chain, source)
    assert not passed
    assert sentence.startswith("coin: 2 rows of ")
    chain.session.sql(f"RESTORE TABLE {table_at(chain.silver('coin'))} TO VERSION AS OF {coin.version - 1}")  # type: ignore[operator]


@pytest.mark.all
def test_a_drill_of_a_backup_that_is_behind_compares_silver_of_then(chain: SmallChain, store: ObjectStore) -> None:
    source = back_up(chain, store)
    change(chain, "UPDATE note SET words = 'since' WHERE id % 3 = 0")
    chain.advance()
    drill = drill_source(Chain(chain.platform, source), quietly)
    assert drill.is_equal, drill
    note = next(each for each in drill.tables if each.table == "note")
    assert note.version is not None
    assert note.version < DeltaTable(chain.silver("note")).version()


@pytest.mark.all
def test_columns_that_the_source_has_dropped_come_back(chain: SmallChain, store: ObjectStore) -> None:
    """Silver and the history keep them; the catalogue of now does not. Without the ledgers in the backup a drill tells."""
    fold_history(chain)
    change(chain, "ALTER TABLE note DROP COLUMN words", "UPDATE note SET at = now() WHERE id < 60")
    change(chain, "ALTER TABLE coin DROP COLUMN minted", "ALTER TABLE coin RENAME COLUMN worth TO price")
    change(chain, "UPDATE coin SET price = price + 1 WHERE id < 60", "DELETE FROM coin WHERE id = 2")
    chain.advance()
    fold_history(chain)
    change(chain, "ALTER TABLE note ADD COLUMN mark int DEFAULT 5", "UPDATE note SET mark = 6 WHERE id < 80")
    chain.advance()
    source, coin = back_up(chain, store), chain.source.table("coin")
    drill = drill_source(Chain(chain.platform, source), quietly, keep=True)
    assert [(each.table, each.sentence) for each in drill.tables if not each.is_equal] == []
    roots = (str(chain.root), scratch_of(str(chain.root), source))
    live, made = (_versions(names.history_path(root, chain.source, coin)) for root in roots)
    assert [{**row, "worth": None} for row in made] == [{**row, "worth": None} for row in live]  # `price` has its values
    assert {row["minted"] for row in made if row["id"] == 2} != {None}
    # A backup from before the history was folded has silver's ledger alone.
    store.delete(f"{source.name}/coin/_history_columns")
    assert drill_source(Chain(chain.platform, source), quietly).is_equal
    for table in ("note", "coin"):
        store.delete(f"{source.name}/{table}/_columns")
    told = {each.table: each.problem for each in drill_source(Chain(chain.platform, source), quietly).tables if not each.is_equal}
    assert {*told} == {"note", "coin"}
    assert "other columns: words" in told["note"]
    assert (
        f"{names.history_path(str(chain.root), chain.source, coin)} and the restored one have other columns: minted"
        in told["coin"]
    )


def _versions(path: str) -> list[dict[str, Any]]:
    return sorted(rows_of(path), key=lambda row: (row["id"], row["_valid_from"]))


@pytest.mark.all
def test_a_damaged_object_is_named_and_left_out(chain: SmallChain, store: ObjectStore, tmp_path: Path) -> None:
    source = back_up(chain, store)
    root = Path(store.config.bucket) / store.config.prefix
    victim = max((root / source.name / "note").rglob("*.gz"), key=lambda file: file.name)
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + b"?")
    drill = drill_source(Chain(chain.platform, source), quietly)
    lake = str(tmp_path / "rest")
    code, told, said = by_command(chain, source, "restore", source.name, "--into", lake)
    outcomes = {row["table"]: row["outcome"] for row in told}
    assert (code, outcomes) == (1, {"coin": RESTORED, "toss": RESTORED, "note": DAMAGED})
    assert f"damaged: {victim.relative_to(root)} has another content" in said
    code, told, said = by_command(chain, source, "restore", source.name, "note", "--into", lake, "--skip-damaged")
    assert (code, [row["outcome"] for row in told]) == (1, [RESTORED])
    assert f"damaged: {victim.relative_to(root)} has another content" in said
    assert rows_of(names.silver_path(lake, chain.source, chain.source.table("note")))
    victim.write_bytes(content)
    (note,) = [each for each in drill.tables if not each.is_equal]
    assert note.table == "note"
    assert note.problem.startswith(f"{victim.relative_to(root)} has another content")


@pytest.mark.all
def test_the_asset_drills(chain: SmallChain, store: ObjectStore) -> None:
    source = back_up(chain, store)
    asset = build_drill_asset(source)
    result = dg.materialize([asset], resources={"platform": chain.platform})
    (event,) = result.asset_materializations_for_node(asset.op.name)
    drill = last_drill(str(chain.root), source)
    assert drill is not None
    told = {name: value.value for name, value in event.metadata.items()}
    rows = sum(each.rows for each in drill.tables)
    assert (told["cdc/equal"], told["cdc/rows"], told["cdc/rows_differing"], told["cdc/bytes"]) == (True, rows, 0, drill.bytes)
    plan = event.metadata["cdc/plan"].records  # type: ignore[union-attr]
    assert [(record.data["table"], record.data["problem"]) for record in plan] == [(name, "") for name in sorted(NAMES)]
    assert drill_of_backup(store, source.name) == drill
    assert source_in_store(store, source.name, NAMES).foreign == ()
    assert [record.data["table"] for record in event.metadata["cdc/tables"].records] == sorted(NAMES)  # type: ignore[union-attr]
