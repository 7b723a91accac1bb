"""Rows of chosen keys made again in a table with a column for each name that our code gives: what was sent is the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.lake.replayed import ReplayedTable
from cdc_assets_tests.support.taken_names import taken_names, values_of
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# delta-rs, which breaks the table, does not write one with a blank in a name.
NAMES = [name for name in taken_names() if " " not in name]
ROWS = {number: dict(zip(("id", *NAMES), [number, *values_of(number, NAMES)], strict=True)) for number in range(1, 9)}


@pytest.mark.parametrize("keys", [pytest.param(("id",), marks=pytest.mark.all), ("cdc_gone", "id", "w_0")])
def test_rows_of_chosen_keys_are_what_was_sent(session: SparkSession, tmp_path: Path, keys: tuple[str, ...]) -> None:
    columns = tuple(Column(name, "integer", name not in keys) for name in ("id", *NAMES))
    table = ReplayedTable(session, tmp_path, columns=columns, keys=keys, has_history=False)
    table.send(*(event(number, row) for number, row in ROWS.items()))
    assert {row["id"]: row for row in values(table.spec.path)} == ROWS
    for name in ("cdc_gone", "w_0", "gone"):
        if name not in keys:
            DeltaTable(table.spec.path).update(predicate="id = 3", updates={name: "77"})
    DeltaTable(table.spec.path).delete("id = 5")
    chosen = tuple(str({key: ROWS[number][key] for key in keys}).replace("'", '"') for number in (3, 5))
    prepared, _ = table.replay(keys=chosen)
    assert (prepared.chosen, prepared.differences["silver"].rows["added"]) == (2, 1)
    assert {row["id"]: row for row in values(table.spec.path)} == ROWS
