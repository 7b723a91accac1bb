"""A table whose epochs come and go: its change log and its topic, backed up as it grows, and what a restore has to give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from cdc_assets.backup.old_epochs import OldEpochs, TableInLake, find_old_epochs, remove_old_epochs
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets_tests.backup.bronze_tables import topic_of
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.original import NOON, Original, held, quietly, row, states
from spark.table.topic_commits import CommittedTopic

KEEP = timedelta(days=30)
DAY = 86_400.0
START = NOON / 1e6
"""Seconds since 1970, of the first record."""


@dataclass
class EpochHistory:
    """Of table `orders`, of one or two partitions; `day` is when the next records come."""

    original: Original
    store: ObjectStore
    epoch: int = 0
    day: float = 0.0
    topic_ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    read: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})

    def send(self, partition: int, count: int) -> None:
        """Records come into the topic; bronze has not read them yet."""
        self.topic_ends[partition] += count

    def begin_epoch(self, counts: Mapping[int, int], *, another_topic: bool = False) -> None:
        """The whole table is read again into the topic; bronze has read what was there before."""
        self.append()
        self.epoch += 1
        if another_topic:
            self.original.topic_id = f"topic-of-{self.epoch}"
            self.topic_ends, self.read = {0: 0, 1: 0}, {0: 0, 1: 0}
        for partition, count in counts.items():
            self.send(partition, count)

    def append(self, *, most: int = 1 << 30, markers: int = 0) -> None:
        """Bronze reads on, so many records of a partition at most."""
        rows, ranges = list[dict[str, Any]](), dict[int, tuple[int, int]]()
        for partition, end in self.topic_ends.items():
            start = self.read[partition]
            stop = min(end, start + most)
            rows += [self._row(partition, offset) for offset in range(start, stop)]
            if stop == end and markers:
                self.topic_ends[partition] = stop = end + markers
            ranges[partition], self.read[partition] = (start, stop), stop
        if any(end > start for start, end in ranges.values()) or self._epoch_of_bronze() < self.epoch:
            self.original.append("orders", rows, epoch=self.epoch, ranges=ranges)

    def _row(self, partition: int, offset: int) -> dict[str, Any]:
        at = int((START + self.day * DAY) * 1e6) + 1000 * offset
        position = f"{self.epoch:04x}.{offset:016x}.1.{offset:016x}.{offset:016x}"
        value = b'{"op":"c","n":%d,"epoch":%d}' % (offset, self.epoch)
        return row(partition, offset, timestamp=at, source_ts=at, position=position, value=value)

    def _epoch_of_bronze(self) -> int:
        state = self.state
        return -1 if state is None else state.epoch

    @property
    def state(self) -> CommittedTopic | None:
        return self.original.committed().topics.get(topic_of("orders"))

    def back_up(self, *, max_records: int = 500) -> None:
        self.original.back_up(self.store, "orders", max_records=max_records)

    def in_lake(self, **more: Any) -> TableInLake:
        told = (self.original.topic_id, dict(self.topic_ends))
        return TableInLake("shop", "orders", self.original.path, self.state, lambda: told, **more)

    def find(self, store: ObjectStore | None = None, *, note: bool = True, keep: timedelta = KEEP, **more: Any) -> OldEpochs:
        now = START + self.day * DAY
        return find_old_epochs(store or self.store, self.in_lake(**more), keep=keep, now=now, note=note)

    def expire(self, store: ObjectStore | None = None, **more: Any) -> OldEpochs:
        found = self.find(store, **more)
        remove_old_epochs(store or self.store, "shop", found)
        return found

    def rows_from(self, epoch: int) -> list[dict[str, Any]]:
        """What bronze has of that epoch and those after it, read by delta-rs."""
        return [each for each in held(self.original.path, "orders") if each["epoch"] >= epoch]

    def state_from(self, epoch: int) -> dict[str, CommittedTopic]:
        """What a log that begins with that epoch says of the topic."""
        (topic, state) = next(iter(states(self.original.path).items()))
        kept = {name: tuple(past for past in getattr(state, name) if past.epoch >= epoch) for name in ("before", "earlier")}
        return {topic: replace(state, **kept)}


def grow(history: EpochHistory) -> None:
    """Two epochs of one topic, 40 days apart, and 40 days more; the topic's newest records are of then."""
    history.send(0, 700)
    history.send(1, 300)
    history.append()
    history.back_up()
    history.day = 40
    history.begin_epoch({0: 600, 1: 50})
    history.append(markers=1)
    history.back_up()
    history.find()
    history.day = 80
    history.send(0, 20)
    history.append()
    history.back_up()


def keys(store: ObjectStore) -> list[str]:
    return [item.key for item in store.list("shop/orders/")]


def assert_restores(history: EpochHistory, ask: Ask, lake: str, epoch: int) -> None:
    """Bronze from that epoch on, rows and what its commits say, as it is in the lake."""
    request = ask(history.store, lake)
    restore_bronze(request, quietly)
    assert held(request.path, "orders") == history.rows_from(epoch)
    assert states(request.path) == history.state_from(epoch)


def assert_whole(history: EpochHistory) -> None:
    report = verify_backup(history.store, source="shop", table="orders", bronze_path=history.original.path, deep=True)
    assert (report.differences, report.unfinished, report.behind) == ((), (), 0)
