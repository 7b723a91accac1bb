"""Tables as they are now, as readers find them: pyarrow, DuckDB, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.reading.silver_now import CurrentTable, now, register, register_in_spark
from cdc_assets.registry.errors import DatabaseError
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from spark.errors import LeftToSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class World:
    """A lake, its registry, and a source of one table whose rows are known."""

    def __init__(self, root: Path, session: SparkSession) -> None:
        self.lake, self.offset = Lake(session, root / "lake"), 0
        (root / "sources").mkdir()
        (root / "sources" / "source.yaml").write_text(SOURCE)
        self.platform = Platform(lake_root=str(root / "lake"))

    def write(self, op: str, key: int, value: str = "") -> None:
        record = event(self.offset, None if op in "dt" else {"id": key, "v": value}, op=op)
        record.key = json.dumps({"id": key})
        self.lake.put("t", record)
        self.offset += 1

    def append(self) -> None:
        self.lake.append(self.lake.all_of("t"))

    def fold(self) -> None:
        self.lake.fold(self.lake.spec("t"))


@pytest.fixture
def world(tmp_path: Path, remote: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path, session)
    variables = {"CDC_HOME": tmp_path / "home", "CDC_SOURCES": tmp_path / "sources", "CDC_LAKE": tmp_path / "lake"}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    return made


def grown(world: World) -> None:
    """Rows 1 to 3 in silver; behind it 1 is changed, 2 is gone, 4 is new."""
    for key in (1, 2, 3):
        world.write("c", key, f"old {key}")
    world.append()
    world.fold()
    world.write("u", 1, "new 1")
    world.write("d", 2)
    world.write("c", 4, "new 4")
    world.append()


ROWS = [(1, "new 1"), (3, "old 3"), (4, "new 4")]


@pytest.mark.all
def test_duckdb_has_a_view_that_follows_bronze(world: World) -> None:
    grown(world)
    connection = duckdb.connect()
    assert register(connection, "source", platform=world.platform) == ["silver_now.source_t"]

    def shown(sql: str = "SELECT id, v FROM silver_now.source_t ORDER BY id") -> list[tuple[Any, ...]]:
        return connection.execute(sql).fetchall()

    assert shown() == ROWS
    world.write("c", 5, "newest")
    world.append()
    assert shown() == [*ROWS, (5, "newest")]
    world.fold()
    assert shown() == [*ROWS, (5, "newest")]
    assert shown("SELECT count(*), min(_cdc_op) FROM silver_now.source_t WHERE id > 3") == [(2, "c")]
    register(connection, "source", ["t"], platform=world.platform)
    assert len(shown()) == 4


@pytest.mark.all
def test_arrow_reads_it_by_its_own_protocol(world: World) -> None:
    grown(world)
    table = now("source", "t", platform=world.platform)
    assert [(row["id"], row["v"]) for row in sorted(pa.table(table).to_pylist(), key=lambda r: r["id"])] == ROWS
    assert pa.schema(table) == pa.table(table).schema
    some = CurrentTable(table.source, table.table, world.platform, {"id": "1"})
    assert some.to_arrow(["v"]).to_pylist() == [{"v": "new 1"}]
    by_number = CurrentTable(table.source, table.table, world.platform, {"id": 1})
    assert by_number.to_arrow(["v"]).to_pylist() == [{"v": "new 1"}]
    assert CurrentTable(table.source, table.table, world.platform, {"v": "old 1"}).to_arrow().num_rows == 0
    assert CurrentTable(table.source, table.table, world.platform, {"v": "old 3"}).to_arrow().num_rows == 1
    assert CurrentTable(table.source, table.table, world.platform, {"id": "2"}).to_arrow().num_rows == 0


def test_what_is_not_there_is_told(world: World) -> None:
    with pytest.raises(DatabaseError, match="nothing of it is in the lake yet"):
        now("source", "t", platform=world.platform).look()
    with pytest.raises(DatabaseError, match="no source sauce; there are: source"):
        now("sauce", "t")
    with pytest.raises(DatabaseError, match="source has no table u; it has: t"):
        now("source", "u")
    grown(world)
    table = now("source", "t", platform=world.platform)
    with pytest.raises(DatabaseError, match="t has no column w; it has: id, v"):
        table.to_arrow(["w"])
    with pytest.raises(DatabaseError, match="'x' is no value of column id, which is int32"):
        CurrentTable(table.source, table.table, world.platform, {"id": "x"}).to_arrow()
    with pytest.raises(DatabaseError, match="None is asked for in column id: give a text"):
        CurrentTable(table.source, table.table, world.platform, {"id": None}).to_arrow()  # type: ignore[dict-item]
    world.write("x", 0)
    world.append()
    with pytest.raises(LeftToSparkError, match="source/t: only Spark shows .* now: a record that is no c, u, d or r"):
        table.look()


def test_the_command_prints_them(world: World) -> None:
    grown(world)
    run = CliRunner().invoke

    def rows(*more: str) -> list[dict[str, Any]]:
        done = run(app, ["now", "source", "t", "-o", "json", *more])
        assert done.exit_code == 0, done.output
        return sorted(json.loads(done.stdout), key=lambda row: row["id"])

    assert [(row["id"], row["v"]) for row in rows()] == ROWS
    assert [row["id"] for row in rows("--where", "id=3")] == [3]
    assert len(rows("--limit", "2")) == 2
    text = run(app, ["now", "source", "t"])
    assert text.stdout.split("\n")[0].split() == ["ID", "V"]
    assert run(app, ["now", "source", "t", "--where", "id"]).exit_code == 2


@pytest.mark.all
def test_spark_has_views_that_other_sessions_find(world: World, session: SparkSession, remote: str) -> None:
    grown(world)
    world.write("t", 0)
    world.write("c", 9, "behind a TRUNCATE")
    world.append()
    assert register_in_spark(session, "source", platform=world.platform) == ["silver_now_source_t"]
    assert [(row.id, row.v) for row in session.table("silver_now_source_t").collect()] == [(9, "behind a TRUNCATE")]
    (name,) = register_in_spark(session, "source", ["t"], everywhere=True, platform=world.platform)
    assert name == "global_temp.silver_now_source_t"
    found = SparkSessions(remote).run(lambda other, sql: [row.id for row in other.sql(sql).collect()], f"SELECT id FROM {name}")
    assert found == [9]
    session.sql(f"DROP VIEW {name}")
    done = CliRunner().invoke(app, ["now", "source", "t", "-o", "json", "--where", "id=9"])
    assert (done.exit_code, [row["v"] for row in json.loads(done.stdout)]) == (0, ["behind a TRUNCATE"]), done.output
    assert "read by Spark: a record that is no c, u, d or r" in done.stderr
