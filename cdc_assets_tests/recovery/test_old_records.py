"""Old records go from bronze when everyone has read them and the backup has them, to the letter; and come back from there."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.backup.verification import verify_backup
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.delta_log import bronze_committed, bronze_floors, bronze_rows
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery import old_bronze_records
from cdc_assets.recovery.maintenance import maintain_source, plan_source
from cdc_assets.recovery.old_bronze_records import find_old_records
from cdc_assets.recovery.past_records import STAYS_SECONDS, bring_back, remove_past
from cdc_assets.recovery.removal import remove_backup
from cdc_assets.registry import names
from cdc_assets.registry.errors import BackupError, RefusalError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.backup.bronze_tables import topic_of
from cdc_assets_tests.recovery.conftest import SHOP
from cdc_assets_tests.recovery.lake_reader import Reader
from cdc_assets_tests.recovery.object_damage import flip, second_object
from cdc_assets_tests.recovery.original import HOUR, NOON, Original, fill, held, quietly, row, rows
from cdc_assets_tests.spark.upkeep.kills import Killed
from cdc_assets_tests.support.declared import declare_source
from spark.bronze.change_log import BronzeTail
from spark.table import delta_table
from spark.upkeep import file_rewrite
from spark.upkeep.maintenance_spec import Maintained

DAY = 86_400.0
LATER = NOON / 1e6 + 100 * DAY
"""When all that `fill` writes is older than 90 days."""
YOUNG = int(LATER - DAY) * 1_000_000


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    (tmp_path / "bucket").mkdir()
    return declare_source(tmp_path, monkeypatch, SHOP.format(bucket=tmp_path / "bucket") + "bronze: {keep: 90d}\n")


@pytest.fixture
def store(shop: Source) -> ObjectStore:
    assert shop.backup is not None
    found: ObjectStore = Platform().store(shop.backup.store)
    return found


@pytest.fixture
def original(tmp_path: Path, shop: Source) -> Original:
    return Original(names.bronze_path(str(tmp_path / "lake"), shop))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bucket/lake"


@pytest.fixture
def reader(shop: Source) -> Reader:
    return Reader(shop)


Expire = Callable[..., Maintained]


@pytest.fixture
def expire(shop: Source) -> Expire:
    """Maintenance of bronze at a moment."""

    def run(now: float = LATER) -> Maintained:
        found = maintain_source(Chain(Platform(), shop), ["bronze/shop"], lambda chain: find_old_records(chain, now))
        ((_, done),) = list(found)
        return done

    return run


@pytest.fixture
def full(original: Original, store: ObjectStore, reader: Reader) -> Original:
    """Two tables, backed up, folded and counted."""
    fill(original)
    original.back_up(store, "orders", "customers", max_records=400)
    reader.read("orders", "customers")
    return original


def counts(path: str) -> dict[tuple[str, int], int]:
    return bronze_rows(path, DeltaTable(path).version(), {})


def whole(shop: Source, original: Original) -> list[dict[str, Any]]:
    """All rows: those that were brought back, and those of bronze."""
    lake = Platform().lake
    found = [each for table in ("orders", "customers") for each in _past(lake, shop, table)]
    order = ("table", "epoch", "partition", "offset")
    return sorted([*found, *held(original.path, "orders", "customers")], key=lambda each: [each[name] for name in order])


def _past(lake: str, shop: Source, table: str) -> list[dict[str, Any]]:
    path = names.past_path(lake, shop, shop.table(table))
    return held(path, table) if DeltaTable.is_deltatable(path) else []


@pytest.mark.slow
def test_what_is_old_goes_and_comes_back_to_the_letter(
    full: Original, store: ObjectStore, reader: Reader, expire: Expire, shop: Source
) -> None:
    full.append("orders", rows(909, 300, timestamp=YOUNG))
    full.back_up(store, "orders")
    reader.read("orders", "customers")
    before, counted = held(full.path, "orders", "customers"), counts(full.path)
    planned = plan_source(Chain(Platform(), shop), ["bronze/shop"], lambda chain: find_old_records(chain, LATER))
    assert [plan.rows for _, plan in planned] == [7 + 900 + 700 + 1200 + 5]
    assert held(full.path, "orders", "customers") == before, "a plan changes nothing"
    done = expire()
    assert (done.rows_removed, done.given_up) == (7 + 900 + 700 + 1200 + 5, {})
    assert {row["timestamp"].timestamp() for row in held(full.path, "orders", "customers")} == {YOUNG / 1e6}
    assert counts(full.path) == counted, "who counts bronze's rows counts those that went"
    for table in ("orders", "customers"):
        report = verify_backup(store, source="shop", table=table, bronze_path=full.path)
        assert (report.differences, report.behind) == ((), 0)
        assert bring_back(Chain(Platform(), shop), shop.table(table), quietly) is not None
    assert whole(shop, full) == before
    assert expire(LATER + 2 * DAY).rows_removed == 0, "nothing else is old by then"


@pytest.mark.slow
def test_the_command_takes_what_its_dry_run_says(
    full: Original, store: ObjectStore, shop: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: LATER, monotonic=time.monotonic)
    monkeypatch.setattr(old_bronze_records, "time", clock)

    def maintain(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["maintain", *words, "bronze/shop", "-o", "json"])
        assert done.exit_code == 0, (done.output, done.exception)
        (row,) = json.loads(done.stdout)
        return dict(row)

    before = held(full.path, "orders", "customers")
    assert maintain("--dry-run")["rows_to_go"] == len(before) == 2812
    assert held(full.path, "orders", "customers") == before
    assert maintain()["rows_gone"] == 2812
    assert DeltaTable(full.path).to_pyarrow_table().num_rows == 0
    for table in ("orders", "customers"):
        assert verify_backup(store, source="shop", table=table, bronze_path=full.path).ok
        assert bring_back(Chain(Platform(), shop), shop.table(table), quietly) is not None
    assert whole(shop, full) == before


@pytest.mark.slow
def test_the_floor_rises_and_the_backup_goes_on(
    full: Original, store: ObjectStore, reader: Reader, expire: Expire, shop: Source
) -> None:
    assert expire().rows_removed == 2812
    assert bring_back(Chain(Platform(), shop), shop.table("orders"), quietly) is not None
    full.append("orders", rows(909, 40, timestamp=YOUNG))
    full.back_up(store, "orders")
    reader.read("orders", "customers")
    before = held(full.path, "orders", "customers")
    assert expire(LATER + DAY / 2).rows_removed == 0, "at most once a day"
    assert expire(LATER + 91 * DAY).rows_removed == len(before) == 40
    assert sum(floor.records for floor in bronze_floors(full.path).values()) == 2852
    found = bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert found is not None
    assert found.records == 1652, "what was brought back before ended too early"
    again = bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert again is not None
    assert again.outcome == "there"
    full.append("orders", rows(949, 3, timestamp=YOUNG))
    full.back_up(store, "orders")
    assert verify_backup(store, source="shop", table="orders", bronze_path=full.path).ok


@pytest.mark.slow
def test_an_epoch_takes_those_before_it_along(
    full: Original, store: ObjectStore, reader: Reader, expire: Expire, shop: Source
) -> None:
    full.topic_id = "topic-id-2"
    full.append("orders", [{**each, "position": f"0002{each['position'][4:]}"} for each in rows(0, 30)], epoch=2)
    full.back_up(store, "orders")
    reader.read("orders", "customers")
    before = held(full.path, "orders", "customers")
    counted = bronze_rows(full.path, DeltaTable(full.path).version(), {topic_of("orders"): 2})
    expire()
    assert held(full.path, "orders", "customers") == []
    assert bronze_floors(full.path)[topic_of("orders")].epoch == 2
    assert bronze_rows(full.path, DeltaTable(full.path).version(), {topic_of("orders"): 2}) == counted
    for table in ("orders", "customers"):
        bring_back(Chain(Platform(), shop), shop.table(table), quietly)
    assert whole(shop, full) == before


@pytest.mark.slow
@pytest.mark.parametrize("behind", ["silver", "counted"])
def test_nobody_is_leftovers(full: Original, store: ObjectStore, reader: Reader, expire: Expire, behind: str) -> None:
    then = bronze_committed(full.path)
    full.append("orders", rows(909, 500))
    full.back_up(store, "orders", max_records=400)
    reader.read("orders", "customers", **{behind: then})  # type: ignore[arg-type]
    assert expire().rows_removed == 2812, "what came after that stays, old as it is"
    assert len(held(full.path, "orders")) == 500


@pytest.mark.slow
def test_without_a_fold_a_count_or_age_nothing_goes(
    original: Original, store: ObjectStore, reader: Reader, expire: Expire
) -> None:
    fill(original)
    original.back_up(store, "orders", "customers")
    assert expire().rows_removed == 0
    reader.read("customers", "orders")
    assert expire(LATER - 20 * DAY).rows_removed == 0
    assert expire().rows_removed == 2812


@pytest.mark.slow
def test_a_record_in_the_middle_that_is_young_holds_those_behind_it(
    original: Original, store: ObjectStore, reader: Reader, expire: Expire
) -> None:
    """Offsets are no order of time."""
    original.append("orders", [*rows(0, 800), row(0, 800, timestamp=YOUNG), *rows(801, 800)])
    original.append("customers", rows(0, 10))
    original.back_up(store, "orders", "customers", max_records=400)
    reader.read("orders", "customers")
    expire()
    left = [each["offset"] for each in held(original.path, "orders")]
    assert left == list(range(left[0], 1601))
    assert 0 < left[0] <= 800


def _flip(root: Path) -> None:
    flip(second_object(root))


def _lose(root: Path) -> None:
    second_object(root).unlink()


def _lose_manifest(root: Path) -> None:
    sorted((root / "shop/orders/_manifests").iterdir())[1].unlink()


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_flip, _lose, _lose_manifest])
def test_what_the_backup_has_damaged_stays(
    full: Original, root: Path, expire: Expire, damage: Callable[[Path], None], shop: Source
) -> None:
    before = held(full.path, "orders")
    damage(root)
    done = expire()
    assert held(full.path, "orders") == before
    assert done.rows_removed == 1200, "the other table's are whole"
    assert "backup is" in done.given_up["old records of orders"]


@pytest.mark.slow
def test_a_row_that_differs_from_the_backup_stays(full: Original, expire: Expire) -> None:
    """Somebody has changed bronze, or the backup's object and its manifest."""
    table = DeltaTable(full.path)
    table.update({"tx_id": "'other'"}, predicate="topic = '" + topic_of("orders") + "' AND offset = 20 AND partition = 0")
    before = held(full.path, "orders")
    done = expire()
    assert "another tx_id than bronze" in done.given_up["old records of orders"]
    assert held(full.path, "orders") == before
    assert done.rows_removed == 1200


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_the_commit(
    full: Original, expire: Expire, monkeypatch: pytest.MonkeyPatch, when: str, store: ObjectStore
) -> None:
    before = held(full.path, "orders", "customers")
    put = delta_table.DeltaTable.put

    def die(*given: Any) -> None:
        if when == "after":
            put(*given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(delta_table.DeltaTable, "put", die)
        with pytest.raises(Killed):
            expire()
    assert held(full.path, "orders", "customers") == (before if when == "before" else [])
    assert expire().rows_removed == (2812 if when == "before" else 0)
    assert verify_backup(store, source="shop", table="orders", bronze_path=full.path).ok


@pytest.mark.slow
def test_a_writer_that_comes_between_gives_it_up(full: Original, expire: Expire, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has rewritten a file of which a part was to go."""
    take = file_rewrite.turn

    def after_another(path: str) -> Any:
        DeltaTable(full.path).optimize.compact()
        return take(path)

    with monkeypatch.context() as patched:
        patched.setattr(file_rewrite, "turn", after_another)
        done = expire()
    assert "rows" in done.given_up
    assert not bronze_floors(full.path)
    assert len(held(full.path, "orders", "customers")) == 2812
    assert expire().rows_removed == 2812


def test_an_object_damaged_since_stops_who_asks_for_it(full: Original, root: Path, expire: Expire, shop: Source) -> None:
    expire()
    broken = second_object(root)
    flip(broken)
    with pytest.raises(RefusalError, match=f"do not come back, and nothing is changed: .*{broken.name.split('+')[-1]}"):
        bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert not DeltaTable.is_deltatable(names.past_path(Platform().lake, shop, shop.table("orders")))


@pytest.mark.slow
def test_the_only_holder_is_not_left_and_not_removed(
    full: Original, expire: Expire, shop: Source, shared_stores: Callable[[str], ObjectStore]
) -> None:
    local_store = shared_stores("local")
    expire()
    with pytest.raises(BackupError, match=r"is empty, and bronze has given its first 1612 records"):
        backup_table(local_store, source="shop", table="orders", bronze_path=full.path)
    assert list(local_store.list("shop/")) == []
    with pytest.raises(RefusalError, match="the backup stays for as long as the lake does"):
        remove_backup(Chain(Platform(), shop))


@pytest.mark.slow
def test_what_came_back_goes_a_day_later(full: Original, expire: Expire, shop: Source, tmp_path: Path) -> None:
    expire()
    bring_back(Chain(Platform(), shop), shop.table("orders"), quietly)
    assert remove_past(Platform().lake, shop) == []
    for file in (tmp_path / "lake/past").rglob("*.*"):
        os.utime(file, times=(time.time() - STAYS_SECONDS - 9,) * 2)
    assert remove_past(Platform().lake, shop) == ["orders"]
    assert not (tmp_path / "lake/past/shop/orders").exists()


def test_a_task_reads_on_over_it(full: Original, store: ObjectStore, reader: Reader, expire: Expire) -> None:
    """The commit adds files with rows that were there before."""
    after = DeltaTable(full.path).version()
    full.append("orders", rows(909, 2, timestamp=YOUNG))
    DeltaTable(full.path).optimize.compact()
    full.back_up(store, "orders")
    reader.read("orders", "customers")
    expire()
    full.append("orders", rows(911, 3, timestamp=YOUNG))
    tail = BronzeTail(full.path, ["orders"], after=after, version=DeltaTable(full.path).version())
    assert tail.of_table("orders")["offset"].to_pylist() == [909, 910, 911, 912, 913]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.all) for n in range(3, 30))])
def test_any_course_of_appends_backups_and_days(
    seed: int, original: Original, store: ObjectStore, reader: Reader, expire: Expire, shop: Source
) -> None:
    """What was ever appended is what bronze and the backup together have, whenever somebody looks."""
    choice, now, ends, sent = random.Random(seed), LATER, {0: 0, 1: 0}, list[dict[str, Any]]()
    original.append("customers", rows(0, 3))
    for _ in range(12):
        now += choice.choice([0.2, 2, 30]) * DAY
        for partition in ends:
            count = choice.choice([0, 1, 700])
            more = rows(
                ends[partition], count, partition=partition, timestamp=int((now - choice.random() * HOUR / 1e6) * 1000) * 1000
            )
            if more:
                original.append("orders", more)
                ends[partition] += count
                sent += more
        if sent and choice.random() < 0.8:
            original.back_up(store, "orders", "customers", max_records=choice.choice([300, 2000]))
        if sent and choice.random() < 0.8:
            reader.read("orders", "customers")
        done = expire(now + choice.choice([0, 50, 95]) * DAY)
        assert done.given_up == {}
        assert sum(counts(original.path).values()) == len(sent) + 3
        assert verify_backup(store, source="shop", table="orders", bronze_path=original.path).ok
    for table in ("orders", "customers"):
        bring_back(Chain(Platform(), shop), shop.table(table), quietly)
    found = [each for each in whole(shop, original) if each["table"] == "orders"]
    told = sorted((each["partition"], each["offset"], each["value"]) for each in sent)
    assert [(each["partition"], each["offset"], each["value"]) for each in found] == told
