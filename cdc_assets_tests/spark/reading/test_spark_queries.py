"""`cdc sql` over tables of our own jobs: ahead of silver by DuckDB, and the same questions by Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path, remote: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Rows 1 and 2 in silver; behind it 1 is changed and 3 is new."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "source.yaml").write_text(f"{SOURCE}    sensitive: [v]\n")
    for name, value in {"CDC_HOME": "home", "CDC_SOURCES": "sources", "CDC_LAKE": "lake"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    made = Lake(session, tmp_path / "lake")
    put(made, (("c", 1, "a"), ("c", 2, "b")))
    made.fold(made.spec("t"))
    put(made, (("u", 1, "new"), ("c", 3, "c")))
    return made


def put(lake: Lake, events: tuple[tuple[str, int, str], ...]) -> None:
    for op, key, value in events:
        record = event(sum(map(len, lake.log.get("t", {}).values())), {"id": key, "v": value}, op=op)
        record.key = json.dumps({"id": key})
        lake.put("t", record)
    lake.append(lake.all_of("t"))


def rows(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["sql", "-o", "json", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("engine", [(), ("--spark",)], ids=["duckdb", "spark"])
def test_both_engines_answer_the_same(lake: Lake, engine: tuple[str, ...]) -> None:
    shown = ("--show-sensitive", *engine)
    assert rows("SELECT id, v FROM silver.source.t ORDER BY id", *shown) == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    now = rows("SELECT id, v FROM silver_now.source.t ORDER BY id", *shown)
    assert [(row["id"], row["v"]) for row in now] == [(1, "new"), (2, "b"), (3, "c")]
    assert rows("SELECT count(*) AS n FROM bronze.source.t", *engine) == [{"n": 4}]
    joined = "SELECT count(*) AS n FROM silver.source.t s JOIN silver_now.source.t n ON s.id = n.id WHERE s.v <> n.v"
    assert rows(joined, *engine) == [{"n": 1}]
    hidden = [row["v"] for row in rows("SELECT v FROM silver.source.t", *engine)]
    assert all(value.startswith("hash:") for value in hidden)
    assert len(set(hidden)) == 2


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT * FROM silver.source.tt", "no table silver.source.tt; near: silver.source.t"),
        ("INSERT INTO silver.source.t VALUES (9, 'x')", "PARSE_SYNTAX_ERROR"),
        ("DROP VIEW silver.source.t", "PARSE_SYNTAX_ERROR"),
        ("SELECT * FROM history.source.t", "no table history.source.t"),
        ("SELECT * FROM quarantine.source.t", "nothing of it is in the lake yet"),
    ],
)
def test_spark_only_reads(lake: Lake, statement: str, told: str) -> None:
    done = CliRunner().invoke(app, ["sql", "--spark", statement])
    assert isinstance(done.exception, RefusalError), (done.output, done.exception)
    assert told in str(done.exception)


def test_what_arrow_does_not_fold_is_left_to_spark(lake: Lake) -> None:
    statement = "SELECT id FROM silver_now.source.t ORDER BY id"
    put(lake, (("x", 2, "no event of a row"),))
    done = CliRunner().invoke(app, ["sql", statement])
    assert "cdc sql --spark" in str(done.exception)
    assert rows(statement, "--spark") == [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.mark.parametrize("engine", [(), ("--spark",)], ids=["duckdb", "spark"])
def test_both_engines_know_that_the_table_was_emptied(lake: Lake, engine: tuple[str, ...]) -> None:
    lake.put("t", event(4, None, op="t"))
    lake.append(lake.all_of("t"))
    assert rows("SELECT * FROM silver_now.source.t", *engine) == []
