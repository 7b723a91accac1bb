"""`cdc quarantine` against a live source: poison and values that do not fit, looked at, counted, folded after a fix, given up.

The table is PostgreSQL's own; what is in quarantine was sent by Debezium, but for the poison at the head of the topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.defs.check_specs import QUARANTINE_EMPTY
from cdc_assets.defs.lake_assets import build_silver_assets
from cdc_assets.defs.volumetry_checks import quarantine_check
from cdc_assets.registry import names
from cdc_assets.registry.errors import FailuresError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "held/tight"
DDL = (
    "CREATE TABLE tight (id int PRIMARY KEY, n smallint, note text)",
    "CREATE TABLE tight_past (at bigserial, id int, seen text)",
    "CREATE FUNCTION tight_past() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN INSERT INTO tight_past (id, seen) VALUES (NEW.id, NEW.n || NEW.note); RETURN NULL; END'",
    "CREATE TRIGGER tight_past AFTER INSERT OR UPDATE ON tight FOR EACH ROW EXECUTE FUNCTION tight_past()",
    "INSERT INTO tight VALUES (1, 1, 'a'), (2, 2, 'a')",
)
TOO_LARGE = (
    "ALTER TABLE tight ALTER n TYPE integer",
    "UPDATE tight SET n = 70000 WHERE id = 1",
    "UPDATE tight SET note = 'b' WHERE id = 1",
    "INSERT INTO tight VALUES (3, 70000, 'a')",
    "UPDATE tight SET n = 3 WHERE id = 3",  # Newer than the record that is folded later.
    "UPDATE tight SET n = 5 WHERE id = 2",
)


@dataclass
class Held:
    """A chain of one table, its declaration on file for the command line."""

    chain: SmallChain
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def declare(self, **policy: Any) -> None:
        """Declare the table with this policy from now on."""
        table = {"name": "public.tight", "history": "scd2", **policy}
        self.chain.source = self.chain.live.source([table])
        text = self.chain.source.model_dump_json(exclude_unset=True, by_alias=True)
        # Another folder each time: what was read of a file is kept.
        folder = self.folder / str(len(list(self.folder.iterdir())))
        folder.mkdir()
        (folder / "held.yaml").write_text(text)
        self.monkeypatch.setenv("CDC_SOURCES", str(folder))

    def cdc(self, *words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ["quarantine", *words, *(() if words[0] == "show" else ("-o", "json"))])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def listed(self, *words: str) -> list[tuple[int, str]]:
        return [(row["offset"], row["error_class"]) for row in self.cdc("list", *words)]

    def materialize(self) -> dict[str, Any]:
        """Silver by Dagster, and what the check of its quarantine says."""
        self.chain.advance(fold=False)
        source: Source = self.chain.source
        silver, checks = build_silver_assets(source), quarantine_check.build(source)
        resources = {"platform": self.chain.platform}
        made = dg.materialize([silver], resources=resources)
        selection = dg.AssetSelection.checks_for_assets(silver)
        looked = dg.materialize([silver, *checks], resources=resources, selection=selection, raise_on_error=False)
        (check,) = [e for e in looked.get_asset_check_evaluations() if e.check_name == QUARANTINE_EMPTY.name]
        (event,) = made.asset_materializations_for_node("cdc_silver_held")
        told = event.metadata["dagster/column_schema"].value.columns  # type: ignore[union-attr]
        columns = {c.name: c.constraints.other[0].removeprefix("at the source: ") for c in told if c.constraints.other}
        return {"passed": check.passed, "columns": columns, **{key: value.value for key, value in check.metadata.items()}}

    def in_silver(self) -> dict[int, tuple[int, str]]:
        return {row["id"]: (row["n"], row["note"]) for row in rows(self.chain.silver("tight"))}

    def past(self) -> list[tuple[int, str]]:
        path = names.history_path(str(self.chain.root), self.chain.source, self.chain.source.tables[0])
        found = sorted(rows(path), key=lambda row: row["_valid_from"])
        return [(row["id"], f"{row['n']}{row['note']}") for row in found]

    def query(self, sql: str) -> list[Any]:
        with self.chain.live.connection() as connection:
            return connection.execute(sql.encode()).fetchall()


@pytest.fixture
def held(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    own = replace(live, name="held")
    run(own, *DDL)
    (tmp_path / "sources").mkdir()
    for name, value in (("CDC_LAKE", str(tmp_path / "lake")), ("CDC_SPARK_REMOTE", remote)):
        monkeypatch.setenv(name, value)
    with small_chain(own, remote, session, tmp_path / "lake", ["public.tight"]) as chain:
        yield Held(chain, tmp_path / "sources", monkeypatch)


def run(live: LiveSource, *statements: str) -> None:
    with live.connection() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def poison(chain: SmallChain, count: int) -> None:
    producer = Producer({"bootstrap.servers": chain.live.bootstrap})
    for _ in range(count):
        producer.produce(names.topic(chain.source, chain.source.tables[0]), b"no event", partition=0)
    producer.flush()


@pytest.mark.all
@pytest.mark.stack
def test_looked_at_folded_after_a_fix_or_given_up(held: Held) -> None:
    held.declare(schema_changes={"widen": "ignore"})
    poison(held.chain, 1)
    run(held.chain.live, *TOO_LARGE)
    check = held.materialize()
    # Neither the poison nor what does not fit has stopped what is behind it.
    assert held.in_silver() == {1: (1, "a"), 2: (5, "a"), 3: (3, "a")}
    found = held.cdc("list")
    head, one, two, _ = (row["offset"] for row in found)
    assert [row["error_class"] for row in found] == ["envelope", "value", "value", "value"]
    assert check["columns"] == {"id": "integer", "n": "smallint", "note": "text"}
    oldest = min(row["first_seen"] for row in found)
    assert (check["passed"], check["cdc/quarantined"], check["cdc/oldest"].replace(" ", "T")) == (False, 4, oldest)
    assert held.listed(TABLE, "--class", "envelope") == [(head, "envelope")]
    assert held.listed("held", "--offset", str(two), "--partition", "0") == [(two, "value")]
    (shown,) = held.cdc("show", TABLE, str(one))
    assert json.loads(shown["value"])["after"]["n"] == 70000
    assert held.cdc("redrive", TABLE, "--dry-run")["chosen"] == 4
    answer = held.cdc("redrive", TABLE, "--offset", str(one), code=1)
    assert (answer["chosen"], answer["redriven"], answer["left"]) == (1, 0, 1)
    mended(held, head)
    halted(held, head)


def mended(held: Held, head: int) -> None:
    """The policy is the fault: with another one each record takes its place in the order."""
    held.declare()
    assert held.cdc("redrive", TABLE, "--class", "value")["redriven"] == 3
    assert held.listed() == [(head, "envelope")]
    assert held.in_silver() == {id_: tuple(row) for id_, *row in held.query("SELECT * FROM tight")}
    seen = held.query("SELECT id, seen FROM tight_past ORDER BY at")
    assert sorted(held.past()) == sorted(seen)
    assert [v for k, v in held.past() if k == 1] == [v for k, v in seen if k == 1] == ["1a", "70000a", "70000b"]


def halted(held: Held, head: int) -> None:
    """More than the table may hold: it stops as it is, until somebody decides."""
    held.declare(quarantine={"max_records": 2})
    poison(held.chain, 2)
    run(held.chain.live, "UPDATE tight SET note = 'c' WHERE id = 2")
    with pytest.raises(FailuresError, match="3 records in quarantine, its limit is 2; .*cdc quarantine list"):
        held.materialize()
    assert held.in_silver()[2] == (5, "a")
    assert held.cdc("drop", TABLE, "--class", "envelope", "--dry-run")["dropped"] == 0
    assert len(held.listed()) == 3
    assert held.cdc("drop", TABLE, "--offset", str(head))["dropped"] == 1
    assert held.cdc("drop", TABLE, "--class", "envelope")["dropped"] == 2
    check = held.materialize()
    assert (check["passed"], held.listed(), held.in_silver()[2]) == (True, [], (5, "c"))
    assert check["columns"]["n"] == "integer"
    assert len(held.listed("--all")) == 6
