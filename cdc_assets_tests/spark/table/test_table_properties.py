"""A property of a table, by what Spark itself says of it, whatever has become of the table meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark.table import delta_table
from spark.table.delta_table import table_of
from spark.table.identifiers import table_at
from spark.table.log_reader import last_checkpoint
from spark.table.table_folder import open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "cdc.bronzeFrom"


def by_spark(session: SparkSession, path: str) -> str | None:
    rows = session.sql(f"SHOW TBLPROPERTIES {table_at(path)}").collect()
    return next((str(row.value) for row in rows if row.key == NAME), None)


def make(path: str, value: str) -> None:
    append(path, 1)
    DeltaTable(path).alter.set_table_properties({NAME: value}, raise_if_not_exists=False)


def append(path: str, times: int) -> None:
    for _ in range(times):
        write_deltalake(path, pa.table({"a": [1]}), mode="append")


def test_it_is_what_spark_says(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(path, 2)
    assert table_of(path).properties().get(NAME) is by_spark(session, path) is None
    for value in ("one", "two"):
        session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ('{NAME}' = '{value}')")
        append(path, 1)
        assert table_of(path).properties().get(NAME) == by_spark(session, path) == value
    session.sql(f"ALTER TABLE {table_at(path)} UNSET TBLPROPERTIES ('{NAME}')")
    assert table_of(path).properties().get(NAME) is by_spark(session, path) is None


@pytest.mark.all
def test_a_table_that_took_anothers_place_has_its_own(session: SparkSession, tmp_path: Path) -> None:
    path, other = str(tmp_path / "t"), str(tmp_path / "other")
    for place, value in ((path, "old"), (other, "new")):
        make(place, value)
    assert table_of(path).properties().get(NAME) == "old"
    append(other, 3)
    shutil.rmtree(path)
    shutil.move(other, path)
    assert table_of(path).properties().get(NAME) == "new"


@pytest.mark.all
def test_what_was_cleaned_up_is_read_anew(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(path, "kept")
    assert table_of(path).properties().get(NAME) == "kept"
    append(path, 1)
    DeltaTable(path).create_checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    assert table_of(path).properties().get(NAME) == by_spark(session, path) == "kept"


@pytest.mark.all
def test_a_checkpoint_in_parts_tells_it_too(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(path, "there")
    append(path, 8)
    asked = "spark.databricks.delta.checkpoint.partSize"
    session.conf.set(asked, "2")
    try:
        session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
        session.sql(f"INSERT INTO {table_at(path)} VALUES (2)")
    finally:
        session.conf.unset(asked)
    checkpoint = last_checkpoint(open_folder(path))
    assert checkpoint is not None
    assert checkpoint["parts"] > 1
    assert delta_table.DeltaTable(path).properties().get(NAME) == by_spark(session, path) == "there"
    assert delta_table.DeltaTable(path).columns() == ("a",)
