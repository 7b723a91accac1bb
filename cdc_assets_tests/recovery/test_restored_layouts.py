"""Declared folders and forms of values: where objects lie, and that a backup of several layouts gives back what bronze had."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
import pytest
from pydantic import ValidationError

from cdc_assets.backup.backup_copy import BatchForm, backup_table
from cdc_assets.backup.manifest import BatchPlan
from cdc_assets.backup.object_layout import ObjectLayout
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.backup_assets import build_backup_assets
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.recovery.topic_plan import find_kept_topic
from cdc_assets.registry.errors import BackupError
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.source_settings import Backup
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.original import HOUR, NOON, ODD, Original, assert_same, quietly, row, rows

SINKS = ObjectLayout("{yyyy}-{MM}-{dd}/{HH}", "json")
STORE = {"kind": "local", "bucket": "/b"}


def back_up(store: ObjectStore, original: Original, layout: ObjectLayout | None) -> None:
    backup_table(store, source="shop", table="orders", bronze_path=original.path, form=BatchForm(layout or ObjectLayout()))


def keys(store: ObjectStore) -> list[str]:
    return sorted(each.key for each in store.list("shop/orders/") if each.key.endswith(".gz"))


@pytest.mark.service
def test_folders_and_values_as_sinks_write_them(any_store: ObjectStore, original: Original, ask: Ask) -> None:
    original.append("orders", [*rows(0, 30), *(row(0, 30 + n, **facts) for n, facts in enumerate(ODD))])
    original.append("customers", rows(0, 3))
    back_up(any_store, original, SINKS)
    backup_table(any_store, source="shop", table="customers", bronze_path=original.path, form=BatchForm(SINKS))
    moment = datetime.fromtimestamp(NOON / 1e6, timezone.utc)
    assert f"shop/orders/{moment:%Y-%m-%d/%H}/core.shop.public.orders+0+0+{0:020d}.json.gz" in keys(any_store)
    lines = [json.loads(line) for key in keys(any_store) for line in gzip.decompress(any_store.get(key)).splitlines()]
    assert {"op": "c", "n": 7} in [line.get("value") for line in lines]
    assert [line for line in lines if isinstance(line.get("value"), str)] == []
    report = verify_backup(any_store, source="shop", table="orders", bronze_path=original.path, deep=True)
    assert (report.differences, report.unfinished, report.behind) == ((), (), 0)
    request = ask(any_store)
    restore_bronze(request, quietly)
    assert_same(original, request.path, "orders", "customers")


def test_the_asset_writes_as_its_source_declares(
    store: ObjectStore, original: Original, shop: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect is away: what is not of the tables is left for the next run."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    original.append("orders", rows(0, 3))
    backup = Backup.model_validate({"store": store.config, "hours": SINKS.hours, "values": SINKS.values})
    source = shop.model_copy(update={"backup": backup})
    away = "http://127.0.0.1:9"
    platform = Platform(lake_root=str(tmp_path / "was"), core_connect_url=away, lake_connect_url=away)
    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([build_backup_assets(source)], instance=instance, resources={"platform": platform}).success
    (key,) = keys(store)
    assert key.startswith(f"shop/orders/{datetime.fromtimestamp(NOON / 1e6, timezone.utc):%Y-%m-%d/%H}/")
    assert json.loads(gzip.decompress(store.get(key)).splitlines()[1])["value"] == {"op": "c", "n": 1}


def test_another_layout_from_now_on(store: ObjectStore, original: Original, ask: Ask) -> None:
    """Each batch is found, verified and restored by its own."""
    layouts = [None, SINKS, ObjectLayout("y={yyyy}/m={MM}/d={dd}/h={HH}"), ObjectLayout(values="json"), None]
    for number, layout in enumerate(layouts):
        original.append("orders", [row(0, 100 * number + n, timestamp=NOON + number * HOUR) for n in range(100)])
        back_up(store, original, layout)
    shapes = [key.removeprefix("shop/orders/").rsplit("/", 1)[0].count("/") for key in keys(store)]
    assert sorted(shapes) == [1, 1, 1, 1, 3]
    report = verify_backup(store, source="shop", table="orders", bronze_path=original.path, deep=True)
    assert (report.differences, report.manifests, report.records) == ((), 5, 500)
    request = ask(store)
    restore_bronze(request, quietly)
    assert_same(original, request.path, "orders")


def test_a_topic_is_read_through_all_layouts(store: ObjectStore, original: Original) -> None:
    for number, layout in enumerate((None, SINKS, ObjectLayout("h/{yyyy}/{MM}/{dd}/{HH}"))):
        original.append("orders", [row(0, 10 * number + n, timestamp=NOON + number * HOUR) for n in range(10)])
        back_up(store, original, layout)
    for number in range(3):
        kept = find_kept_topic(store, "shop", "orders", since_ms=(NOON + number * HOUR) // 1000)
        assert kept is not None
        assert [each.offset for each in kept.read()] == list(range(10 * number, 30))
        assert {p: last.value for p, last in kept.last_records().items()} == {0: row(0, 29)["value"]}


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.parametrize("dies_at", range(3, 9))
def test_a_batch_that_was_begun_keeps_its_layout(
    store: ObjectStore,
    original: Original,
    ask: Ask,
    dies_at: int,
) -> None:
    """Killed before or behind its plan, an object or its manifest, and then declared otherwise."""
    original.append("orders", rows(0, 50))
    with suppress(KilledError):  # the last of them comes behind its last step
        back_up(FaultyStore(store, dies_at=dies_at, after_effect=True), original, SINKS)
    planned = [each.key for each in store.list("shop/orders/_plans/")]
    back_up(store, original, None)
    (found,) = keys(store)
    assert found.startswith("shop/orders/dt=") == (not planned)
    report = verify_backup(store, source="shop", table="orders", bronze_path=original.path, deep=True)
    assert (report.differences, report.unfinished) == ((), ())
    request = ask(store)
    restore_bronze(request, quietly)
    assert_same(original, request.path, "orders")


@pytest.mark.parametrize("layout", [{"hours": "../{yyyy}{MM}{dd}{HH}"}, {"values": "xml"}, {"other": 1}, []])
def test_a_plan_of_an_impossible_layout_is_refused(layout: object) -> None:
    plan = BatchPlan("shop", "orders", "t", "id", 0, {0: (0, 5)}, 1, True, layout=SINKS)
    document = {**json.loads(plan.to_bytes()), "layout": layout}
    with pytest.raises(BackupError, match="k is no plan"):
        BatchPlan.from_bytes(json.dumps(document).encode(), key="k")


@pytest.mark.parametrize(
    "hours", ["{yyyy}-{MM}-{dd}/{HH}", "dt={yyyy}-{MM}-{dd}/hr={HH}", "{yyyy}{MM}{dd}{HH}", "raw/{yyyy}/{MM}/{dd}/{HH}"]
)
def test_patterns_of_hours(hours: str) -> None:
    assert Backup.model_validate({"store": STORE, "hours": hours, "values": "json"}).hours == hours
    assert ObjectLayout(hours).hour_folder(1_795_262_400_000) == hours.format(yyyy="2026", MM="11", dd="21", HH="12")


@pytest.mark.parametrize(
    ("hours", "why"),
    [
        ("{yyyy}-{MM}-{dd}", "once each and in this order"),
        ("{HH}/{yyyy}-{MM}-{dd}", "once each and in this order"),
        ("{yyyy}-{MM}-{dd}/{HH}/{HH}", "once each and in this order"),
        ("YYYY-MM-dd/HH", "once each and in this order"),
        ("{yyyy}-{MM}-{dd}/{HH}\n", "once each and in this order"),
        ("_manifests/{yyyy}{MM}{dd}{HH}", "begins with _"),
        ("{yyyy}/../{MM}/{dd}/{HH}", "begins with _ or a point"),
        ("/{yyyy}/{MM}/{dd}/{HH}", "no empty folder"),
        ("{yyyy}/{MM}/{dd}/{HH}/", "no empty folder"),
    ],
)
def test_what_is_no_pattern_of_hours(hours: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Backup.model_validate({"store": STORE, "hours": hours})


def test_the_years_of_a_wrong_clock() -> None:
    assert SINKS.hour_folder(1_795_262_400_000_000).startswith("58")
