"""Cuts as they are kept, shown and read; delta-rs writes the tables, and no service runs."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from cdc_assets.capture.onboarding.onboarding_state import Journal, Onboarding
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_specs import CUTS_KEPT
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.defs.upkeep_assets import cuts_check
from cdc_assets.reading import lake_at_cut
from cdc_assets.recovery import consistent_cut as making
from cdc_assets.recovery.consistent_cut import make_cut
from cdc_assets.recovery.cut_manifest import CutEntry, CutManifest, keep_cut, name_of_cut, read_cuts
from cdc_assets.recovery.maintenance import tables_in_lake
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError, RegistryError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.declared import declare_source
from spark.upkeep.table_maintenance import maintain

SOURCE = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
maintenance: {time_travel: 1h}
cuts: {every: 1h, keep: 2h}
tables: [{name: public.orders}, {name: public.lines}]
"""


class Shop:
    """Silver tables that delta-rs writes, and cuts that name versions of them."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.lake, self.source = str(folder / "lake"), source
        self.now = datetime.now(timezone.utc).replace(microsecond=0)

    def path(self, table: str) -> str:
        return names.silver_path(self.lake, self.source, self.source.table(table))

    def write(self, table: str, *ids: int, anew: bool = False) -> None:
        rows = pa.table({"id": pa.array(ids, pa.int64())})
        Path(self.path(table)).mkdir(parents=True, exist_ok=True)
        write_deltalake(self.path(table), rows, mode="overwrite" if anew else "append")

    def entry(self, table: str) -> CutEntry:
        found = DeltaTable(self.path(table))
        rows = found.to_pyarrow_table().num_rows
        topics = {f"core.shop.public.{table}": {"id": "t", "epoch": 0, "ends": {"0": rows}, "records": rows}}
        place = f"silver/shop/{table}"
        return CutEntry("silver", table, place, found.version(), str(found.metadata().id), rows, 0, topics)

    def cut(self, age: timedelta = timedelta(0)) -> CutManifest:
        at, entries = self.now - age, tuple(self.entry(table) for table in ("lines", "orders"))
        return CutManifest(name_of_cut("shop", at), "shop", at, "0/1A2B", entries)

    def keep(self, age: timedelta = timedelta(0)) -> list[str]:
        return keep_cut(self.lake, self.source, self.cut(age), timedelta(hours=2))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(tmp_path, declare_source(tmp_path, monkeypatch, SOURCE))
    shop.write("orders", 1, 2)
    shop.write("lines", 1)
    return shop


def run(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words, "-o", "json"])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout) if done.stdout else None


def test_cuts_are_kept_for_as_long_as_declared(shop: Shop) -> None:
    assert read_cuts(shop.lake, shop.source) == []
    assert shop.keep(timedelta(hours=3)) == []
    shop.write("orders", 3)
    assert shop.keep(timedelta(hours=1)) == []
    shop.write("lines", 2, 3)
    # Two hours from the new one back: the first is older, the second is not.
    assert shop.keep() == [name_of_cut("shop", shop.now - timedelta(hours=3))]
    newest, older = read_cuts(shop.lake, shop.source)
    assert newest == shop.cut()
    assert [entry.rows for entry in (older.tables["orders"], older.tables["lines"])] == [3, 1]
    # One commit each, and one file: another reader of Delta finds the same rows.
    found = DeltaTable(names.cuts_path(shop.lake, shop.source))
    assert (found.version(), len(found.file_uris())) == (2, 1)
    assert {row["cut"] for row in found.to_pyarrow_table().to_pylist()} == {newest.cut, older.cut}


def test_a_cut_is_listed_shown_and_read(shop: Shop) -> None:
    shop.keep(timedelta(hours=1))
    first = name_of_cut("shop", shop.now - timedelta(hours=1))
    shop.write("orders", 3, 4)
    shop.keep()
    shop.write("orders", 5)
    assert [(row["cut"], row["tables"], row["rows"]) for row in run("cut", "list")] == [
        (name_of_cut("shop", shop.now), 2, 5),
        (first, 2, 3),
    ]
    told = run("cut", "show", first)
    assert [(entry["table"], entry["version"], entry["rows"]) for entry in told["entries"]] == [
        ("lines", 0, 1),
        ("orders", 0, 2),
    ]
    assert "0/1A2B" in CliRunner().invoke(app, ["cut", "show", "shop"]).stdout
    assert [*lake_at_cut.at(first)] == ["lines", "orders"]
    assert lake_at_cut.at(first)["orders"].to_arrow()["id"].to_pylist() == [1, 2]
    assert sorted(lake_at_cut.at("shop")["orders"].to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    asked = "SELECT count(*) AS n FROM silver.shop.orders"
    assert [run("sql", asked, *more)[0]["n"] for more in (["--cut", first], ["--cut", "shop"], [])] == [2, 4, 5]
    assert {row["table"]: row["rows"] for row in run("sql", "--cut", first)} == {
        "silver.shop.lines": 1,
        "silver.shop.orders": 2,
    }
    assert run("sql", "SELECT count(DISTINCT cut) AS n FROM cuts.shop") == [{"n": 2}]
    with pytest.raises(KeyError, match="it has: lines, orders"):
        lake_at_cut.at(first)["nothing"]


def test_duckdb_takes_all_tables_of_a_cut(shop: Shop) -> None:
    import duckdb

    shop.keep()
    shop.write("lines", 7)
    with duckdb.connect() as connection:
        assert lake_at_cut.at("shop").register(connection) == ["lines", "orders"]
        assert connection.execute("SELECT count(*) FROM orders JOIN lines USING (id)").fetchall() == [(1,)]
        assert connection.execute("SELECT max(id) FROM lines").fetchall() == [(1,)]


@pytest.mark.parametrize("name", ["shop-20010101T000000Z", "nobody-20010101T000000Z", "nobody"])
def test_a_cut_that_is_not_there_is_refused(shop: Shop, name: str) -> None:
    with pytest.raises(RefusalError, match=r"cdc cut make shop|there are: shop"):
        lake_at_cut.at(name)
    shop.keep()
    with pytest.raises(RefusalError, match=r"it has 1 cut: cdc cut list shop|there are: shop"):
        lake_at_cut.at(name)
    assert CliRunner().invoke(app, ["cut", "show", name]).exit_code == 2


@pytest.mark.slow
def test_what_a_kept_cut_names_stays_readable(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance of a table that was written over and over: the named versions stay, those between them go."""
    monkeypatch.setattr("spark.upkeep.table_maintenance.CHECKPOINT_FROM", 5)
    for number in range(2, 12):
        shop.write("orders", number, anew=True)
    shop.keep(timedelta(hours=1))
    for number in range(12, 40):
        shop.write("orders", number, anew=True)
    shop.keep()
    for number in range(40, 60):
        shop.write("orders", number, anew=True)
    (spec,) = [table.spec for table in tables_in_lake(shop.lake, shop.source) if table.name == "silver/shop/orders"]
    cuts = [cut.tables["orders"].version for cut in read_cuts(shop.lake, shop.source)]
    assert sorted(each.version for each in spec.named) == sorted(cuts) == [10, 38]
    hard = type(spec)(spec.path, time_travel=0.0, work_seconds=0.0, named=spec.named)
    done = [maintain(hard) for _ in range(3)]
    assert done[-1].named is not None
    assert done[-1].named.reason == f"cut {read_cuts(shop.lake, shop.source)[-1].cut}"
    assert sum(each.files_removed for each in done) >= 50
    assert len([*Path(spec.path).glob("*.parquet")]) <= 5
    assert [lake_at_cut.at(cut.cut)["orders"].to_arrow()["id"].to_pylist() for cut in read_cuts(shop.lake, shop.source)] == [
        [39],
        [11],
    ]
    # The cuts are forgotten, and so is what they named.
    forgotten = maintain(type(spec)(spec.path, time_travel=0.0, work_seconds=0.0))
    assert (forgotten.named, forgotten.files_removed) == (None, 2)
    assert forgotten.commits_expired > 20
    with pytest.raises(RefusalError, match="cannot be read any more"):
        lake_at_cut.at("shop")["orders"].to_arrow()


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(shop: Shop) -> None:
    import shutil

    shop.keep()
    shutil.rmtree(shop.path("orders"))
    shop.write("orders", 8)
    with pytest.raises(RefusalError, match="is of another table"):
        lake_at_cut.at("shop")["orders"].to_arrow()
    done = CliRunner().invoke(app, ["sql", "FROM silver.shop.orders", "--cut", "shop"])
    assert isinstance(done.exception, RefusalError)
    (spec,) = [table.spec for table in tables_in_lake(shop.lake, shop.source) if table.name == "silver/shop/orders"]
    assert maintain(spec).given_up == {}


def checked(shop: Shop) -> tuple[bool, str]:
    parts = cuts_check.build(shop.source)
    chosen = dg.AssetSelection.checks(CUTS_KEPT.key(shop.source))
    done = dg.materialize(parts, resources={"platform": PlatformResource()}, selection=chosen, raise_on_error=False)
    (told,) = done.get_asset_check_evaluations()
    return told.passed, told.description or ""


@pytest.mark.slow
def test_the_check_is_red_when_the_newest_is_too_old_or_one_is_gone(shop: Shop) -> None:
    assert checked(shop) == (False, "no cut is kept yet")
    shop.keep(timedelta(minutes=95))
    assert checked(shop)[0] is False
    assert "95 min old; one is declared each 1:00:00" in checked(shop)[1]
    shop.write("orders", 3)
    shop.keep(timedelta(minutes=10))
    passed, told = checked(shop)
    assert (passed, told.startswith("2 cuts kept, the newest is shop-")) == (True, True), told
    next(Path(shop.path("orders")).glob("_delta_log/*00.json")).unlink()
    passed, told = checked(shop)
    assert (passed, "silver/shop/orders at version 0 cannot be read any more" in told) == (False, True), told


def test_what_is_declared_is_built(shop: Shop, tmp_path: Path) -> None:
    defs = build_source_defs(shop.source)
    assert "cut_shop" in {job.name for job in defs.jobs or ()}
    assert "cut_shop_schedule" in {each.name for each in defs.schedules or ()}
    assert dg.AssetKey(["cut", "shop", "cut_shop"]) in {key for each in defs.assets or () for key in getattr(each, "keys", ())}
    file = tmp_path / "sources" / "shop.yaml"
    for text, said in (
        ("cuts: {every: 3h, keep: 1h}", "no cut would be kept until the next one"),
        ("cuts: {every: 1h, often: 2}", "often"),
    ):
        file.write_text(SOURCE.replace("cuts: {every: 1h, keep: 2h}", text))
        with pytest.raises(RegistryError, match=said):
            load_source(file)
    topics = "source: shop\nkind: topics\ncluster: lake\ncuts: {every: 1h}\ntables: [{name: t, topic: t, envelope: json, "
    file.write_text(topics + "keys: [id], columns: {id: integer not null}}]\n")
    with pytest.raises(RegistryError, match="kind topics has no log whose commits are told apart here"):
        load_source(file)


def test_no_cut_while_a_table_is_read_or_another_is_made(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.of("shop")
    journal.running = Onboarding("1", "shop", "temporary", ("public.lines",), "2026-11-25T12:00:00Z")
    journal.save()
    with pytest.raises(RefusalError, match=r"public.lines: a reading is under way: cdc onboard shop --resume"):
        make_cut(Chain(Platform(), shop.source), print)
    assert CliRunner().invoke(app, ["cut", "make", "shop", "--dry-run"]).exit_code == 2
    journal.running = None
    journal.save()
    monkeypatch.setattr(making, "_BUSY_SECONDS", 0.0)
    with making.table_lock("cut", "shop", "all"):
        done = CliRunner().invoke(app, ["cut", "make", "shop"])
    assert done.exit_code == 2
    assert "cut/shop/all is held by process" in done.stderr


def test_a_table_of_cuts_of_another_format_is_refused(shop: Shop) -> None:
    shop.keep(timedelta(hours=1))
    path = names.cuts_path(shop.lake, shop.source)
    DeltaTable(path).alter.set_table_properties({"cdc.cuts": "2"}, raise_if_not_exists=False)
    refused = f"{path} is a table of cuts of format 2, this cdc reads 1: read it with the cdc that wrote it"
    with pytest.raises(RefusalError, match=refused):
        read_cuts(shop.lake, shop.source)
    with pytest.raises(RefusalError, match=refused):
        shop.keep()
