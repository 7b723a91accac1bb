"""Rows of snapshots taken while their table is written to, of every kind whose rows have a place in its source's log.

The truth is a dict. A snapshot reads it at one time and sends the rows later; what was written between the two is streamed
behind them, as Debezium does. An incremental snapshot leaves out what was written while its window was open.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS, SECOND = range(6), 1_700_000_000
LATER = 1_900_000_000_000
CHANGE, INITIAL, INCREMENTAL = "false", "true", "incremental"
Block = Callable[[int, str, int], dict[str, Any]]
"""The source block of an event by its place in the log (an initial snapshot's: where it was taken), its kind, and the time at
which it is sent; both count milliseconds."""


def mongodb(place: int, kind: str, sent: int) -> dict[str, Any]:
    """As the connector 3.6.1 writes it: a snapshot's rows have no time of their own but that of the sending, or of the last
    change, in whole seconds."""
    if kind == INITIAL:
        return {"ts_ms": SECOND * 1000 + sent, "ord": -1}
    whole = {"ts_ms": (SECOND + place // 1000) * 1000, "ord": 1 + place % 1000}
    moment = SECOND * 1000 + place
    return whole if kind == INCREMENTAL else {**whole, "ts_ms": moment, "wallTime": moment}


def sqlserver(place: int, kind: str, _: int) -> dict[str, Any]:
    lsn = f"0000002a:{place:08x}:0001"
    return {"commit_lsn": lsn, **({"change_lsn": lsn, "event_serial_no": 1} if kind == CHANGE else {})}


def oracle(place: int, kind: str, _: int) -> dict[str, Any]:
    return {"scn": str(place), **({} if kind == INITIAL else {"commit_scn": str(place)})}


def binlog(place: int, _: str, __: int) -> dict[str, Any]:
    return {"file": "binlog.000007", "pos": place, "row": 0}


def postgresql(place: int, kind: str, _: int) -> dict[str, Any]:
    last = str(place - 1 if kind == CHANGE else place)
    return {
        "lsn": None if kind == INCREMENTAL else place,
        "sequence": json.dumps([None if kind == INITIAL else last, str(place)]),
    }


@dataclass
class World:
    """A table under writes, and the topic of its connector."""

    random: Random
    block: Block
    truth: dict[int, str] = field(default_factory=dict)
    now: int = 400
    waiting: list[tuple[int, int, str | None]] = field(default_factory=list)
    """Changes that nobody has streamed: place, key, value or None."""
    streamed: int = 0
    records: list[Record] = field(default_factory=list)

    def write(self, times: int) -> None:
        for _ in range(times):
            key = self.random.choice(KEYS)
            self.now += self.random.choice((1, 1, 3, 250))
            gone = key in self.truth and self.random.random() < 0.3
            if gone:
                del self.truth[key]
            else:
                self.truth[key] = f"v{self.now}"
            self.waiting.append((self.now, key, self.truth.get(key)))

    def stream(self) -> None:
        """What was written until now."""
        for place, key, value in self.waiting:
            self._send("u" if value else "d", key, value, self.block(place, CHANGE, self.now))
            self.streamed = place
        self.waiting.clear()

    def snapshot(self) -> None:
        """Of the whole table, initial or blocking: the changes since its place in the log are streamed behind it."""
        self.now += 1
        place, read = self.now, dict(self.truth)
        self.write(4)
        for key in self.random.sample(sorted(read), len(read)):
            self.now += 1
            self._send("r", key, read[key], self.block(place, INITIAL, self.now), INITIAL)
        self.stream()

    def incremental(self) -> None:
        """One window: rows come behind what was written while it was open, less those of its keys."""
        self.stream()
        read = dict(self.truth)
        self.write(2)
        touched = {key for _, key, _ in self.waiting}
        self.stream()
        for key in sorted(read.keys() - touched):
            self._send("r", key, read[key], self.block(self.streamed, INCREMENTAL, self.now), INCREMENTAL)

    def _send(self, op: str, key: int, value: str | None, source: dict[str, Any], snapshot: str = CHANGE) -> None:
        row = None if value is None else {"id": key, "v": value}
        before = {"id": key, "v": None} if row is None else None
        event = {"op": op, "before": before, "after": row, "source": {**source, "snapshot": snapshot}}
        self.records.append(Record(len(self.records), json.dumps({"id": key}), json.dumps(event)))


def play(seed: int, block: Block) -> World:
    world = World(Random(seed), block)
    world.write(6)
    world.waiting.clear()
    world.snapshot()
    for step in world.random.choices((world.snapshot, world.incremental, lambda: world.write(5)), k=4):
        step()
    world.incremental()
    world.snapshot()
    world.write(3)
    world.stream()
    return world


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("mongodb", mongodb),
        *(
            pytest.param(*each, marks=pytest.mark.all)
            for each in (
                ("sqlserver", sqlserver),
                ("oracle", oracle),
                ("mariadb", binlog),
                ("mysql", binlog),
                ("postgresql", postgresql),
            )
        ),
    ],
)
def test_a_change_during_a_snapshot_wins_over_its_rows(session: SparkSession, tmp_path: Path, kind: str, block: Block) -> None:
    """However the log is cut into batches; several tables are several worlds."""
    lake = Lake(session, tmp_path, form=("debezium-json", kind))
    worlds = {f"t{seed}": play(seed, block) for seed in range(3)}
    for table, world in worlds.items():
        lake.put(table, *world.records)
    for share in (0.2, 0.5, 1.0):
        ends = {table: {0: int(len(world.records) * share)} for table, world in worlds.items()}
        lake.append(*[lake.ranges(table, end) for table, end in ends.items()])
    for table, world in worlds.items():
        lake.fold(lake.spec(table))
        assert {row["id"]: row["v"] for row in values(lake.spec(table).path)} == world.truth, table


def test_places_do_not_depend_on_how_the_log_was_cut(session: SparkSession, tmp_path: Path) -> None:
    world = play(7, mongodb)
    places = []
    for ends in ([len(world.records)], [5, 9, len(world.records)]):
        lake = Lake(session, tmp_path / str(len(ends)), form=("debezium-json", "mongodb"))
        lake.put("t", *world.records)
        for end in ends:
            lake.append(lake.ranges("t", {0: end}))
        places.append([row["position"] for row in sorted(rows(lake.bronze_path), key=lambda row: row["offset"])])
    assert places[0] == places[1] == sorted(places[0])


def test_a_snapshot_that_is_delivered_again_stays_below_the_changes(session: SparkSession, tmp_path: Path) -> None:
    """As by a mirror that begins anew: records keep the time at which they were first sent, of which the lake's tell seconds."""
    lake = Lake(session, tmp_path, form=("debezium-json", "mongodb"))
    world = World(Random(1), lambda place, kind, sent: mongodb(place, kind, sent) | {"wallTime": LATER + place})
    world.truth = {1: "old", 2: "old"}
    world.snapshot()
    world.write(9)
    world.truth[1], world.now = "new", world.now + 1000
    world.waiting.append((world.now, 1, "new"))
    world.stream()
    first = list(world.records)
    world.records += [Record(len(first) + r.offset, r.key, r.value) for r in first if '"op": "r"' in str(r.value)]
    lake.put("t", *world.records)
    for end in (len(first), len(world.records)):
        lake.append(lake.ranges("t", {0: end}))
        lake.fold(lake.spec("t"))
        assert {row["id"]: row["v"] for row in values(lake.spec("t").path)} == world.truth
