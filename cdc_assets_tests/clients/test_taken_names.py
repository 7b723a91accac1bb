"""Tables of Arrow and of delta-rs whose columns are called as names of ours are: Python is the oracle."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_assets.recovery.drill import compare_tables
from cdc_assets_tests.support.given_names import whole_names
from spark.silver.column_ledger import is_own_name
from spark.silver.row_fold import POSITION, newest_rows
from spark.silver.task_merge import _match

KEYS = [("row", "change"), ("rank", "row"), ("rank_max", "change"), ("n", "rank")]
TAKEN = [name for name in whole_names() if not is_own_name(name)]


def rows_of(keys: tuple[str, ...], numbers: list[int]) -> pa.Table:
    return pa.table({keys[0]: [n // 3 for n in numbers], keys[1]: [n % 3 for n in numbers]})


@pytest.mark.parametrize("keys", KEYS)
def test_rows_of_a_large_table_are_found_by_their_keys(keys: tuple[str, ...]) -> None:
    held, wanted = [*range(30)], [29, 4, 100, 17]
    rows, changes = _match(rows_of(keys, held), rows_of(keys, wanted), keys)
    assert [(held[row], wanted[change]) for row, change in zip(rows, changes, strict=True)] == [(4, 4), (17, 17), (29, 29)]


@pytest.mark.parametrize("keys", [*KEYS, ("rank",), ("rank_max",)])
def test_the_newest_change_of_each_key_is_taken(keys: tuple[str, ...]) -> None:
    numbers = [n % 7 for n in range(30)]
    changes = rows_of(keys, numbers) if len(keys) > 1 else pa.table({keys[0]: numbers})
    changes = changes.append_column(POSITION, pa.array([f"{n * 13 % 31:03}" for n in range(30)]))
    newest: dict[tuple[int, ...], str] = {}
    for row in changes.to_pylist():
        key = tuple(row[name] for name in keys)
        newest[key] = max(newest.get(key, ""), row[POSITION])
    found = newest_rows(changes, keys).to_pylist()
    assert {tuple(row[name] for name in keys): row[POSITION] for row in found} == newest
    assert len(found) == len(newest)


def test_two_tables_are_compared_whatever_their_columns_are_called(tmp_path: Path) -> None:
    """One row is there once more, and one has another value in one column."""
    names = [*TAKEN, "cdc_count", "a", "b"]
    whole = [{name: (place * 7 + number) % 5 for place, name in enumerate(names)} for number in range(20)]
    other = [*whole[:-1], {**whole[-1], "cdc_count": 99}, whole[0]]
    paths = [str(tmp_path / name) for name in ("first", "second")]
    for path, rows in zip(paths, (whole, other), strict=True):
        write_deltalake(path, pa.Table.from_pylist(rows))
    assert compare_tables((paths[0], 0), (paths[0], 0)).is_equal
    found = compare_tables((paths[0], 0), (paths[1], 0))
    assert (found.rows, found.only_first, found.only_second, found.columns) == (20, 4 + 4, 3 + 5 + 1, ())
