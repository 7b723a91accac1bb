"""What is said of a file's columns never hides a row from whoever filters by them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark.table.data_files import ROWS_A_GROUP, read_columns, read_rows, write_file
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder

UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 123456)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), [1, 2**62, None]),
    "day": (pa.date32(), [NOON.date(), None, dt.date(1, 1, 1)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [NOON.replace(tzinfo=dt.timezone.utc), None, dt.datetime(1969, 1, 1, tzinfo=dt.timezone.utc)],
    ),
    "clock": (pa.timestamp("us"), [NOON, None, dt.datetime(9999, 12, 31, 23, 59, 59)]),
    "text": (pa.string(), ["a", "ü" * 64 + "b", "x" * 100]),
    "raw": (pa.binary(), [b"1", None, b"3"]),
    "nothing": (pa.string(), [None, None, None]),
}
UNBOUNDED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "end": (pa.string(), ["a", "\U0010ffff" * 70, None]),
    "flag": (pa.bool_(), [True, False, None]),
    "price": (pa.decimal128(38, 10), [decimal.Decimal("0.1234567891"), None, decimal.Decimal(10) ** 27]),
    "ratio": (pa.float64(), [1.5, float("inf"), None]),
    "last": (pa.timestamp("us"), [NOON, None, dt.datetime.max]),
}


@pytest.mark.parametrize("more", [None, *UNBOUNDED])
def test_each_value_is_found_by_a_filter(tmp_path: Path, more: str | None) -> None:
    columns = COLUMNS | ({more: UNBOUNDED[more]} if more else {})
    rows = pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})
    (tmp_path / "t").mkdir()
    table_of(str(tmp_path / "t")).create(rows, {}, "{}")
    table = DeltaTable(tmp_path / "t")
    found = table.to_pyarrow_dataset()
    for name, (kind, values) in columns.items():
        for value in values:
            wanted = ds.field(name).is_null() if value is None else ds.field(name) == pa.scalar(value, kind)
            assert found.count_rows(filter=wanted) == values.count(value), (name, value)
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    (add,) = [json.loads(line)["add"] for line in log.read_text().splitlines() if "add" in json.loads(line)]
    told = json.loads(add["stats"])
    assert told["numRecords"] == 3
    assert ("minValues" in told) is (more is None)
    if more is None:
        assert (told["minValues"]["at"], told["maxValues"]["at"]) == ("1969-01-01T00:00:00.000Z", "2026-01-01T12:00:00.124Z")
        assert found.count_rows(filter=ds.field("id") > 2**62) == 0


def test_rows_are_read_apart_and_what_repeats_has_a_dictionary(tmp_path: Path) -> None:
    headers = pa.array([[{"key": "k", "value": b"v"}]] * 50, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    own = {"table": ["a"] * 20 + ["b"] * 5 + ["c"] * 25, "key": [f"{number}" for number in range(50)], "headers": headers}
    rows = pa.table({**own, "word": pa.array(["w"] * 50).dictionary_encode(), "nothing": pa.nulls(50)})
    file = write_file(open_folder(str(tmp_path)), rows, ["table"], groups=[20, 30])
    written = pq.ParquetFile(tmp_path / file["path"])
    assert [written.read_row_group(number)["key"].to_pylist() for number in range(2)] == [own["key"][:20], own["key"][20:]]
    places = [written.metadata.row_group(0).column(number) for number in range(6)]
    plain = [place.path_in_schema for place in places if not place.has_dictionary_page]
    assert plain == ["key"]
    (fragment,) = ds.dataset([str(tmp_path / file["path"])], format="parquet").get_fragments()
    assert len(fragment.split_by_row_group(ds.field("table").isin(["c", "x"]))) == 1
    assert written.read().drop_columns(["word"]).equals(rows.drop_columns(["word"]))


def test_a_row_group_is_of_a_part_of_the_rows(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(ROWS_A_GROUP + 5))})
    for groups in (None, [3, ROWS_A_GROUP + 2]):
        file = write_file(open_folder(str(tmp_path)), rows, groups=groups)
        told = pq.ParquetFile(tmp_path / file["path"])
        found = [told.metadata.row_group(number).num_rows for number in range(told.num_row_groups)]
        assert found == ([ROWS_A_GROUP, 5] if groups is None else [3, ROWS_A_GROUP, 2])
        assert told.read().equals(rows)


@pytest.mark.parametrize(
    ("counts", "expected"), [({"a": 5000, "b": 3, "c": 4000, "d": 9000}, [5000, 4003 + 9000]), ({"a": 1, "b": 2}, [3])]
)
def test_a_group_of_rows_ends_where_a_table_ends(counts: dict[str, int], expected: list[int]) -> None:
    from spark.bronze.part_files import row_groups

    tables = pa.chunked_array([[name] * count for name, count in counts.items()])
    assert row_groups(tables) == expected


def test_a_file_that_delta_rs_has_updated_is_read_and_filtered(tmp_path: Path) -> None:
    """It keeps types of Arrow's in such a file that Arrow does not filter: such a table was left to Spark for good."""
    rows = pa.table({"id": [1, 2, 3], "note": ["a", None, "c"], "raw": [b"a", b"b", None], "many": [["x"], None, ["y", None]]})
    write_deltalake(str(tmp_path), rows)
    DeltaTable(str(tmp_path)).update({"note": "'broken'"}, predicate="id = 2")
    (told,) = DeltaTable(str(tmp_path)).get_add_actions().to_struct_array().to_pylist()
    file = {"path": told["path"], "size": told["size_bytes"]}
    assert pq.read_schema(tmp_path / told["path"]).field("note").type == pa.string_view()

    held = read_rows(open_folder(str(tmp_path)), file, np.array([False, True, True]), rows.schema)
    asked = [row for row in DeltaTable(str(tmp_path)).to_pyarrow_table().to_pylist() if row["id"] in held["id"].to_pylist()]
    assert sorted(held.to_pylist(), key=lambda row: row["id"]) == sorted(asked, key=lambda row: row["id"])
    assert held.num_rows == 2
    assert read_columns(open_folder(str(tmp_path)), file, ["note"])["note"].type == pa.string()
