"""The parts of the suite: a file is of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets_tests.parts import BREAKING, HOSTILE, LIVE, REST, SPARK, STACK, TESTS, parts_of


@dataclass
class Item:
    """What a part is told by."""

    path: Path
    fixturenames: tuple[str, ...]


def parts(*items: tuple[Path, tuple[str, ...]]) -> dict[Path, str]:
    made: list[Any] = [Item(*each) for each in items]
    return parts_of(made)


def test_a_file_is_of_the_part_that_starts_most() -> None:
    both, late, plain = (TESTS / "spark" / name for name in ("test_both.py", "test_late.py", "test_plain.py"))
    found = parts((both, ()), (both, ("live", "remote")), (both, ("live",)), (late, ()), (late, ("remote",)), (plain, ()))
    assert found == {both: LIVE, late: SPARK, plain: REST}
    chain, own, unit = (TESTS / name for name in ("e2e/test_it.py", "stack/test_own.py", "stack/unit/test_it.py"))
    world = TESTS / "hostile" / "test_it.py"
    assert parts((chain, ("lakehouse",)), (plain, ("live",)), (own, ()), (unit, ()), (world, ("live", "remote"))) == {
        chain: STACK,
        plain: LIVE,
        own: BREAKING,
        unit: REST,
        world: HOSTILE,
    }
