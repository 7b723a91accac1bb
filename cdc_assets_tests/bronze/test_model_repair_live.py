"""`cdc repair model`, as the messages name it: past a statement that Debezium cannot parse, and of tables that it misreads.

The oracle is the server, read by SQL; silver is read by delta-rs.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from cdc_assets import names
from cdc_assets.defs.assets.bronze import build_bronze_assets
from cdc_assets.defs.assets.silver import build_silver_assets
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry_files.loader import load_source
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import carry_to_lake
from cdc_assets_tests.support.live.cdc import Cdc, Lake, declared_in
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.servers.mysql_worker import NAME as MYSQL_WORKER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.service, pytest.mark.all]

# Of each table: its columns and first row.
TABLES = {
    "sound": ("id int PRIMARY KEY, v varchar(9)", "1, 'é'"),
    "shifted": ("id int PRIMARY KEY, item_id int", "1, 10"),
    "swapped": ("id int PRIMARY KEY, a int, b int", "1, 2, 3"),
    "grown": ("id int PRIMARY KEY, v varchar(9)", "1, 'a'"),
    "twice": ("id int PRIMARY KEY", "1"),
}
# What Debezium's grammar does not have, of a table that nobody declares.
FOREIGN = {
    "mysql": (
        "CREATE TABLE {0}.n5 (id int PRIMARY KEY) PARTITION BY KEY(id) PARTITIONS 3",
        "ALTER TABLE {0}.n5 REORGANIZE PARTITION",
    ),
    "mariadb": ("CREATE TABLE {0}.n5 (id int PRIMARY KEY)", "ALTER TABLE {0}.n5 ADD\n SYSTEM   VERSIONING"),
}
# The same, and it adds a column to a declared one; its definition can be read.
GROWN = {
    "mysql": (
        """ALTER TABLE grown ADD n int DEFAULT (JSON_VALUE('{"a": 1}', '$.a' RETURNING SIGNED))""",
        "ALTER TABLE grown ALTER n SET DEFAULT 7",
    ),
    "mariadb": ("ALTER TABLE grown ADD n VARCHARACTER(5) DEFAULT '7'",),
}


@dataclass
class Ground:
    """One source, captured and mirrored by the product's own connectors."""

    kind: str
    own: LiveBinlog
    cdc: Cdc
    platform: Platform

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def source(self) -> CapturedSource:
        found = load_source(self.cdc.folder / f"{self.name}.yaml").captured
        assert found is not None
        return found

    @property
    def connector(self) -> str:
        return names.connector_name(self.source)

    def declare(self) -> None:
        database = self.own.source(["any.table"]).database.model_dump(mode="json", exclude_none=True)
        tables = [{"name": f"{self.name}.{table}"} for table in TABLES]
        signals = {"reconciliation": {"signals": f"cdc_assets.signal_{self.name}"}} if self.kind == "mysql" else {}
        file = self.cdc.folder / f"{self.name}.yaml"
        file.write_text(json.dumps({"source": self.name, "database": database, "tables": tables, **signals}))

    def play(self, *statements: str) -> None:
        with self.own.server.connect(database=self.name) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def carry(self) -> str:
        """What is committed now is in bronze, and in silver; why not all of it is."""
        self.own.delivered()
        carry_to_lake(self.platform, self.source, deadline=180)
        return self.fold()

    def fold(self) -> str:
        assets = [build_bronze_assets(self.source), build_silver_assets(self.source)]
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(assets, instance=instance, resources={"platform": self.platform}, raise_on_error=False)
            failures = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
            return "\n".join(error.cause.message if error and error.cause else str(error) for error in failures)

    def status(self) -> str:
        (row,) = [row for row in self.cdc.json("get", "connectors") if row["name"] == self.connector]
        return str(row["trace"])

    def mend(self, text: str) -> Any:
        """To the letter: the command that the text names."""
        commands = set(re.findall(r"Mend: (cdc repair model \S+(?: \w+)?)", text.replace(", which goes past it", "")))
        assert len(commands) == 1, text
        return self.cdc.json(*shlex.split(commands.pop())[1:])

    def hold(self) -> str:
        """Why a table is held, once that can be told: the connector stores its offset now and then."""
        told, deadline = self.carry(), time.monotonic() + 120
        while "Mend: " not in told:
            assert time.monotonic() < deadline, told
            told = self.fold()
        return told

    def is_equal(self, table: str) -> bool:
        rows = self.own.server.query(f"SELECT * FROM {self.name}.{table} ORDER BY id")
        query = (
            f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{self.name}' AND table_name = '{table}'"
        )
        columns = [str(row[0]) for row in self.own.server.query(query + " ORDER BY ordinal_position")]
        path = names.silver_path(self.platform.lake, self.source, self.source.table(f"{self.name}.{table}"))
        found = DeltaTable(path).to_pyarrow_table().to_pylist()
        there = sorted((tuple(row.get(column) for column in columns) for row in found), key=repr)
        assert there == sorted((tuple(row) for row in rows), key=repr), (table, columns)
        return True


def until(condition: Callable[[], bool], what: str, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def ground(
    request: pytest.FixtureRequest, lake: Lake, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    kind: str = request.param
    live: LiveBinlog = request.getfixturevalue(kind)
    own = live.renamed(f"mend{kind}")
    made = [f"CREATE TABLE {own.name}.{name} ({columns})" for name, (columns, _) in TABLES.items()]
    rows = [f"INSERT INTO {own.name}.{name} VALUES ({row})" for name, (_, row) in TABLES.items()]
    rights = ["GRANT XA_RECOVER_ADMIN ON *.* TO cdc"] if kind == "mysql" else []
    rights += ["GRANT CREATE, INSERT, DELETE, SELECT ON cdc_assets.* TO cdc"]
    own.server.execute(f"CREATE DATABASE {own.name}", "CREATE DATABASE IF NOT EXISTS cdc_assets", *made, *rows, *rights)
    own.write_secret()
    with declared_in(tmp_path_factory.mktemp("sources"), own.live, lake) as make, pytest.MonkeyPatch.context() as patch:
        if kind == "mysql":
            topics = ",".join(f"_{MYSQL_WORKER}-{what}" for what in ("configs", "offsets", "status"))
            patch.setenv("CDC_CORE_CONNECT_TOPICS", topics)
        patch.setenv("CDC_SPARK_REMOTE", remote)
        patch.setenv("CDC_LAKE", str(tmp_path_factory.mktemp("lake")))
        ground = Ground(kind, own, make(own.name), Platform())
        ground.declare()
        assert [row["summary"] for row in ground.cdc.json("apply", own.name)] == ["created", "created"]
        assert ground.carry() == ""
        yield ground
    lake.connect.delete(f"{own.name}-mirror")
    own.connect.delete(names.connector_name(own.source(["any.table"])))


def stands(ground: Ground) -> str:
    """What the connector says, once it has failed."""
    until(lambda: ground.status() != "", "the connector goes on")
    return ground.status()


def test_a_statement_of_a_table_that_nobody_declares_is_passed_over(ground: Ground) -> None:
    other = f"other{ground.kind}"
    made, altered = (text.format(other) for text in FOREIGN[ground.kind])
    ground.play(f"CREATE DATABASE {other}", made, altered, "INSERT INTO sound VALUES (2, '€')")
    told = stands(ground)
    shown = " ".join(altered.split())
    assert "Debezium stands at a statement (behind binlog.0" in told
    assert shown in told
    assert told.endswith(f"Mend: cdc repair model {ground.connector}, which goes past it")
    assert "would pass over the statement at binlog.0" in ground.cdc("repair", "model", ground.name, "--dry-run")
    done = ground.mend(told)
    assert [" ".join(passed["statement"].split()) for passed in done["passed"]] == [shown]
    assert re.fullmatch(r"binlog\.\d+:\d+", done["passed"][0]["place"])
    assert done["read_again"] == []
    # Nothing of it is left, and the connector starts again from what it has written down.
    assert not [key for key in ground.own.connect.config(ground.connector) or {} if "ddl.filter" in key]
    ground.own.connect.stop(ground.connector)
    ground.own.connect.resume(ground.connector)
    ground.own.connect.wait_running(ground.connector)
    assert ground.carry() == ""
    assert ground.is_equal("sound")


def test_a_table_that_is_misread_is_held_until_it_is_read_again(ground: Ground) -> None:
    ground.play(
        "ALTER TABLE shifted ADD COLUMN kind int DEFAULT 5 AFTER thing_id, CHANGE COLUMN item_id thing_id int",
        "INSERT INTO shifted VALUES (2, 20, 7)",
        "INSERT INTO sound VALUES (3, 'ž')",
    )
    told = ground.hold()
    assert "since ALTER TABLE shifted ADD COLUMN kind" in told
    assert ground.is_equal("sound")
    done = ground.mend(told)
    assert (done["passed"], done["read_again"]) == ([], [f"{ground.name}__shifted"])
    ground.play("INSERT INTO shifted VALUES (3, 30, 8)", "UPDATE shifted SET kind = 9 WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("shifted")


def test_rows_between_two_statements_are_held_until_they_are_read_again(ground: Ground) -> None:
    """When somebody looks the model is right again; the row came by one that was not."""
    ground.play(
        "ALTER TABLE twice ADD r REAL",
        "INSERT INTO twice VALUES (2, 3.141592653589793)",
        "ALTER TABLE twice MODIFY r DOUBLE",
        "INSERT INTO twice VALUES (3, 2.718281828459045)",
    )
    told = ground.hold()
    assert "1 event that silver has not folded yet came by a model that was never compared" in told
    done = ground.mend(told)
    assert (done["passed"], done["read_again"]) == ([], [f"{ground.name}__twice"])
    assert ground.carry() == ""
    assert ground.is_equal("twice")


def test_a_connector_that_rows_have_stopped_goes_on(ground: Ground) -> None:
    ground.play(
        "ALTER TABLE swapped RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "INSERT INTO swapped (id, a, b) VALUES (2, 5, 6)",
        "INSERT INTO sound VALUES (4, 'x')",
    )
    told = stands(ground)
    assert "rows of table swapped do not fit Debezium's model" in told
    done = ground.mend(told)
    assert done["read_again"] == [f"{ground.name}__swapped"]
    ground.play("INSERT INTO swapped (id, a, b) VALUES (3, 7, 8)", "DELETE FROM swapped WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("swapped")
    assert ground.is_equal("sound")


def test_a_statement_of_a_declared_table_is_passed_over_and_the_table_read_again(ground: Ground) -> None:
    ground.play("INSERT INTO grown VALUES (2, 'b')", *GROWN[ground.kind], "INSERT INTO grown (id, v) VALUES (3, 'c')")
    told = stands(ground)
    assert "ALTER TABLE grown ADD n" in told
    done = ground.mend(told)
    assert [passed["statement"] for passed in done["passed"]][:1] == [GROWN[ground.kind][0]]
    assert done["read_again"] == [f"{ground.name}__grown"]
    ground.play("INSERT INTO grown (id, v) VALUES (4, 'd')", "UPDATE grown SET n = 9 WHERE id = 1")
    assert ground.carry() == ""
    assert ground.is_equal("grown")
