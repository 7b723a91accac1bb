"""`cdc sql` over tables that delta-rs wrote: what is in them, what is hidden, and what a statement cannot reach."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import DeltaTable
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.reading.duckdb_sql import statements_of
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.lake.delta_shop import write, write_shop
from spark.silver.task_merge import upgrade_protocol
from spark.table.data_files import write_vectors
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in write_shop(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "lake"


def ask(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["sql", *words], input=stdin)


def rows(statement: str, *more: str) -> list[dict[str, Any]]:
    done = ask(statement, "-o", "json", *more)
    assert done.exit_code == 0, (done.output, done.exception)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def refusal(statement: str) -> str:
    done = ask(statement)
    assert isinstance(done.exception, RefusalError), (done.output, done.exception)
    return str(done.exception)


def test_tables_are_asked_by_their_names(lake: Path) -> None:
    assert rows("SELECT id, total FROM silver.shop.orders WHERE id > 2 ORDER BY id") == [
        {"id": 3, "total": "3.50"},
        {"id": 4, "total": "4.50"},
    ]
    assert rows('SELECT o.note FROM "silver".shop."order" AS o JOIN silver.shop.orders USING (id)') == [
        {"note": "a singular name"}
    ]
    assert rows("SELECT count(*) AS n FROM bronze.shop") == [{"n": 3}]
    assert rows("SELECT count(*) AS n, min(timestamp) AS t FROM bronze.shop.orders") == [
        {"n": 2, "t": "2026-11-25 12:00:00+00:00"}
    ]
    assert [row["column_name"] for row in rows("DESCRIBE silver.shop.order")] == ["id", "note"]
    assert rows("SELECT 1 AS a, 2 AS a") == [{"a": 1, "a_2": 2}]
    assert rows("SELECT value FROM bronze.shop.order") == [{"value": "\\x" + b'{"customer": "ann@example.org"}'.hex()}]


def test_without_a_statement_they_are_listed(lake: Path) -> None:
    listed = {row["table"]: row for row in json.loads(ask("-o", "json").stdout)}
    assert [*listed] == [
        *("silver.shop.order", "silver.shop.orders", "silver_now.shop.order", "silver_now.shop.orders"),
        *("bronze.shop", "bronze.shop.order", "bronze.shop.orders"),
    ]
    assert (listed["silver.shop.orders"]["rows"], listed["silver.shop.orders"]["sensitive"]) == (4, "customer")


def test_only_so_many_rows_are_printed(lake: Path) -> None:
    done = ask("SELECT id FROM silver.shop.orders ORDER BY id", "--limit", "3", "-o", "csv")
    assert [*csv.reader(io.StringIO(done.stdout))] == [["id"], ["1"], ["2"], ["3"]]
    assert "and more: --limit 30" in done.stderr
    assert "and more" not in ask("SELECT id FROM silver.shop.orders", "--limit", "4").stderr


def test_statements_come_by_stdin(lake: Path) -> None:
    done = ask("-", "-o", "csv", stdin="SELECT 1 AS a; -- the second;\nSELECT ';' AS b\n")
    assert done.stdout == "a\n1\nb\n;\n"


def test_sensitive_columns_are_hashes(lake: Path) -> None:
    shown = rows("SELECT customer FROM silver.shop.orders ORDER BY id")
    first, second, third, fourth = (row["customer"] for row in shown)
    assert first == third != second
    assert first.startswith("hash:")
    assert fourth is None
    assert rows("SELECT customer FROM silver.shop.orders ORDER BY id")[0]["customer"] != first
    values = [row["value"] for row in rows("SELECT value FROM bronze.shop")]
    assert all(value.startswith("hash:") for value in values)
    hidden = ask("SELECT * FROM silver.shop.orders")
    assert "ann@example.org" not in hidden.output
    assert "shown as hashes: silver.shop.orders.customer; --show-sensitive" in hidden.stderr
    assert "ann@" in ask("SELECT * FROM silver.shop.orders", "--show-sensitive").stdout
    # Under whatever name the rows are held, DuckDB is given hashes.
    assert "ann@" not in ask('SELECT * FROM temp.main."scan 0", silver.shop.orders').output


def test_deletion_vectors_are_heeded(lake: Path) -> None:
    path = lake / "silver/shop/order"
    write(path, pa.table({"id": [2, 3, 4], "note": ["b", "c", "d"]}))
    live = table_of(str(path)).snapshot()
    name = next(name for name, file in live.files.items() if json.loads(file["stats"])["numRecords"] == 3)
    vector = write_vectors(open_folder(str(path)), {name: np.array([1])})[name]
    file = live.files[name]
    gone = {"path": name, "deletionTimestamp": 1, "dataChange": True}
    added = {**file, "deletionVector": vector, "dataChange": True}
    info = {"commitInfo": {"timestamp": 1, "operation": "DELETE", "operationParameters": {}}}
    table_of(str(path)).put(live.version + 1, [info, *upgrade_protocol(live), {"remove": gone}, {"add": added}])
    assert "deletionVectors" in (DeltaTable(str(path)).protocol().reader_features or ())
    assert [row["id"] for row in rows("SELECT id FROM silver.shop.order ORDER BY id")] == [1, 2, 4]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM delta_scan('/tmp')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{outside}'",
    ],
)
def test_files_are_out_of_reach(lake: Path, statement: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    assert refusal(statement.format(outside=outside))
    assert not outside.exists()


@pytest.mark.parametrize(
    "statement",
    [
        *("ATTACH '/tmp/x.db'", "COPY (SELECT 1) TO '/tmp/x'", "SET memory_limit = '9GB'", "INSTALL httpfs", "LOAD httpfs"),
        *("CREATE TABLE t AS SELECT 1", "INSERT INTO silver.shop.orders VALUES (1)", "DROP VIEW silver.shop.orders", "CALL x()"),
    ],
)
def test_only_questions_are_taken(lake: Path, statement: str) -> None:
    assert "cdc sql only reads" in refusal(statement)


def test_variables_of_the_process_are_no_tables(lake: Path) -> None:
    assert "no table tables" in refusal("SELECT * FROM tables")


def test_what_is_wrong_is_told(lake: Path) -> None:
    assert "no table silver.shop.ordres; near: silver.shop.orders" in refusal("SELECT * FROM silver.shop.ordres")
    assert "silver.shop.orders" in refusal("SELECT * FROM orders")
    assert "history.shop.orders: nothing of it is in the lake yet" in refusal("SELECT * FROM history.shop.orders")
    assert "prize" in refusal("SELECT prize FROM silver.shop.orders")
    assert "syntax error" in refusal("SELEC 1")
    with pytest.raises(RefusalError, match="INSERT"):
        statements_of("SELECT 1; INSERT INTO t VALUES (1)")
