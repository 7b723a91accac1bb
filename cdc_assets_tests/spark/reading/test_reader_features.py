"""The matrix of docs/how-to/read-tables.md: each reader is asked for tables with each feature of Delta; and portable tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets.clients.delta_rows import features_beyond_plain
from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.page_blocks import HOW_TO, run_block
from spark.errors import TableStopError
from spark.silver import fold_job as silver
from spark.silver import small_table_fold
from spark.silver.schema_evolution import MAPPING, WIDENING, set_properties
from spark.specs import Column, SilverSpec
from spark.table.data_files import PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

EXPECTED = [(1, "a"), (3, "c")]
READERS: dict[str, Callable[[str], Any]] = {
    "delta-rs SQL": read,
    "PyArrow": lambda path: DeltaTable(path).to_pyarrow_dataset().to_table().to_pylist(),
    "Polars": lambda path: pl.read_delta(path).to_dicts(),
}


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> dict[str, str]:
    """By the feature, the path of a table that Spark has made, with the rows 1 and 3."""
    made = {}
    for name, properties in {"nothing special": {}, "deletion vectors": {PROPERTY: "true"}, "column mapping": MAPPING}.items():
        made[name] = path = str(tmp_path / name.replace(" ", "_"))
        column = "the v" if name == "column mapping" else "v"
        options = ", ".join(
            f"'{key}' = '{value}'" for key, value in {"delta.enableDeletionVectors": "false", **properties}.items()
        )
        session.sql(f"CREATE TABLE delta.`{path}` (id INT, `{column}` STRING) USING delta TBLPROPERTIES ({options})")
        session.sql(f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        session.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    made["widened types"] = path = str(tmp_path / "widened")
    session.sql(f"CREATE TABLE delta.`{path}` (id SMALLINT, v STRING) USING delta")
    session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (3, 'c')")
    set_properties(session, path, WIDENING)
    session.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id TYPE INT")
    return made


def answer(reader: Callable[[str], Any], path: str) -> str:
    try:
        rows = reader(path)
    except Exception:
        return "no"
    found = [tuple(row.values()) for row in rows]
    if found and not any(value is not None for row in found for value in row):
        return "NULLs"
    assert sorted(found) == EXPECTED
    return "yes"


def matrix() -> dict[str, dict[str, str]]:
    """As the page says it."""
    text = (HOW_TO / "read-tables.md").read_text(encoding="utf-8").split("## Which readers")[1].split("\n## ")[0]
    lines = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    titles = [re.sub(r" \(.*", "", title) for title in lines[0]]
    return {line[0]: dict(zip(titles[2:], line[2:], strict=True)) for line in lines[2:]}


def test_each_reader_reads_what_the_page_says(tables: dict[str, str], session: SparkSession) -> None:
    readers = {**READERS, "Spark": lambda path: [r.asDict() for r in session.read.format("delta").load(path).collect()]}
    found = {name: {title: answer(reader, path) for title, reader in readers.items()} for name, path in tables.items()}
    assert found == matrix()


def test_what_a_table_has_is_told(tables: dict[str, str]) -> None:
    told = {name: features_beyond_plain(DeltaTable(path)) for name, path in tables.items()}
    assert told["nothing special"] == []
    assert told["deletion vectors"] == ["deletionVectors"]
    assert told["column mapping"] == ["columnMapping"]
    assert [name for name in told["widened types"] if name.startswith("typeWidening")]


def test_the_block_for_spark_is_run(session: SparkSession, tmp_path: Path) -> None:
    """The server has a working folder of its own, so the page's path is put where the test writes."""
    from cdc_assets_tests.support.lake.delta_shop import write

    write(tmp_path / "country", pa.table({"iso": ["DE", "LI"], "population": [83_000_000, 39_000]}))

    class Elsewhere:
        """The session, with the page's path in the test's folder."""

        read = session.read.format("delta")

        def format(self, _: str) -> Any:
            return self

        def load(self, _: str) -> Any:
            return self.read.load(str(tmp_path / "country"))

    class Given:
        """What the page calls `spark`."""

        read = Elsewhere()

    rows = run_block("read-tables.md", "Spark", spark=Given())["rows"]
    assert [tuple(row) for row in rows] == [("DE", 83_000_000)]


class Grown:
    """A table that is large by the limits of the test."""

    def __init__(self, session: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, *, portable: bool) -> None:
        monkeypatch.setattr(small_table_fold, "MOST_ROWS", 1)
        monkeypatch.setattr("spark.silver.silver_table.DELETION_VECTORS_FROM", 1)
        monkeypatch.setattr("spark.silver.silver_table.SIZE_LOOK_EVERY", 1)
        self.session, self.lake = session, Lake(session, root)
        self.spec = replace(self.lake.spec("t"), portable=portable)

    def put(self, *events: tuple[str, int, str]) -> None:
        start = sum(len(records) for records in self.lake.log.get("t", {}).values())
        self.lake.put("t", *(event(start + n, {"id": key, "v": v}, op=op) for n, (op, key, v) in enumerate(events)))
        self.lake.append(self.lake.all_of("t"))

    def fold(self) -> str:
        """By a task, else by Spark; why the task did not."""
        [(result, left)] = small_table_fold.fold_tables(
            [small_table_fold.SmallTable(self.spec, committed(self.spec.bronze_path))]
        )
        if result is None:
            assert silver.run(self.session, self.spec).version is not None
        return left

    @property
    def features(self) -> list[str]:
        return features_beyond_plain(DeltaTable(self.spec.path))

    @property
    def rows(self) -> list[tuple[int, str]]:
        return sorted((row["id"], row["v"]) for row in read(self.spec.path))


@pytest.mark.parametrize("portable", [True, False])
def test_a_large_table_gets_vectors_unless_it_is_portable(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portable: bool
) -> None:
    table = Grown(session, tmp_path, monkeypatch, portable=portable)
    table.put(("c", 1, "a"), ("c", 2, "b"), ("c", 3, "c"))
    table.fold()
    table.put(("u", 2, "new"))
    left = table.fold()
    assert table.rows == [(1, "a"), (2, "new"), (3, "c")]
    assert table.features == ([] if portable else ["deletionVectors"])
    assert ("is to have no deletion vectors" in left) is portable


@pytest.mark.all
def test_a_table_with_vectors_is_made_portable_by_the_pages_statements(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Grown(session, tmp_path, monkeypatch, portable=False)
    table.put(("c", 1, "a"), ("c", 2, "b"), ("c", 3, "c"))
    table.fold()
    table.put(("u", 2, "new"))
    table.fold()
    assert table.features == ["deletionVectors"]
    text = (HOW_TO / "read-tables.md").read_text(encoding="utf-8")
    statements = text.split("```sql\n")[1].split("```")[0].replace(".cdc/lake/silver/shop/orders", table.spec.path)
    for statement in filter(None, map(str.strip, statements.split(";"))):
        session.sql(statement).collect()
    assert table.features == []
    assert sorted(r["id"] for r in DeltaTable(table.spec.path).to_pyarrow_dataset().to_table().to_pylist()) == [1, 2, 3]
    table.spec = replace(table.spec, portable=True)
    table.put(("d", 1, ""), ("c", 4, "d"))
    table.fold()
    assert (table.rows, table.features) == ([(2, "new"), (3, "c"), (4, "d")], [])


def test_a_name_that_needs_mapping_stops_a_portable_table(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    columns = (Column("id", "integer", False), Column("the v", "text"))
    spec: SilverSpec = replace(lake.spec("t", columns), portable=True)
    lake.put("t", event(0, {"id": 1, "the v": "a"}))
    lake.append(lake.all_of("t"))
    with pytest.raises(TableStopError, match=r"\['the v'\] have names that need Delta's column mapping"):
        silver.run(session, spec)
    assert not Path(spec.path, "_delta_log").exists()
    assert silver.run(session, replace(spec, portable=False)).version == 0
    assert features_beyond_plain(DeltaTable(spec.path)) == ["columnMapping"]
