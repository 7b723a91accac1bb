"""A restore that is killed in any of its steps, and run again, is a restore that was not killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery import restored_bronze, row_groups
from cdc_assets.recovery.restore_point import RESTORED, THERE
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.original import TABLES, Original, assert_same, fill, quietly


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "_RECORDS", 600)


@pytest.mark.slow
@pytest.mark.parametrize("after_effect", [False, True])
def test_at_any_question_to_the_store(store: ObjectStore, original: Original, ask: Ask, after_effect: bool) -> None:
    fill(original)
    original.back_up(store, *TABLES)
    restore_bronze(ask(counted := FaultyStore(store), "counted", is_successor=True), quietly)
    for step in range(len(counted.done)):
        lake = f"killed-{step}"
        with pytest.raises(KilledError):
            restore_bronze(ask(FaultyStore(store, dies_at=step, after_effect=after_effect), lake), quietly)
        restore_bronze(ask(store, lake), quietly)
        assert_same(original, ask(store, lake).path, *TABLES)


def steps(patch: pytest.MonkeyPatch, act: Callable[[int], bool]) -> None:
    """Before and after each write into the lake `act` is asked with its number whether the process dies there."""
    number = iter(range(10_000))

    def around(place: Any, name: str) -> None:
        inner = getattr(place, name)

        def dying(*arguments: Any, **options: Any) -> Any:
            if act(next(number)):
                raise KilledError(f"before {name}")
            answer = inner(*arguments, **options)
            if act(next(number)):
                raise KilledError(f"after {name}")
            return answer

        patch.setattr(place, name, dying)

    around(restored_bronze, "write_rows")
    around(restored_bronze, "_commit")
    around(restored_bronze, "drop_unfinished")
    for name in ("keep", "note_state", "forget"):
        around(restored_bronze.KeptGroups, name)


@pytest.mark.slow
def test_at_any_write_into_the_lake(store: ObjectStore, original: Original, ask: Ask) -> None:
    fill(original)
    original.back_up(store, *TABLES)
    for step in killed_steps(store, ask):
        request = ask(store, f"killed-{step}", is_successor=True)
        with pytest.MonkeyPatch.context() as patch:
            steps(patch, lambda number, step=step: number == step)  # type: ignore[misc]
            with pytest.raises(KilledError):
                restore_bronze(request, quietly)
        outcomes = {each.outcome for each in restore_bronze(request, quietly)}
        assert outcomes in ({RESTORED}, {THERE})
        assert_same(original, request.path, *TABLES)


def killed_steps(store: ObjectStore, ask: Ask) -> Iterator[int]:
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        steps(patch, lambda number: bool(seen.append(number)))  # type: ignore[func-returns-value]
        restore_bronze(ask(store, "whole", is_successor=True), quietly)
    assert len(seen) > 20
    yield from seen


@pytest.mark.slow
def test_what_was_written_before_is_not_read_again(store: ObjectStore, original: Original, ask: Ask) -> None:
    fill(original)
    original.back_up(store, *TABLES)
    whole = FaultyStore(store)
    restore_bronze(ask(whole, "whole"), quietly)
    last = max(number for number, (_, key) in enumerate(whole.done) if key.endswith(".gz"))
    with pytest.raises(KilledError):
        restore_bronze(ask(FaultyStore(store, dies_at=last)), quietly)
    again = FaultyStore(store)
    restore_bronze(ask(again), quietly)
    objects = [[key for operation, key in each.done if operation == "get" and key.endswith(".gz")] for each in (whole, again)]
    assert len(objects[1]) < len(objects[0]) / 2
    assert_same(original, ask(store).path, *TABLES)
