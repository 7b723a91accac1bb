"""What is said of a file's columns never hides a row from whoever filters by them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from spark.delta.first_commit import create_table

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
    create_table(str(tmp_path / "t"), rows, {}, "{}")
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
