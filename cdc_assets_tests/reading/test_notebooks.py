"""What the notebook `what_changed` prints of a lake whose two versions are known; delta-rs writes them, and no server runs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_assets_tests.support.lake.delta_shop import write, write_shop
from cdc_assets_tests.support.lakehouse import ROOT

NAN = float("nan")
NAMES = ("id", "part", "stock", "price", "note", "tags", "_cdc_position")
THEN = [
    (1, "a", 7, 1.5, None, ["x"], "1"),
    (2, "a", None, NAN, "same", None, "2"),
    (3, None, 3, None, None, ["y", None], "3"),
    (10, "a", 10, 0.5, "is gone then", None, "4"),
]
NOW = [
    (1, "a", 8, 1.5, None, ["x"], "5", None),
    (2, "a", None, NAN, "same", None, "2", "2.50"),
    (3, None, None, 4.25, None, ["y"], "6", None),
    (11, "a", 11, 0.5, "new", None, "7", "1.00"),
]


def rows(found: list[Any], *more: str) -> pa.Table:
    types = (pa.int64(), pa.string(), pa.int32(), pa.float64(), pa.string(), pa.list_(pa.string()), pa.string())
    schema = pa.schema([*zip(NAMES, types, strict=True), *((name, pa.string()) for name in more)])
    return pa.Table.from_pylist([dict(zip((*NAMES, *more), row, strict=True)) for row in found], schema)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in write_shop(tmp_path).items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "lake" / "silver" / "shop" / "order"
    for found, more in ((THEN, ()), (NOW, ("added",))):
        write_deltalake(path, rows(found, *more), mode="overwrite", schema_mode="overwrite")
    keys = [{"id": 1, "part": "a"}, {"id": 10, "part": "a"}, {"id": 21, "part": "a"}, {"id": 1, "part": "1"}, None]
    keys += [{"schema": {"type": "struct"}, "payload": {"id": 1, "part": "a"}}]
    records = [
        {"table": "order", "position": f"{n}", "op": "u", "key": key and json.dumps(key).encode(), "value": f"event {n}".encode()}
        for n, key in enumerate(keys)
    ]
    schema = pa.schema(
        [("table", pa.string()), ("position", pa.string()), ("op", pa.string()), ("key", pa.binary()), ("value", pa.binary())]
    )
    more = [("tx_id", pa.string()), ("source_ts", pa.timestamp("us", "UTC"))]
    write(tmp_path / "lake" / "bronze" / "shop", pa.Table.from_pylist(records, pa.schema([*schema, *more])), schema_mode="merge")
    return tmp_path / "lake"


def played(name: str, **settings: Any) -> list[str]:
    """What each cell with an expression at its end shows; `settings` take the place of those of the first cell."""
    notebook = json.loads((ROOT / "cdc_assets" / "reading" / "notebooks" / name).read_text())
    known: dict[str, Any] = {}
    shown = []
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), name, "exec"), known)
        known |= settings if not shown else {}
        if last is not None:
            assert isinstance(last, ast.Expr)
            shown.append(str(eval(compile(ast.Expression(last.value), name, "eval"), known)))
    return shown


@pytest.mark.usefixtures("lake")
def test_what_changed_tells_what_changed() -> None:
    """NaN is NaN, NULL is NULL, a new column has changed where it has a value, and key 1 is not key 10."""
    versions, keys, changes, events = played("what_changed.ipynb", SOURCE="shop", TABLE="order", KEY=["id", "part"], BACK=1)
    assert versions == "version 1: 4 rows, version 2: 4 rows"
    assert sorted(line.split() for line in keys.splitlines()[1:-1]) == [["gone", "1"], ["new", "1"], ["there", "3"]]
    assert [" ".join(line.split()[1:]) for line in changes.splitlines()] == [
        "part column then now",
        "1 a stock 7 8",
        "2 a added None 2.50",
        "3 None price None 4.25",
        "3 None stock 3 None",
        "3 None tags [y, NULL] [y]",
    ]
    assert [line.split()[-2:] for line in events.splitlines()[1:]] == [["event", "0"], ["event", "5"]], events
