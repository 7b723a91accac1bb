"""Fields of events by their order, where names belong to other columns than before; a job killed while values change places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.spark.types.test_types import event
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.envelopes.places import are_needed, numbers_of, orders_with
from spark.schema.column_ledger import PROPERTY
from spark.schema.evolution import set_properties
from spark.specs import Column, Order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWAP: tuple[Order, ...] = ((("id", 1), ("a", 2), ("b", 3)), (("id", 1), ("b", 2), ("a", 3)))
MOVED: tuple[Order, ...] = (
    (("id", 1), ("a", 2), ("f", 3), ("b", 4), ("e", 5)),
    (("id", 1), ("b", 2), ("a", 4), ("e_old", 5), ("e", 6), ("f", 7)),
)


@pytest.mark.parametrize(
    ("orders", "fields", "numbers"),
    [
        (SWAP, "id a b", [1, 2, 3]),
        (SWAP, "id b a", [1, 2, 3]),
        (SWAP, "id tmp b", [1, 2, 3]),
        (SWAP, "id tmp a", [1, 2, 3]),
        (SWAP, "id a b more", None),
        (MOVED, "id a f b e", [1, 2, 3, 4, 5]),
        (MOVED, "id b f tmp e", [1, 2, 3, 4, 5]),
        (MOVED, "id b f a e_old e", [1, 2, 3, 4, 5, 6]),
        (MOVED, "id b a e_old e", [1, 2, 4, 5, 6]),
        (MOVED, "id b a e_old e f", [1, 2, 4, 5, 6, 7]),
    ],
)
def test_the_columns_of_fields(session: SparkSession, orders: tuple[Order, ...], fields: str, numbers: list[int] | None) -> None:
    row = session.range(1).select(numbers_of(f"split('{fields}', ' ')", orders).alias("found")).first()
    assert row is not None
    assert row.found == numbers


def test_orders_are_kept_as_they_came() -> None:
    first, second = SWAP
    assert orders_with((), first, first) == ()
    assert orders_with((), first, second) == SWAP
    assert orders_with(SWAP, second, first) == (second, first)
    # A table made anew, or of a database without such numbers.
    assert orders_with(SWAP, (), second) == ()
    assert are_needed(SWAP)
    assert not are_needed([first, (("id", 1), ("a", 2), ("c", 3))])


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
