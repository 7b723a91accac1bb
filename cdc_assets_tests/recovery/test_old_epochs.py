"""Epochs go from a backup when a later one is whole in it and old enough; what is restored from then on is what was there."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.backup.object_layout import base_key, reading_key
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restore_point import restore_points
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.epoch_history import DAY, START, EpochHistory, assert_restores, assert_whole, grow, keys
from cdc_assets_tests.recovery.original import Original, held, quietly


@pytest.fixture
def history(original: Original, any_store: ObjectStore) -> EpochHistory:
    return EpochHistory(original, any_store)


def test_an_epoch_that_ended_long_ago_goes(history: EpochHistory, ask: Ask) -> None:
    grow(history)
    before = {item.key: item.size for item in history.store.list("shop/orders/")}
    found = history.expire()
    assert found.base is not None
    assert (found.base.epoch, found.base.records_total, found.reason) == (1, 1000, "")
    assert found.base.earliest == "2026-12-31T13:00:00+00:00", "the hour of the last record of the reading is over then"
    after = keys(history.store)
    assert {*before} - {*after} == {*found.keys}
    assert sum(before[key] for key in found.keys) == found.bytes > 0
    assert not [key for key in after if "/0000" in key or "orders+0+" in key]
    assert_whole(history)
    assert_restores(history, ask, "after", 1)
    again = history.expire()
    assert (again.keys, again.base) == ((), None), "nothing is looked at any more"
    history.day = 81
    history.send(1, 30)
    history.append()
    history.back_up()
    assert_whole(history)
    assert_restores(history, ask, "later", 1)


def test_a_reading_that_is_not_whole_in_the_backup_holds_all(history: EpochHistory, ask: Ask) -> None:
    """Bronze has begun the epoch by a part of it, and time goes by."""
    history.send(0, 900)
    history.append()
    history.begin_epoch({0: 800, 1: 40})
    history.append(most=300)
    history.back_up()
    history.day = 200
    before = keys(history.store)
    assert history.find(note=False).reason == "the reading that epoch 1 begins with is not whole in the backup yet"
    assert keys(history.store) == before, "what is only asked for is not noted"
    assert history.expire().base is None
    history.send(0, 10)
    history.append()
    assert history.expire().reason.startswith("the reading that epoch 1"), "bronze has it, and the backup has not"
    history.back_up()
    assert {*before} < {*keys(history.store)}
    assert history.expire().reason.startswith("what stands before the end of epoch 1's reading has records up to")
    history.day = 240
    found = history.expire()
    assert found.base is not None
    assert found.base.epoch == 1
    assert_restores(history, ask, "after", 1)


def test_an_epoch_that_has_begun_holds_those_before_it(history: EpochHistory) -> None:
    grow(history)
    history.begin_epoch({})
    history.append()
    before = keys(history.store)
    told = "the backup has records up to epoch 1, and epoch 2 has begun"
    assert history.expire().reason.startswith(told), "in bronze"
    history.back_up()
    history.day = 300
    assert history.expire().reason.startswith(told), "it has no record, and nobody knows whether it will"
    assert {*before} <= {*keys(history.store)}
    history.send(1, 5)
    history.append()
    history.back_up()
    assert history.expire().base is not None
    assert_whole(history)


@pytest.mark.parametrize(("keep", "epoch"), [(39, 1), (41, None)])
def test_the_time_counts_from_the_end_of_the_reading(history: EpochHistory, keep: int, epoch: int | None) -> None:
    grow(history)
    found = history.expire(keep=timedelta(days=keep))
    assert (found.base.epoch if found.base else None) == epoch
    assert (found.reason == "") is (epoch is not None)
    if epoch is None:
        assert found.reason == "what stands before the end of epoch 1's reading has records up to 2026-12-31 13:00"


def test_offsets_of_markers_alone_hold_nothing(history: EpochHistory) -> None:
    """They are in no batch, and a quiet table gets no other."""
    history.send(0, 100)
    history.append()
    history.begin_epoch({0: 50})
    history.append()
    history.back_up()
    history.append(markers=7)
    history.topic_ends[0] += 7
    history.read[0] = history.topic_ends[0]
    history.original.append("orders", [], epoch=1, ranges={0: (history.topic_ends[0] - 7, history.topic_ends[0]), 1: (0, 0)})
    history.back_up()
    history.day = 60
    assert history.expire().base is not None


def test_a_topic_that_was_made_again(history: EpochHistory, ask: Ask) -> None:
    grow(history)
    history.begin_epoch({0: 400, 1: 10}, another_topic=True)
    history.append()
    history.back_up()
    history.find()
    history.day = 200
    history.send(0, 3)
    history.append()
    history.back_up()
    found = history.expire()
    assert found.base is not None
    assert found.base.epoch == 2
    assert [key for key in keys(history.store) if "_bases" in key] == [base_key("shop", "orders", 2)]
    assert_whole(history)
    assert_restores(history, ask, "after", 2)


def test_a_topic_that_bronze_does_not_know_tells_nothing(history: EpochHistory) -> None:
    history.send(0, 10)
    history.append()
    history.begin_epoch({0: 10})
    history.append()
    history.back_up()
    history.day = 100
    history.original.topic_id = "of somebody else"
    assert history.expire().reason.startswith("the lake's topic is gone, or another one")
    assert reading_key("shop", "orders", 1) not in keys(history.store)


def test_what_would_stay_is_verified_first(original: Original, store: ObjectStore, root: Path) -> None:
    history = EpochHistory(original, store)
    grow(history)
    victim = next(root.rglob("*orders+1+0+*.gz"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-9])
    before = keys(store)
    assert f"{victim.relative_to(root)} has" in history.expire().reason
    assert keys(store) == before
    victim.write_bytes(data)
    next(root.rglob("*orders+0+0+*.gz")).unlink()
    assert history.expire().base is not None, "what would go anyway may be damaged"


def test_a_restore_to_before_is_refused(history: EpochHistory, ask: Ask, shop: Source) -> None:
    grow(history)
    moment = datetime.fromtimestamp(START + 40 * DAY, timezone.utc)
    early = restore_points(history.store, shop, [shop.table("orders")], moment.isoformat())
    assert early["orders"].text == moment.isoformat()
    history.expire()
    [orders] = [table for table in shop.tables if table.name == "public.orders"]
    for text in (moment.isoformat(), "0000.ffff", (moment - timedelta(days=9)).isoformat()):
        with pytest.raises(
            RefusalError,
            match=r"epoch 1, and the earliest moment is 2026-12-31T13:00:00\+00:00 .*--to 2026-12-31T13:00:00\+00:00",
        ):
            restore_points(history.store, shop, [orders], text)
    points = restore_points(history.store, shop, [orders], "2026-12-31T13:00:00+00:00")
    request = ask(history.store, "then", points=points)
    restore_bronze(request, quietly)
    assert held(request.path, "orders") == [row for row in history.rows_from(1) if row["offset"] < 1300]
    assert restore_points(history.store, shop, [orders], "0001.ffff")["orders"].text == "0001.ffff"


def _lose_base(root: Path) -> None:
    (root / base_key("shop", "orders", 1)).unlink()


def _change_base(root: Path) -> None:
    file = root / base_key("shop", "orders", 1)
    file.write_bytes(file.read_bytes().replace(b'"records_total":1000', b'"records_total":1001'))


def _lose_first(root: Path) -> None:
    min((root / "shop/orders/_manifests").iterdir()).unlink()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_lose_base, "gap in partition 0: it begins at offset 700, the one before ended at 0"),
        (_change_base, "_bases/0001.json has another content than the digest in it says"),
        (_lose_first, "gap in partition 0: it begins at offset"),
    ],
)
def test_the_chain_begins_at_the_base(
    original: Original, store: ObjectStore, root: Path, damage: Any, sentence: str, ask: Ask
) -> None:
    history = EpochHistory(original, store)
    grow(history)
    history.expire()
    assert_whole(history)
    damage(root)
    report = verify_backup(store, source="shop", table="orders", bronze_path=original.path)
    assert re.search(sentence, " ".join(report.differences)), report.differences
    (outcome, _) = restore_bronze(ask(store), quietly)
    assert (outcome.outcome, bool(outcome.damage)) == ("damaged", True)
