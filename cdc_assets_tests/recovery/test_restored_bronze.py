"""Bronze from its backup: the same rows, as delta-rs reads them, and the same word of its commits."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest

from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restore_point import EMPTY, RESTORABLE, RESTORED, THERE, RestoreRequest
from cdc_assets.recovery.restored_bronze import plan_bronze, restore_bronze
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.original import ODD, TABLES, Original, assert_same, fill, held, quietly, row, rows, states
from cdc_assets_tests.support.servers.endpoints import Endpoint


@pytest.mark.service
def test_rows_and_commits_are_the_same(any_store: ObjectStore, original: Original, ask: Ask) -> None:
    fill(original)
    original.back_up(any_store, *TABLES)
    request = ask(any_store)
    assert [each.outcome for each in plan_bronze(request, quietly)] == [RESTORABLE, RESTORABLE]
    said: list[str] = []
    found = restore_bronze(request, said.append)
    assert [(each.table, each.outcome, each.records, each.damage) for each in found] == [
        ("orders", RESTORED, len(held(original.path, "orders")), ()),
        ("customers", RESTORED, 1200, ()),
    ]
    assert_same(original, request.path, *TABLES)
    assert said[-1] == "customers: 1200 records, 1 of 1 row group"
    assert [each.outcome for each in restore_bronze(request, quietly)] == [THERE, THERE]


@pytest.mark.service
def test_into_a_lake_in_an_object_store(
    s3_endpoint: Endpoint, store: ObjectStore, original: Original, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_endpoint.environment.items():
        monkeypatch.setenv(name, value)
    fill(original)
    original.back_up(store, *TABLES)
    lake = f"s3a://{s3_endpoint.config.bucket}/{uuid.uuid4().hex}"
    orders, customers = ask(store).tables
    for tables in ([orders], [customers]):
        request = RestoreRequest(ask(store).source, tables, store, lake)
        assert [each.outcome for each in restore_bronze(request, quietly)] == [RESTORED]
        assert [each.outcome for each in restore_bronze(request, quietly)] == [THERE]
    assert_same(original, request.path, *TABLES)


def test_a_backup_that_ends_in_the_middle_of_a_batch_of_bronze(store: ObjectStore, original: Original, ask: Ask) -> None:
    """The backup of before is restored; what came since is what the next append reads."""
    original.append("orders", rows(0, 40))
    original.back_up(store, "orders")
    original.append("orders", rows(40, 2))
    request = ask(store)
    restore_bronze(request, quietly)
    (state,) = states(request.path).values()
    assert (state.positions, state.records) == ({0: 40}, 40)


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["the same", "made again", "behind a hole"])
def test_epochs_go_on(store: ObjectStore, original: Original, ask: Ask, topic: str) -> None:
    """As the log counts them: those in one topic, those of a topic that was made again, and one that has no record yet."""
    original.append("orders", rows(0, 700), ends={0: 702}, snapshots={0: 5})
    if topic == "made again":
        original.topic_id = "topic-id-2"
    starts = {"the same": 702, "made again": 0, "behind a hole": 900}[topic]
    again = rows(starts, 30, position=f"0001.{1:016x}.1.{1:016x}.{1:016x}")
    original.append("orders", again, epoch=1, ranges={0: (starts, starts + 30)}, schema_ids={"key": [1], "value": [2, 3]})
    original.back_up(store, "orders")
    original.append("orders", [], epoch=2, ranges={0: (starts + 30, starts + 31)})
    original.back_up(store, "orders")
    request = ask(store)
    restore_bronze(request, quietly)
    assert_same(original, request.path, "orders")
    assert next(iter(states(request.path).values())).epoch == 2
    report = verify_backup(store, source="shop", table="orders", bronze_path=request.path, deep=True)
    assert (report.differences, report.behind) == ((), 0)


def test_a_table_that_never_had_a_record_is_known(store: ObjectStore, original: Original, ask: Ask) -> None:
    original.append("orders", [], ends={0: 0})
    original.back_up(store, "orders")
    request = ask(store)
    assert [each.outcome for each in restore_bronze(request, quietly)] == [RESTORED, EMPTY]
    assert states(request.path) == states(original.path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_any_log_comes_back(store: ObjectStore, original: Original, ask: Ask, seed: int) -> None:
    """Appends, backups of any size in between, and new topics, at random."""
    dice = random.Random(seed)
    at, epoch = {0: 0, 1: 0}, 0
    for _ in range(12):
        if dice.random() < 0.2:
            epoch += 1
            if dice.random() < 0.5:
                original.topic_id, at = f"topic-{epoch}", {0: 0, 1: 0}
        new: list[dict[str, Any]] = []
        for partition in (0, 1):
            place = {"position": f"{epoch:04x}.{dice.randrange(9):016x}.1"}
            records = range(at[partition], at[partition] + dice.randrange(90))
            new += [row(partition, offset, **place | dice.choice(({}, *ODD))) for offset in records]
        starts = dict(at)
        at = {p: starts[p] + sum(each["partition"] == p for each in new) + dice.randrange(3) for p in at}
        original.append("orders", new, epoch=epoch, ranges={p: (starts[p], at[p]) for p in at})
        if dice.random() < 0.4:
            original.back_up(store, "orders", max_records=dice.choice((1, 500, 10_000)))
    original.back_up(store, "orders")
    request = ask(store)
    restore_bronze(request, quietly)
    assert held(request.path, "orders") == held(original.path, "orders")
    (found,), (told,) = states(request.path).values(), states(original.path).values()
    assert found == told or (found.positions != told.positions and not held(original.path, "orders"))


def test_what_is_there_is_never_touched(store: ObjectStore, original: Original, ask: Ask) -> None:
    fill(original)
    original.back_up(store, *TABLES)
    beside = Original(ask(store).path)
    beside.append("orders", rows(0, 3))
    before = held(beside.path, "orders")
    for act in (plan_bronze, restore_bronze):
        with pytest.raises(RefusalError, match=r"holds 3 records of orders already.*cdc restore shop orders --into FOLDER"):
            act(ask(store), quietly)
    assert held(beside.path, "orders") == before
    assert held(beside.path, "customers") == []


def test_a_table_comes_beside_those_that_are_there(store: ObjectStore, original: Original, ask: Ask) -> None:
    fill(original)
    original.back_up(store, *TABLES)
    request = ask(store)
    orders, customers = request.tables
    for table in (customers, orders):
        restore_bronze(RestoreRequest(request.source, [table], store, request.lake), quietly)
    assert_same(original, request.path, *TABLES)


def test_the_backup_goes_on_behind_what_is_restored(store: ObjectStore, original: Original, ask: Ask) -> None:
    """A plan that the lost lake has left is of a batch that nobody will finish."""
    fill(original)
    original.back_up(store, *TABLES)
    store.put("shop/orders/_plans/0000-00000000000000001611.json", plan_of_a_lost_batch())
    request = ask(store, is_successor=True)
    restore_bronze(request, quietly)
    restored = Original(request.path)
    restored.append("orders", rows(909, 20))
    restored.back_up(store, *TABLES)
    for table in TABLES:
        report = verify_backup(store, source="shop", table=table, bronze_path=request.path, deep=True)
        assert (report.differences, report.unfinished, report.behind) == ((), (), 0)


def test_a_backup_looks_at_all_of_a_bronze_whose_versions_begin_again(store: ObjectStore, original: Original, ask: Ask) -> None:
    """Version 2 of the lost one is not that of the restored one: what came up to there is new to the backup."""
    for offset in range(0, 30, 10):
        original.append("orders", rows(offset, 10))
    original.back_up(store, "orders")
    request = ask(store, is_successor=True)
    restore_bronze(request, quietly)
    restored = Original(request.path)
    for offset in range(30, 80, 10):
        restored.append("orders", rows(offset, 10))
    restored.back_up(store, "orders")
    report = verify_backup(store, source="shop", table="orders", bronze_path=request.path, deep=True)
    assert (report.differences, report.records, report.behind) == ((), 80, 0)


def plan_of_a_lost_batch() -> bytes:
    from cdc_assets.backup.manifest import BatchPlan

    ranges = {0: (909, 990), 1: (707, 800)}
    return BatchPlan("shop", "orders", "core.shop.public.orders", "topic-id-1", 0, ranges, 4000, True).to_bytes()
