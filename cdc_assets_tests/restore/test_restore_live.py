"""A live PostgreSQL whose lake is lost: restored from its backup, and on from there. Oracles: PostgreSQL's rows, delta-rs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets import names
from cdc_assets.backup import backup_table
from cdc_assets.defs.checks.drilled import build_drilled_check
from cdc_assets.ledger.balance import hops
from cdc_assets.ledger.count import count_events
from cdc_assets.ledger.read import places, read_windows
from cdc_assets.registry.models import Source
from cdc_assets.registry.source_settings import Backup, DrillSettings
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.object_store import ObjectStore, open_store
from cdc_assets.restore.column_history import back_up_columns
from cdc_assets.restore.drill_record import last_drill, scratch_of
from cdc_assets.restore.drill_source import drill_source
from cdc_assets.restore.restore_point import parse_restore_point
from cdc_assets.restore.restore_request import RESTORED, THERE, RestoreRequest
from cdc_assets.restore.restore_source import platform_of_lake, restore_source
from cdc_assets.tables.fold_specs import history_spec, silver_spec
from cdc_assets.tables.source_catalogue import catalogue_of
from cdc_assets_tests.e2e.source_rows import current_versions, silver_rows, source_rows
from cdc_assets_tests.restore.original import held, quietly, states
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.delta.identifiers import table_at
from spark.history import job as history_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TABLES = [{"name": "public.coin", "history": "scd2"}, {"name": "public.toss", "without_key": "multiset"}, "public.note"]
NAMES = ("coin", "note", "toss")
DDL = """
CREATE TABLE coin (id int PRIMARY KEY, face text, worth numeric(12,2), minted date);
CREATE TABLE toss (coin int, up boolean);
CREATE TABLE note (id bigint PRIMARY KEY, words text, at timestamptz, data bytea);
ALTER TABLE toss REPLICA IDENTITY FULL;
INSERT INTO coin SELECT i, 'face ' || i, i / 7.0, '2026-01-01'::date + i FROM generate_series(1, 400) i;
INSERT INTO toss SELECT i % 9, i % 3 = 0 FROM generate_series(1, 90) i;
"""
CHANGES = (
    "INSERT INTO note SELECT i, repeat('w', i * 40), now(), decode(md5(i::text), 'hex') FROM generate_series(1, 200) i",
    "UPDATE coin SET worth = worth + 1 WHERE id % 3 = 0",
    "UPDATE coin SET id = id + 1000 WHERE id % 50 = 0",
    "DELETE FROM coin WHERE id % 7 = 0",
    "DELETE FROM toss WHERE coin = 3",
    "UPDATE note SET at = now() WHERE id % 2 = 0",
)


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


def fold_history(chain: SmallChain) -> None:
    coin, root = chain.source.table("coin"), str(chain.root)
    found = catalogue_of(chain.platform, chain.source, [coin])[coin.id]
    spec = history_spec(root, chain.source, coin, silver_spec(root, chain.source, coin, found))
    history_job.run(chain.session, spec)


def change(chain: SmallChain, *statements: str) -> None:
    with chain.live.connection() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def back_up(chain: SmallChain, store: ObjectStore, *, lake: Path | str | None = None) -> Source:
    """The source, as one that declares this backup."""
    path = names.bronze_path(str(lake or chain.root), chain.source)
    for table in chain.source.tables:
        backup_table(store, source=chain.source.name, table=names.table_name(table), bronze_path=path)
        back_up_columns(store, str(lake or chain.root), chain.source, table)
    declared = {"backup": Backup(store=store.config), "drill": DrillSettings(every=timedelta(days=7))}
    return chain.source.model_copy(update=declared)


def request(chain: SmallChain, store: ObjectStore, lake: Path, **more: Any) -> RestoreRequest:
    return RestoreRequest(chain.source, chain.source.tables, store, str(lake), **more)


def assert_as_in_postgresql(chain: SmallChain, lake: Path | str) -> None:
    for table in chain.source.tables:
        path = names.silver_path(str(lake), chain.source, table)
        with chain.live.connection() as connection:
            columns, expected = source_rows(connection, names.table_name(table))
        assert silver_rows(Path(path), columns) == expected, table.name


def assert_ledger_balances(chain: SmallChain, lake: str) -> None:
    """The ledger's own job, begun anew: each event of the topics has its row of bronze and its fate in silver."""
    count_events(platform_of_lake(chain.platform, lake), chain.source, chain.source.tables)
    counted = places(lake, chain.source)
    for table in chain.source.tables:
        place = counted[names.table_name(table)]
        found = hops(read_windows(lake, chain.source, table), place, mirrored=names.is_mirrored(chain.source))
        assert [each for hop in found for each in hop.differing] == [], table.name
        assert place.uncounted == ""


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
def test_up_to_a_position_silver_is_as_it_was(chain: SmallChain, store: ObjectStore, tmp_path: Path) -> None:
    """Oracle: PostgreSQL's rows of then."""
    chain.advance()
    with chain.live.connection() as connection:
        columns, expected = source_rows(connection, "note")
    note = chain.source.table("note")
    silver = DeltaTable(chain.silver("note")).to_pyarrow_table(columns=["_cdc_position"])["_cdc_position"].to_pylist()
    change(chain, "UPDATE note SET words = 'too late'", "DELETE FROM note WHERE id < 50")
    chain.advance()
    back_up(chain, store)
    points = {"note": parse_restore_point(max(silver))}
    asked = RestoreRequest(chain.source, [note], store, str(tmp_path / "then"), points=points)
    restore_source(chain.platform, asked, quietly)
    assert silver_rows(Path(names.silver_path(asked.lake, chain.source, note)), columns) == expected


def test_a_drill_finds_nothing_and_then_what_is_planted(chain: SmallChain, store: ObjectStore) -> None:
    chain.advance()
    fold_history(chain)
    source = back_up(chain, store)
    said: list[str] = []
    drill = drill_source(chain.platform, source, said.append)
    assert [(each.table, each.sentence) for each in drill.tables if not each.is_equal] == []
    assert drill.is_equal
    assert {each.table for each in drill.tables} == set(NAMES)
    assert sum(each.rows for each in drill.tables) > 600
    assert not [each for each in Path(scratch_of(str(chain.root), source)).rglob("*") if each.is_file()]
    assert last_drill(str(chain.root), source) == drill
    assert told_by_check(chain, source) == (True, f"{sum(each.rows for each in drill.tables)} rows equal at {drill.moment}")

    chain.session.sql(f"UPDATE {table_at(chain.silver('coin'))} SET face = 'planted' WHERE id = 1")
    drill = drill_source(chain.platform, source, quietly)
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
    drill = drill_source(chain.platform, source, quietly)
    assert drill.is_equal, drill
    note = next(each for each in drill.tables if each.table == "note")
    assert note.version is not None
    assert note.version < DeltaTable(chain.silver("note")).version()


@pytest.mark.all
def test_columns_that_the_source_has_dropped_come_back(chain: SmallChain, store: ObjectStore) -> None:
    """Silver keeps them; the catalogue of now does not know them. Without the ledger in the backup a drill tells."""
    change(chain, "ALTER TABLE note DROP COLUMN words", "UPDATE note SET at = now() WHERE id < 60")
    chain.advance()
    change(chain, "ALTER TABLE note ADD COLUMN mark int DEFAULT 5", "UPDATE note SET mark = 6 WHERE id < 80")
    chain.advance()
    source = back_up(chain, store)
    drill = drill_source(chain.platform, source, quietly)
    assert [(each.table, each.sentence) for each in drill.tables if not each.is_equal] == []
    store.delete(f"{source.name}/note/_columns")
    (note,) = [each for each in drill_source(chain.platform, source, quietly).tables if not each.is_equal]
    assert note.table == "note"
    assert "other columns: words" in note.problem


@pytest.mark.all
def test_a_drill_names_a_damaged_object(chain: SmallChain, store: ObjectStore) -> None:
    source = back_up(chain, store)
    root = Path(store.config.bucket) / store.config.prefix
    victim = max((root / source.name / "note").rglob("*.gz"), key=lambda file: file.name)
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + b"?")
    drill = drill_source(chain.platform, source, quietly)
    victim.write_bytes(content)
    (note,) = [each for each in drill.tables if not each.is_equal]
    assert note.table == "note"
    assert note.problem.startswith(f"{victim.relative_to(root)} has another content")


def told_by_check(chain: SmallChain, source: Source) -> tuple[bool, str]:
    import dagster as dg

    from cdc_assets.defs.checks.drilled import key_of_drilled

    chosen = dg.AssetSelection.checks(key_of_drilled(source))
    resources = {"platform": chain.platform}
    result = dg.materialize([build_drilled_check(source)], selection=chosen, resources=resources, raise_on_error=False)
    (told,) = result.get_asset_check_evaluations()
    return told.passed, told.description or ""
