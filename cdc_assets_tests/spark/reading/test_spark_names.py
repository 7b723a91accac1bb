"""`cdc sql --register`: a client of Spark's that knows nothing of us finds the lake's tables by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs.stack_verbs import make_names_again
from cdc_assets.registry.durable_file import replace_json
from cdc_assets.registry.errors import RefusalError
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENT = """
import json, sys
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).create()
assert not {name.split(".")[0] for name in sys.modules} & {"cdc_assets", "spark"}
print(json.dumps([[*row] for row in session.sql(sys.argv[2]).collect()]))
session.stop()
"""


@pytest.fixture
def lake(tmp_path: Path, remote: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Rows 1 and 2 in silver, by two events; the server has none of our names before."""
    (tmp_path / "sources").mkdir()
    declare(tmp_path, sensitive="[v]")
    for name, value in {"CDC_HOME": "home", "CDC_SOURCES": "sources", "CDC_LAKE": "lake"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    clear(session)
    made = Lake(session, tmp_path / "lake")
    for key, value in ((1, "a"), (2, "b")):
        put(made, key, value)
    made.fold(made.spec("t"))
    return made


def declare(folder: Path, *, sensitive: str) -> None:
    (folder / "sources" / "source.yaml").write_text(f"{SOURCE}    sensitive: {sensitive}\n")


def clear(session: SparkSession) -> None:
    for database in ("silver_source", "bronze_source", "bronze"):
        session.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def put(lake: Lake, key: int, value: str) -> None:
    record = event(sum(map(len, lake.log.get("t", {}).values())), {"id": key, "v": value}, op="c")
    record.key = json.dumps({"id": key})
    lake.put("t", record)
    lake.append(lake.all_of("t"))


def register(*words: str) -> Result:
    done = CliRunner().invoke(app, ["sql", "--register", "-o", "json", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def registered(*words: str) -> dict[str, str]:
    return {row["name"]: row["table"] for row in json.loads(register(*words).stdout)}


def recall_names(home: Home) -> subprocess.CompletedProcess[str]:
    """What the supervisor runs once Spark is healthy again, with nothing but CDC_HOME of it."""
    places = ("CDC_LAKE", "CDC_SPARK_REMOTE", "CDC_SOURCES")
    told = {name: value for name, value in os.environ.items() if name not in places}
    command = [sys.executable, "-m", "cdc_assets.reading.spark_catalog"]
    return subprocess.run(command, env={**told, "CDC_HOME": str(home.root)}, capture_output=True, text=True, check=False)


def foreign(remote: str, statement: str, folder: Path) -> list[list[Any]]:
    """By a process elsewhere, which has nothing but PySpark."""
    command = [sys.executable, "-I", "-c", CLIENT, remote, statement]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[Any]] = json.loads(done.stdout)
    return found


@pytest.mark.all
def test_a_foreign_client_reads_the_source_by_name(lake: Lake, remote: str, session: SparkSession, tmp_path: Path) -> None:
    names = {"silver_source.t": "silver.source.t", "bronze_source.t": "bronze.source.t", "bronze.source": "bronze.source"}
    assert registered("--show-sensitive") == names
    rows = "SELECT id, v FROM silver_source.t ORDER BY id"
    assert foreign(remote, rows, tmp_path) == [[1, "a"], [2, "b"]]
    put(lake, 3, "c")
    lake.fold(lake.spec("t"))
    assert foreign(remote, rows, tmp_path) == [[1, "a"], [2, "b"], [3, "c"]], "a name is the table, and not a moment of it"
    assert foreign(remote, "SELECT count(*), count(DISTINCT value) FROM bronze_source.t", tmp_path) == [[3, 3]]
    for statement in ("INSERT INTO silver_source.t SELECT * FROM silver_source.t", "DELETE FROM silver_source.t"):
        with pytest.raises(Exception, match="(?i)view"):
            session.sql(statement).collect()


def test_sensitive_values_are_hashes_unless_asked_for(lake: Lake, session: SparkSession) -> None:
    assert "silver.source.t.v" in register().stderr
    for name, column in (("silver_source.t", "v"), ("bronze_source.t", "value"), ("bronze.source", "key")):
        hashes = [row[0] for row in session.sql(f"SELECT {column} FROM {name}").collect()]
        assert [len(each) for each in hashes] == [21, 21]
        assert all(each.startswith("hash:") for each in hashes)
        assert len(set(hashes)) == 2
    assert [*session.table("silver_source.t").columns][:2] == ["id", "v"]


@pytest.mark.all
def test_a_server_of_the_stack_gets_them_again(
    lake: Lake, remote: str, session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home").create()
    assert "again" not in register("--show-sensitive").stderr, "a server of the user's keeps its own catalog"
    make_names_again(home)
    assert capsys.readouterr().err == ""
    # Now the server is the stack's own.
    places = {"CDC_LAKE": str(tmp_path / "lake"), "CDC_SOURCES": str(tmp_path / "sources"), "CDC_SPARK_REMOTE": remote}
    replace_json(home.stack, {"environment": places})
    assert "made again when it starts again, until cdc sql --no-register" in register("--show-sensitive").stderr
    clear(session)
    make_names_again(home)
    assert "3 names in Spark's catalog" in capsys.readouterr().err
    assert {tuple(row) for row in session.table("silver_source.t").select("id", "v").collect()} == {(1, "a"), (2, "b")}
    clear(session)
    recalled = recall_names(home)
    assert (recalled.returncode, recalled.stdout) == (0, "3 names in Spark's catalog, as cdc sql --register has asked for\n")
    assert session.table("silver_source.t").count() == 2
    session.sql("CREATE OR REPLACE VIEW silver_source.t AS SELECT 'theirs' AS whose")
    refused = recall_names(home)
    assert refused.returncode == 1
    assert "not made for this lake: silver_source.t" in refused.stderr.splitlines()[-1]
    make_names_again(home)
    told = capsys.readouterr().err
    assert "were not made again" in told
    assert "silver_source.t" in told
    session.sql("DROP VIEW silver_source.t")
    dropped = CliRunner().invoke(app, ["sql", "--no-register"])
    assert "dropped: bronze.source, bronze_source.t" in dropped.stderr
    make_names_again(home)
    assert capsys.readouterr().err == ""
    assert not session.catalog.databaseExists("bronze_source")


@pytest.mark.all
def test_what_the_registry_no_longer_has_is_dropped(lake: Lake, session: SparkSession, tmp_path: Path) -> None:
    register()
    session.sql("CREATE VIEW bronze.of_others AS SELECT 1 AS one")
    file = tmp_path / "sources" / "source.yaml"
    file.write_text(file.read_text().replace("source: source", "source: other"))
    done = register()
    assert json.loads(done.stdout) == []
    assert "dropped: bronze.source, bronze_source.t, silver_source.t" in done.stderr
    left = {each.name for each in session.catalog.listDatabases()}
    assert ("bronze" in left, "silver_source" in left) == (True, False)
    # The session's own views, which comparisons leave, are in every database's list.
    assert [each.name for each in session.catalog.listTables("bronze") if not each.isTemporary] == ["of_others"]
    clear(session)


@pytest.mark.all
def test_a_name_of_others_is_left_alone(lake: Lake, session: SparkSession) -> None:
    session.sql("CREATE DATABASE silver_source")
    session.sql("CREATE VIEW silver_source.t AS SELECT 'theirs' AS whose")
    done = CliRunner().invoke(app, ["sql", "--register"])
    assert isinstance(done.exception, RefusalError)
    assert "not made for this lake: silver_source.t" in str(done.exception)
    assert session.table("silver_source.t").collect()[0][0] == "theirs"
    assert not session.catalog.databaseExists("bronze_source")
    clear(session)
