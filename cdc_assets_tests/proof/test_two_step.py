"""The rounds of the two-step method against a simulated source and lake: what is damaged is known, nothing else may be told."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from cdc_assets.proof.comparison_result import Suspects

KEYS = [f"{i};" for i in range(12)]
DAMAGED = {"0;", "1;", "2;", "3;"}


@dataclass
class Held:
    """What the lake answers of a key."""

    silver: dict[str, str] | None
    copies: int = 1
    hides: bool = False


@dataclass
class World:
    """A source that is written all the time, and a lake that has its log up to some point."""

    dice: random.Random
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    log: list[tuple[str, dict[str, str] | None]] = field(default_factory=list)

    def write(self, keys: list[str], count: int) -> None:
        for _ in range(count):
            key = self.dice.choice(keys)
            # Each value once: a row that goes to and fro is what the method cannot see.
            row = None if self.dice.random() < 0.2 else {"v": str(len(self.log))}
            self.log.append((key, row))
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row

    def lake(self, upto: int) -> dict[str, Any]:
        held: dict[str, Any] = {}
        for key, row in self.log[:upto]:
            held[key] = row
        return {key: Held(held.get(key)) for key in KEYS}


def damaged(lake: dict[str, Any]) -> dict[str, Any]:
    lost, stale, twice, phantom = sorted(DAMAGED)
    return {**lake, lost: Held(None), stale: Held({"v": "old"}), twice: Held(lake[twice].silver, 2), phantom: Held({"v": "gone"})}


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_confirmed_and_nothing_else(seed: int) -> None:
    world = World(random.Random(seed))
    for key in KEYS:
        world.log.append((key, {"v": f"first {key}"}))
        world.rows[key] = {"v": f"first {key}"}
    phantom = max(DAMAGED)
    world.log.append((phantom, None))
    del world.rows[phantom]
    busy = [key for key in KEYS if key not in DAMAGED]
    suspects = Suspects(set(KEYS))
    for number in range(60):
        load = 0 if number > 50 else world.dice.randrange(12)
        before, carried = dict(world.rows), len(world.log)
        world.write(busy, load)
        lake = damaged(world.lake(world.dice.randint(carried, len(world.log))))
        world.write(busy, load)
        suspects.judge(before, lake, dict(world.rows))
    assert set(suspects.confirmed) == DAMAGED
    assert not suspects.pending


def test_a_row_that_changes_in_every_round_is_neither() -> None:
    suspects = Suspects({"k"})
    for number in range(9):
        lake: dict[str, Any] = {"k": Held({"v": f"{number} b"})}
        suspects.judge({"k": {"v": f"{number} a"}}, lake, {"k": {"v": f"{number} c"}})
    assert (suspects.pending, suspects.confirmed) == ({"k"}, {})


def test_a_key_that_the_source_cannot_tell_of_is_neither() -> None:
    suspects = Suspects({"k"})
    for _ in range(3):
        suspects.judge({}, {"k": Held({"v": "a"})}, {}, ["k"])
    assert (suspects.pending, suspects.confirmed) == ({"k"}, {})
