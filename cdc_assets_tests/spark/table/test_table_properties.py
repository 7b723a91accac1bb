"""A property of a table, by what Spark itself says of it, whatever has become of the table meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark.table import commit_history
from spark.table.commit_history import read_property
from spark.table.identifiers import table_at

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
    assert read_property(session, path, NAME) is by_spark(session, path) is None
    for value in ("one", "two"):
        session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ('{NAME}' = '{value}')")
        append(path, 1)
        assert read_property(session, path, NAME) == by_spark(session, path) == value
    session.sql(f"ALTER TABLE {table_at(path)} UNSET TBLPROPERTIES ('{NAME}')")
    assert read_property(session, path, NAME) is by_spark(session, path) is None


@pytest.mark.all
def test_a_table_that_took_anothers_place_has_its_own(session: SparkSession, tmp_path: Path) -> None:
    path, other = str(tmp_path / "t"), str(tmp_path / "other")
    for place, value in ((path, "old"), (other, "new")):
        make(place, value)
    assert read_property(session, path, NAME) == "old"
    append(other, 3)
    shutil.rmtree(path)
    shutil.move(other, path)
    assert read_property(session, path, NAME) == "new"


@pytest.mark.all
def test_what_was_cleaned_up_is_read_anew(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make(path, "kept")
    assert read_property(session, path, NAME) == "kept"
    append(path, 1)
    DeltaTable(path).create_checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    assert read_property(session, path, NAME) == by_spark(session, path) == "kept"


@pytest.mark.all
def test_where_no_file_is_reached_spark_is_asked(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    make(path, "there")
    monkeypatch.setattr(commit_history, "is_reached", lambda _: False)
    assert read_property(session, path, NAME) == "there"
    assert read_property(session, path, "cdc.other") is None
