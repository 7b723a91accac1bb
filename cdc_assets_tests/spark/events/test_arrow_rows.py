"""Rows of Arrow tables: kept, sorted, and numbers as hexadecimal text; Python's own sort and format are the oracle."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from spark.events.arrow_records import is_sorted, keep_rows, sort_rows, write_hexadecimal


@pytest.mark.parametrize("seed", range(20))
def test_sorted_as_python_sorts(seed: int) -> None:
    choice = random.Random(seed)
    rows = [{"a": choice.choice("xyz"), "b": choice.randrange(3)} for _ in range(choice.choice((0, 1, 2, 3, 30)))]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("a", pa.string()), ("b", pa.int64())]))
    wanted = sorted(rows, key=lambda row: (row["a"], row["b"]))
    assert is_sorted(table, ["a", "b"]) == (rows == wanted)
    assert sort_rows(table, ["a", "b"]).to_pylist() == wanted
    ordered = pa.Table.from_pylist(wanted, schema=table.schema)
    assert sort_rows(pa.concat_tables([ordered.slice(0, 2), ordered.slice(2)]), ["a", "b"]).to_pylist() == wanted


def test_what_is_not_copied() -> None:
    table = pa.table({"a": [1, 2]})
    assert keep_rows(table, pa.array([True, True])) is table
    assert keep_rows(table, pa.array([True, None])).to_pylist() == [{"a": 1}]
    assert sort_rows(table, ["a"]) is table


@pytest.mark.parametrize("digits", [4, 8, 16])
def test_hexadecimal_as_python_writes_it(digits: int) -> None:
    numbers = [0, 1, None, 255, 16**digits // 2 - 1]
    assert write_hexadecimal(pa.array(numbers, pa.int64()), digits).to_pylist() == [
        None if n is None else f"{n:0{digits}x}" for n in numbers
    ]
    assert write_hexadecimal(pa.array([], pa.int64()), digits).to_pylist() == []
