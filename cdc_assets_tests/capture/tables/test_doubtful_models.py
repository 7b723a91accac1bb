"""Which models between two looks nobody has compared, and nothing confirms."""

from __future__ import annotations

import pytest

from cdc_assets.capture.model_differences import doubtful_models
from cdc_assets.clients.schema_history import ModelColumn, TableModel, models_in_order
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import double_quote


def model(columns: str, at: int, *, is_read: bool = True) -> TableModel:
    """`id INT, v TEXT`; by a statement, or (not `is_read`) by the server's definition."""
    found = tuple(ModelColumn(*column.split(" ", 1), nullable=True) for column in columns.split(", "))
    return TableModel(found, f"statement {at}", f"binlog.000001:{at}" if is_read else "", f"0000000001.{at:016x}")


SNAPSHOT = model("id INT, a INT", 1, is_read=False)


@pytest.mark.parametrize(
    ("models", "doubtful"),
    [
        # One statement: the newest is compared with the catalogue, and the one before it was.
        ([SNAPSHOT, model("id INT, a BIGINT", 2)], []),
        ([SNAPSHOT, model("id INT, a INT, r REAL", 2)], []),
        # Two: what the first brought is in the newest, or was there before.
        ([SNAPSHOT, model("id INT, a INT, r REAL", 2), model("id INT, a INT, r REAL, s INT", 3)], []),
        ([SNAPSHOT, model("id INT, a INT, r INT", 2), model("id INT, r INT", 3)], []),
        # A synonym is read the same way.
        ([SNAPSHOT, model("id INT, a INT, r INT4", 2), model("id INT, a INT, r INTEGER", 3)], []),
        # What the first brought the second takes back.
        ([SNAPSHOT, model("id INT, a INT, r REAL", 2), model("id INT, a INT, r DOUBLE", 3)], [2]),
        ([SNAPSHOT, model("a INT, id INT", 2), model("id INT, a INT", 3)], [2]),
        ([SNAPSHOT, model("r INT, id INT, a INT", 2), model("id INT, a INT, r INT", 3)], [2]),
        ([model("id INT, r REAL", 2), model("id INT, r DOUBLE", 3)], [2]),
        # A column that is gone has no values that could be wrong.
        ([SNAPSHOT, model("id INT, a INT, r REAL", 2), model("id INT, a INT", 3)], []),
        # The server was asked again, and no statement was between.
        ([SNAPSHOT, model("a INT, id INT", 3, is_read=False)], [1]),
    ],
)
def test_a_model_that_neither_its_neighbours_nor_the_newest_confirm(models: list[TableModel], doubtful: list[int]) -> None:
    found = [int(doubt.model.begins.rpartition(".")[2], 16) for doubt in doubtful_models(models)]
    assert found == doubtful


def test_a_table_that_is_made_again_begins_anew_and_a_record_that_changes_nothing_is_none() -> None:
    def record(kind: str, name: str, at: int) -> dict[str, object]:
        columns = [{"name": name, "typeName": "int", "optional": True}]
        change = {"type": kind, "id": double_quote("s", "t"), "table": {"columns": columns}}
        return {"position": {"file": "binlog.000001", "pos": at}, "ddl": f"{kind} {at}", "tableChanges": [change]}

    table = TableId("s", "t")
    records = [record("CREATE", "a", 1), record("ALTER", "a", 2), record("ALTER", "b", 3)]
    assert [m.statement for m in models_in_order(records, [table])[table]] == ["CREATE 1", "ALTER 3"]
    again = [*records, record("DROP", "b", 4), record("CREATE", "c", 5)]
    assert [m.statement for m in models_in_order(again, [table])[table]] == ["CREATE 5"]
