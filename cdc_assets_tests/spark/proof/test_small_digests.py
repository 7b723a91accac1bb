"""Sums of many small tables by one query, beside those of each by a query of its own, and beside the rows themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.clients.delta_rows import plain_table
from cdc_assets_tests.support.lake import compared
from cdc_assets_tests.support.lake.both_writers import compare_writers
from cdc_assets_tests.support.lake.capture import Connector, Database
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import ID_V, Lake, values
from spark.errors import JobRefusedError
from spark.proof.bucket_sums import Task, digest, digest_small_tables
from spark.proof.snapshot_cut import Cut
from spark.specs import Column, SilverSpec
from spark.table.identifiers import table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = Cut(1000, frozenset(), 1 << 40)
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"


def task_of(lake: Lake, spec: SilverSpec, cut: Cut = ALL) -> Task:
    return compared.task_of(lake, spec, cut, by_files=True)


def by_delta(task: Task) -> Task:
    return replace(task, base=replace(task.base, plain=None))


def counted(found: dict[int, tuple[int, int]]) -> int:
    return sum(rows for rows, _ in found.values())


@pytest.fixture
def lake(session: SparkSession, tmp_path: Path) -> Lake:
    return Lake(session, tmp_path, not_compared="most tests change rows by hand; the first one compares")


def fold_tables(lake: Lake, columns: dict[str, Sequence[Column]]) -> list[SilverSpec]:
    """A table each, of some rows of which the last is changed and one is deleted: the two writers of silver take turns."""
    for number, (table, own) in enumerate(columns.items()):
        made = [{"id": key, own[1].name: _value(own[1], key)} for key in range(1, 8 + number)]
        events = [event(offset, row) for offset, row in enumerate(made)]
        gone = replace(event(len(made), None, op="d", before=made[0]), key=json.dumps({"id": 1}))
        changed = event(len(made) + 1, {**made[-1], own[1].name: _value(own[1], 0)}, op="u")
        lake.put(table, *events, gone, changed)
    lake.append(*[lake.all_of(table) for table in columns])
    specs = [lake.spec(table, own) for table, own in columns.items()]
    for number, spec in enumerate(specs):
        lake.by_task = number % 2 == 0
        lake.fold(spec)
    return specs


def _value(column: Column, number: int) -> object:
    return number if column.source_type == "integer" else f"ä {number}"


TABLES: dict[str, Sequence[Column]] = {
    "words": ID_V,
    "numbers": (ID_V[0], Column("n", "integer")),
    "named": (ID_V[0], Column("Größe", "text")),
}


def test_many_tables_have_the_sums_that_each_has_alone(session: SparkSession, lake: Lake) -> None:
    specs = fold_tables(lake, TABLES)
    assert lake.folded_by_tasks == 2
    compare_writers(lake)
    tasks = [task_of(lake, spec) for spec in specs]
    assert all(task.base.plain is not None for task in tasks)
    together = digest_small_tables(session, tasks)
    assert together == [digest(session, task) for task in tasks] == [digest(session, by_delta(task)) for task in tasks]
    # The number of rows by delta-rs.
    assert [counted(found or {}) for found in together] == [len(values(spec.path)) for spec in specs] == [6, 7, 8]


def test_one_other_value_is_another_sum_of_its_table_alone(session: SparkSession, lake: Lake) -> None:
    specs = fold_tables(lake, TABLES)
    before = digest_small_tables(session, [task_of(lake, spec) for spec in specs])
    session.sql(f"UPDATE {table_at(specs[1].path)} SET n = 77 WHERE id = 3").collect()
    after = digest_small_tables(session, [task_of(lake, spec) for spec in specs])
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


@pytest.mark.all
def test_a_table_whose_files_are_not_its_rows_is_read_by_delta(session: SparkSession, lake: Lake) -> None:
    words, numbers, named = fold_tables(lake, TABLES)
    session.sql(f"ALTER TABLE {table_at(words.path)} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')").collect()
    session.sql(f"DELETE FROM {table_at(words.path)} WHERE id = 4").collect()
    session.sql(f"ALTER TABLE {table_at(numbers.path)} SET TBLPROPERTIES ({MAPPED})").collect()
    session.sql(f"ALTER TABLE {table_at(numbers.path)} RENAME COLUMN n TO m").collect()
    session.sql(f"ALTER TABLE {table_at(numbers.path)} RENAME COLUMN m TO n").collect()
    tasks = [task_of(lake, spec) for spec in (words, numbers, named)]
    assert [task.base.plain is None for task in tasks] == [True, True, False]
    found = digest_small_tables(session, tasks)
    assert [counted(each or {}) for each in found] == [5, 7, 8]
    assert found == [digest(session, task) for task in tasks]


@pytest.mark.all
def test_a_table_that_is_ahead_of_the_cut_is_told_apart(session: SparkSession, lake: Lake) -> None:
    database = Database()
    connector = Connector(database)
    for key in range(1, 6):
        database.write(1, "insert", key)
    database.commit(1)
    number = database.serial + 1
    database.write(2, "update", 1)
    database.commit(2)
    connector.stream()
    lake.put("ahead", *connector.records)
    lake.append(lake.all_of("ahead"))
    ahead = lake.spec("ahead")
    lake.fold(ahead)
    [words] = fold_tables(lake, {"words": ID_V})
    cut = Cut(number + 10, frozenset({number}), 1 << 40)
    found = digest_small_tables(session, [task_of(lake, ahead, cut), task_of(lake, words)])
    assert found[0] is None
    assert found[1] == digest(session, task_of(lake, words))


@pytest.mark.all
def test_a_column_that_silver_does_not_hold_refuses_the_query(session: SparkSession, lake: Lake) -> None:
    words, numbers, _ = fold_tables(lake, TABLES)
    unheld = replace(numbers, columns=(*numbers.columns, Column("new", "text")), schema_changes={"add": "ignore"})
    with pytest.raises(JobRefusedError, match="silver has no column new yet"):
        digest_small_tables(session, [task_of(lake, words), replace(task_of(lake, numbers), spec=unheld)])


@pytest.mark.all
def test_the_files_of_an_older_version_are_that_version(session: SparkSession, lake: Lake) -> None:
    [words] = fold_tables(lake, {"words": ID_V})
    task = task_of(lake, words)
    assert task.base.plain is not None
    session.sql(f"DELETE FROM {table_at(words.path)} WHERE id = 3").collect()
    assert counted(digest_small_tables(session, [task])[0] or {}) == 6
    assert plain_table(words.path, task.base.version) == task.base.plain


@pytest.mark.all
def test_a_table_of_no_rows_has_no_files_to_read(lake: Lake, session: SparkSession) -> None:
    [words] = fold_tables(lake, {"words": ID_V})
    session.sql(f"DELETE FROM {table_at(words.path)}").collect()
    task = task_of(lake, words)
    assert task.base.plain is None
    assert digest_small_tables(session, [task]) == [{}]
