"""A range of keys: what stays in a table. Oracle: Python's order of the same tuples, and delta-rs that reads what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.lake import Lake
from spark.errors import JobRefusedError
from spark.specs import Column, SilverSpec
from spark.upkeep.chosen_keys import check_wanted, keep_only
from spark.upkeep.replay_spec import WantedKeys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    *(Column("order", "bigint"), Column("line's", "text"), Column("price", "numeric(9,2)"), Column("at", "date")),
    *(Column("size", "numeric"), Column("raw", "bytea"), Column("v", "text")),
)
PAIR = ("order", "line's")
ROWS = [
    (order, line, Decimal(number) / 4, date(2026, 1, 1 + number % 28), str(number), b"x", f"v{number}")
    for number, (order, line) in enumerate((order, line) for order in (-3, 2, 9, 10, 100) for line in ("", "B", "a", "it's", "é"))
] + [
    (2, None, Decimal(0), date(2026, 1, 1), "0", b"x", "no line"),
    (None, "a", Decimal(1), date(2026, 1, 1), "0", b"x", "no order"),
]
Row = tuple[Any, ...]


@pytest.fixture
def spec(session: SparkSession, tmp_path: Path) -> SilverSpec:
    found = Lake(session, tmp_path).spec("t", COLUMNS, PAIR)
    types = "`order` bigint, `line's` string, price decimal(9,2), at date, size string, raw binary, v string"
    for path in (found.path, _history(found)):
        session.createDataFrame(ROWS, types).write.format("delta").save(path)
    return found


def _history(spec: SilverSpec) -> str:
    return f"{spec.path}_history"


def left(path: str) -> set[str]:
    return set(DeltaTable(path).to_pyarrow_table().column("v").to_pylist())


def _pair(row: Row) -> tuple[int, bytes] | None:
    return None if None in row[:2] else (row[0], row[1].encode())


CASES: list[tuple[tuple[str, ...], WantedKeys, Callable[[Row], bool]]] = [
    (("order",), WantedKeys(begin="9", end="10"), lambda row: row[0] in (9, 10)),
    (("order",), WantedKeys(begin="-3", end="9"), lambda row: row[0] in (-3, 2, 9)),
    (("order",), WantedKeys(begin="10"), lambda row: row[0] in (10, 100)),
    (("order",), WantedKeys(end='{"order": 2}'), lambda row: row[0] in (-3, 2)),
    (
        PAIR,
        WantedKeys(begin='{"order": 2, "line\'s": "a"}', end='{"order": 10, "line\'s": "it\'s"}'),
        lambda row: (pair := _pair(row)) is not None and (2, b"a") <= pair <= (10, b"it's"),
    ),
    (PAIR, WantedKeys(begin='{"order": 2}', end='{"order": 9}'), lambda row: row[0] in (2, 9)),
    (
        PAIR,
        WantedKeys(begin='{"order": 9}', end='{"order": 10, "line\'s": ""}'),
        lambda row: row[0] == 9 or row[:2] == (10, ""),
    ),
    (("line's",), WantedKeys(begin="B", end="it's"), lambda row: row[1] in ("B", "a", "it's")),
    (("line's",), WantedKeys(begin="z"), lambda row: row[1] == "é"),
    (("price",), WantedKeys(begin="2", end="10.25"), lambda row: Decimal(2) <= row[2] <= Decimal("10.25")),
    (("at",), WantedKeys(begin="2026-01-02", end="2026-01-10"), lambda row: 2 <= row[3].day <= 10),
]


@pytest.mark.all
@pytest.mark.parametrize(("keys", "wanted", "is_in"), CASES)
def test_a_range_stays(
    session: SparkSession, spec: SilverSpec, keys: tuple[str, ...], wanted: WantedKeys, is_in: Callable[[Row], bool]
) -> None:
    asked = replace(spec, keys=keys)
    check_wanted(session, asked, wanted)
    expected = {row[-1] for row in ROWS if is_in(row)}
    assert keep_only(session, asked, wanted, (asked.path, _history(asked), f"{asked.path}_none")) == len(expected)
    assert left(asked.path) == left(_history(asked)) == expected
    assert expected


@pytest.mark.parametrize(
    ("keys", "wanted", "message"),
    [
        (("order",), WantedKeys(begin="ten"), "table t: 'ten' is no value of its key column 'order' (bigint)"),
        (("order",), WantedKeys(begin="10", end="9"), "--from-key 10 lies above --to-key 9: no key is between them"),
        (PAIR, WantedKeys(begin='{"order": 3}', end='{"order": 2, "line\'s": "z"}'), "no key is between them"),
        (PAIR, WantedKeys(begin="3"), "'3' is no bound of a key: write"),
        (("size",), WantedKeys(end="9"), "its key column 'size' (numeric) is string in the lake, which has another order"),
        (("raw",), WantedKeys(end="9"), "its key column 'raw' (bytea) is binary in the lake, which has another order"),
    ],
)
def test_a_refusal_says_what_is_wrong(
    session: SparkSession, tmp_path: Path, keys: tuple[str, ...], wanted: WantedKeys, message: str
) -> None:
    asked = replace(Lake(session, tmp_path).spec("t", COLUMNS, keys), path=str(tmp_path / "none"))
    with pytest.raises(JobRefusedError) as raised:
        check_wanted(session, asked, wanted)
    assert message in str(raised.value)


@pytest.mark.all
def test_equal_bounds_are_one_key(session: SparkSession, spec: SilverSpec) -> None:
    one = WantedKeys(begin='{"order": 9, "line\'s": "a"}', end='{"order": 9, "line\'s": "a"}')
    check_wanted(session, spec, one)
    assert keep_only(session, spec, one, (spec.path,)) == 1
    assert left(spec.path) == {row[-1] for row in ROWS if row[:2] == (9, "a")}
