"""Fields of events by their order, where names belong to other columns than before; a job killed while values change places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from spark.events.field_columns import GONE, are_needed, numbers_of, orders_with
from spark.silver.column_ledger import PROPERTY
from spark.silver.schema_evolution import set_properties
from spark.specs import Column, Order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def order(after: str = "", **numbers: int) -> Order:
    return after, tuple(numbers.items())


SWAP = (order(id=1, a=2, b=3), order(id=1, b=2, a=3))
MOVED = (order(id=1, a=2, f=3, b=4, e=5), order(id=1, b=2, a=4, e_old=5, e=6, f=7))
NAMED = (order(id=1, a=2, f=3), order(id=1, a=2, b=4, f=5))
"""A column has gone, two have come, one of them by its name."""
GONE_LAST = (order(id=1, a=2), order(id=1, b=3))
PASSED = (order(id=1, a=2), order(id=1, a=2, c=4))
"""A column came and went."""


@pytest.mark.parametrize(
    ("orders", "fields", "numbers"),
    [
        (SWAP, "id a b", [1, 2, 3]),
        (SWAP, "id b a", [1, 2, 3]),
        (SWAP, "id tmp b", [1, 2, 3]),
        (SWAP, "id tmp a", [1, 2, 3]),
        (MOVED, "id a f b e", [1, 2, GONE, 4, 5]),
        (MOVED, "id b f tmp e", [1, 2, GONE, 4, 5]),
        (MOVED, "id b f a e_old e", [1, 2, GONE, 4, 5, 6]),
        (MOVED, "id b a e_old e", [1, 2, 4, 5, 6]),
        (MOVED, "id b a e_old e f", [1, 2, 4, 5, 6, 7]),
        (NAMED, "id tmp f", [1, 2, GONE]),
        (NAMED, "id new b", [1, 2, 4]),
        (NAMED, "id x", [1, 2]),
    ],
)
def test_the_columns_of_fields(session: SparkSession, orders: tuple[Order, ...], fields: str, numbers: list[int]) -> None:
    assert found(session, orders, fields) == [numbers]


@pytest.mark.parametrize(
    ("orders", "fields", "numbers"),
    [
        (SWAP, "id a b more", None),
        (NAMED, "id a x", [[1, 2, GONE], [1, 2, 4]]),
        # The one that is gone by another name, or the one that has come.
        (GONE_LAST, "id x", [[1, GONE], [1, 3]]),
        # The one that has come, or one that came and went.
        (PASSED, "id a x", [[1, 2, GONE], [1, 2, 4]]),
    ],
)
def test_fields_whose_columns_are_not_told(
    session: SparkSession, orders: tuple[Order, ...], fields: str, numbers: list[list[int]] | None
) -> None:
    assert found(session, orders, fields) == numbers


def test_events_that_silver_had_seen_are_older_than_a_change(session: SparkSession) -> None:
    """The same names are read by the columns of then: of the time before the look that found them changed."""
    swapped = (SWAP[0], order("5", id=1, a=3, b=4), order("7", id=1, a=3))
    assert [found(session, swapped, "id a b", at) for at in "469"] == [[[1, GONE, 3]], [[1, 3, GONE]], [[1, 3, GONE]]]
    assert [found(session, swapped, "id a", at) for at in "58"] == [None, [[1, 3]]]


def found(session: SparkSession, orders: tuple[Order, ...], fields: str, position: str = "1") -> list[list[int]] | None:
    row = session.range(1).select(numbers_of(f"split('{fields}', ' ')", orders, f"'{position}'").alias("found")).first()
    assert row is not None
    return row.found


def test_orders_are_kept_as_they_came() -> None:
    first, second = SWAP
    assert orders_with((), first, first) == ()
    assert orders_with((), first, second) == SWAP
    assert orders_with(SWAP, second, second) == SWAP
    assert orders_with(SWAP, second, first) == (*SWAP, first)
    # A column that the lake leaves out is in no order of the ledger's.
    assert orders_with(SWAP, first, second) == SWAP
    # A table made anew, or of a database without such numbers.
    assert orders_with(SWAP, order(), second) == ()
    assert are_needed(SWAP)
    assert not are_needed([first])


@pytest.mark.all
def test_values_change_places_once(session: SparkSession, tmp_path: Path) -> None:
    """Killed behind the exchange, before the ledger knew of it: the next run finds it done."""
    lake = Lake(session, tmp_path)
    before, after = (
        [Column("id", "integer", False, number=1), *(Column(name, "text", number=i) for i, name in enumerate(names, 2))]
        for names in ("ab", "ba")
    )
    rows: list[dict[str, Any]] = [{"id": i, "a": f"a{i}", "b": None if i == 2 else f"b{i}"} for i in (1, 2, 3)]
    lake.put("t", *[event(i, row) for i, row in enumerate(rows)])
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", before))
    spec = replace(lake.spec("t", after))
    ledger = _property(session, spec.path)
    # One of before, and one of behind the exchange.
    lake.put("t", event(3, {**rows[0], "a": "new"}, op="u"), event(4, {"id": 3, "b": None, "a": "b3"}, op="u"))
    lake.append(lake.all_of("t"))
    for _ in range(2):
        lake.fold(spec)
        found = [{name: row[name] for name in ("id", "b", "a")} for row in values(spec.path)]
        assert sorted(found, key=lambda row: row["id"]) == [
            {"id": 1, "b": "new", "a": "b1"},
            {"id": 2, "b": "a2", "a": None},
            {"id": 3, "b": None, "a": "b3"},
        ]
        set_properties(session, spec.path, {PROPERTY: ledger})


def _property(session: SparkSession, path: str) -> str:
    found = session.sql(f"SHOW TBLPROPERTIES delta.`{path}` ('{PROPERTY}')").first()
    assert found is not None
    return str(found.value)


@pytest.mark.all
def test_names_of_between_two_looks(session: SparkSession, tmp_path: Path) -> None:
    """A column comes under the name of one that goes, and gets another; one has a name that no look has seen."""
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 0, "a": "a0", "x": "x0", "z": "z0"}))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", named(id=1, a=2, x=3, z=4)))
    lake.put(
        "t",
        event(1, {"id": 1, "a": "a1", "x": "x1", "z": "z1"}),
        event(2, {"id": 2, "a": "a2", "z": "z2", "x": "y2"}),
        event(3, {"id": 3, "a": "a3", "z": "z3", "y": "y3", "came": "b3"}),
        event(4, {"id": 4, "tmp": "a4", "z": "z4", "y": "y4", "b": "b4"}),
        event(5, {"id": 5, "aa": "a5", "z": "z5", "y": "y5", "b": "b5"}),
        event(6, {"id": 0, "tmp": "changed", "z": "z0", "y": "y0", "b": "b0"}, op="u"),
    )
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", named(id=1, aa=2, z=4, y=5, b=6))
    lake.fold(spec)
    found = {row["id"]: tuple(row[name] for name in ("aa", "z", "y", "b", "x")) for row in values(spec.path)}
    assert found == {
        0: ("changed", "z0", "y0", "b0", None),
        1: ("a1", "z1", None, None, "x1"),
        2: ("a2", "z2", "y2", None, None),
        3: ("a3", "z3", "y3", "b3", None),
        4: ("a4", "z4", "y4", "b4", None),
        5: ("a5", "z5", "y5", "b5", None),
    }


@pytest.mark.all
def test_a_field_that_may_be_of_two_columns_is_told(session: SparkSession, tmp_path: Path) -> None:
    """The last column went and another came; under a name that no look has seen it may be either: nothing is guessed."""
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 0, "a": "a0"}))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", named(id=1, a=2)))
    lake.put("t", event(1, {"id": 1, "x": "b1"}), event(2, {"id": 2, "b": "b2"}))
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", named(id=1, b=3))
    lake.fold(spec)
    assert {row["id"]: row["b"] for row in values(spec.path)} == {0: None, 2: "b2"}
    ((offset, message),) = [(row["offset"], row["message"]) for row in rows(spec.quarantine)]
    assert offset == 1
    assert message.endswith("which of them the event's fields are cannot be told: id, x")


def named(**numbers: int) -> list[Column]:
    """The key, and texts."""
    return [Column(name, "integer" if name == "id" else "text", name != "id", number=n) for name, n in numbers.items()]
