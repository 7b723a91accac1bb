"""The removal of epochs is killed anywhere, and others work at the same time: the backup is what it was, or what it is to be."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.backup.manifest_chain import find_base
from cdc_assets.backup.old_epochs import remove_old_epochs
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.recovery.topic_plan import find_kept_topic
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.epoch_history import DAY, KEEP, START, EpochHistory, assert_restores, assert_whole, grow, keys
from cdc_assets_tests.recovery.original import Original, held, quietly, states
from spark.table.topic_commits import CommittedTopic

pytestmark = pytest.mark.all


def dies(at: int) -> Callable[[str, str], None]:
    """From the n-th question to the store on, whoever asks: nobody of the process is left."""
    number = iter(range(1 << 30))

    def act(operation: str, key: str) -> None:
        if next(number) >= at:
            raise KilledError(f"before {operation} {key}")

    return act


def _count(history: EpochHistory) -> int:
    counted = FaultyStore(history.store)
    history.find(counted)
    return len(counted.done)


@pytest.mark.slow
def test_at_any_question_to_the_store(original: Original, any_store: ObjectStore, ask: Ask) -> None:
    history = EpochHistory(original, any_store)
    grow(history)
    before, looked, seen = keys(any_store), _count(history), set[int]()
    for step in range(10_000):
        try:
            history.expire(FaultyStore(any_store, at_each=dies(step)))
        except KilledError:
            base = find_base(any_store, "shop", "orders")
            seen.add(base.epoch if base else 0)
            if base is None:
                assert keys(any_store) == before
            if step < looked - 1 and step % 7:
                continue
            assert_whole(history)
            assert_restores(history, ask, f"killed-{step}", base.epoch if base else 0)
            topic = find_kept_topic(any_store, "shop", "orders", since_ms=0)
            assert topic is not None
            topic.check()
            continue
        break
    assert seen == {0, 1}
    assert step > looked, "it was killed between the base and the last object"
    assert not [key for key in keys(any_store) if "/0000" in key or "orders+0+" in key]
    assert_whole(history)
    assert_restores(history, ask, "whole", 1)


def test_leftovers_are_not_foreign_and_go(original: Original, store: ObjectStore, root: Path, tmp_path: Path) -> None:
    """As after a kill between the base and the first object; with what an old run may still write."""
    history = EpochHistory(original, store)
    grow(history)
    shutil.copytree(root, tmp_path / "before")
    history.expire()
    shutil.copytree(tmp_path / "before", root, dirs_exist_ok=True)
    assert_whole(history)
    found = history.expire()
    assert len(found.keys) > 5
    assert not [key for key in keys(store) if "/0000" in key or "orders+0+" in key]


def test_what_is_foreign_stays_and_is_named(original: Original, store: ObjectStore, root: Path) -> None:
    history = EpochHistory(original, store)
    grow(history)
    foreign = ["shop/orders/dt=2026-01-01/hr=01/other+0+0+00000000000000000000.json.gz", "shop/orders/_manifests/note.txt"]
    for key in foreign:
        store.put(key, b"who am I")
    assert all(key in history.expire().reason for key in foreign)
    for key in foreign:
        store.delete(key)
    history.expire()
    for key in foreign:
        store.put(key, b"who am I")
    report = verify_backup(store, source="shop", table="orders", bronze_path=original.path)
    assert sorted(report.differences) == sorted(f"{key} is in no manifest" for key in foreign)


@pytest.mark.parametrize("at", ["list", "put_if_absent", "delete"])
def test_a_backup_and_a_removal_beside_each_other(original: Original, any_store: ObjectStore, ask: Ask, at: str) -> None:
    history = EpochHistory(original, any_store)
    grow(history)
    history.send(0, 900)
    history.append()
    met = list[str]()

    def back_up_once(operation: str, key: str) -> None:
        if operation == at and not met:
            met.append(key)
            history.back_up(max_records=200)

    history.expire(FaultyStore(any_store, at_each=back_up_once))
    assert met
    history.back_up()
    assert find_base(any_store, "shop", "orders") is not None
    assert_whole(history)
    assert_restores(history, ask, "after", 1)


def test_two_removals_of_different_days(original: Original, any_store: ObjectStore, ask: Ask) -> None:
    """One has decided for epoch 1, and goes on when the other has made epoch 2 the first."""
    history = EpochHistory(original, any_store)
    grow(history)
    slow = history.find()
    assert slow.base is not None
    history.begin_epoch({0: 300})
    history.append()
    history.back_up()
    history.find()
    history.day = 200
    history.send(0, 1)
    history.append()
    history.back_up()
    assert history.expire().base is not None
    remove_old_epochs(any_store, "shop", slow)
    base = find_base(any_store, "shop", "orders")
    assert base is not None
    assert base.epoch == 2, "the highest counts"
    assert_whole(history)
    assert_restores(history, ask, "after", 2)


def _told(found: dict[str, CommittedTopic]) -> list[tuple[int, int]]:
    """Each epoch with its records: where a partition ends in markers alone, no batch says it."""
    return [(each.epoch, each.records) for state in found.values() for each in (*state.before, *state.earlier, state)]


class Course:
    """A random one; what may go is told by the rows and by where each reading ended, not by the product."""

    def __init__(self, seed: int, history: EpochHistory) -> None:
        self.choice, self.history = random.Random(seed), history
        self.readings: dict[int, dict[int, int]] = {}
        self.first = self.went = self.killed = 0

    def step(self) -> None:
        act = self.choice.choices(
            [self.send, self.append, self.back_up, self.wait, self.begin, self.expire], weights=[4, 4, 4, 3, 2, 6]
        )[0]
        act()

    def send(self) -> None:
        self.history.send(self.choice.randrange(2), self.choice.randrange(1, 60))

    def append(self) -> None:
        self.history.append(most=self.choice.choice([20, 1 << 30]), markers=self.choice.choice([0, 0, 3]))

    def back_up(self) -> None:
        self.history.back_up(max_records=self.choice.choice([30, 500]))

    def wait(self) -> None:
        self.history.day += self.choice.choice([1, 20, 35])

    def begin(self) -> None:
        counts = {p: self.choice.randrange(1, 80) for p in self.choice.sample([0, 1], self.choice.randrange(3))}
        self.history.begin_epoch(counts, another_topic=self.choice.random() < 0.3)
        self.readings[self.history.epoch] = dict(self.history.topic_ends)
        self.history.append(most=self.choice.choice([20, 1 << 30]))

    def expire(self) -> None:
        store = FaultyStore(self.history.store, at_each=dies(self.choice.choice([self.choice.randrange(1, 40), 1 << 30])))
        try:
            self.history.expire(store)
        except KilledError:
            self.killed += 1
        base = find_base(self.history.store, "shop", "orders")
        if base is None or base.epoch == self.first:
            return
        self.assert_allowed(base.epoch)
        self.first, self.went = base.epoch, self.went + 1

    def assert_allowed(self, epoch: int) -> None:
        until, ends = START + self.history.day * DAY - KEEP.total_seconds(), self.readings[epoch]
        assert epoch > self.first
        for row in held(self.history.original.path, "orders"):
            of_reading = row["epoch"] == epoch and row["offset"] < ends[row["partition"]]
            assert row["timestamp"].timestamp() < until or not (row["epoch"] < epoch or of_reading)
        newest = self.history.state
        assert newest is not None
        assert all(newest.positions[p] >= end for p, end in self.readings[newest.epoch].items()), "the newest reading is whole"

    def end(self, ask: Ask) -> None:
        self.history.append()
        self.history.back_up()
        self.expire()
        assert_whole(self.history)
        request = ask(self.history.store)
        restore_bronze(request, quietly)
        assert held(request.path, "orders") == self.history.rows_from(self.first)
        assert _told(states(request.path)) == _told(self.history.state_from(self.first))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.all) for n in range(6, 60))])
def test_any_course_of_epochs_days_and_kills(seed: int, original: Original, store: ObjectStore, ask: Ask) -> None:
    course = Course(seed, EpochHistory(original, store))
    course.history.send(0, 50)
    course.history.append()
    for _ in range(60):
        course.step()
    course.end(ask)
    assert course.history.epoch > 0
