"""`cdc replay` on a table of PostgreSQL: broken by hand, made again, and held against the source's own rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.silver_fold import fold_table
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.asset_specs import asset_key
from cdc_assets.defs.jobs_on_demand import build_replay_job
from cdc_assets.proof.healing import heal
from cdc_assets.registry import names
from cdc_assets.registry.errors import SparkRunError
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.proof.key_order import KeyRange, TwoRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

DDL = (
    "CREATE TABLE {t} (id int PRIMARY KEY, part int NOT NULL, email text, amount numeric(10,2))",
    # A delete names all columns then, those of a key that is declared later too.
    "ALTER TABLE {t} REPLICA IDENTITY FULL",
    "INSERT INTO {t} SELECT n, n % 3, 'person' || n || '@example.org', n / 4.0 FROM generate_series(1, 40) n",
)
CHANGES = (
    "UPDATE {t} SET amount = amount + 1 WHERE id % 2 = 0",
    "DELETE FROM {t} WHERE id % 5 = 0",
    "UPDATE {t} SET id = id + 100 WHERE id = 7",
)


@dataclass
class Again:
    """A chain of one table, its declaration on file for the command line."""

    chain: SmallChain
    folder: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def name(self) -> str:
        """Of the source, and of its table."""
        return str(self.chain.live.name)

    def run(self, *statements: str) -> None:
        with self.chain.live.connection() as connection:
            for statement in statements:
                connection.execute(statement.format(t=self.name).encode())

    def declare(self, **policy: Any) -> None:
        table = {"name": f"public.{self.name}", "history": "scd2", "sensitive": ["email"], **policy}
        self.chain.source = self.chain.live.source([table])
        folder = self.folder / str(len(list(self.folder.iterdir())))
        folder.mkdir()
        (folder / f"{self.name}.yaml").write_text(self.chain.source.model_dump_json(exclude_unset=True, by_alias=True))
        self.monkeypatch.setenv("CDC_SOURCES", str(folder))

    def through_dagster(self, **wanted: Any) -> Any:
        """By the job `replay`, swapped in; its answer."""
        config = {"ops": {"replay_table": {"config": {"source": self.name, "table": self.name, "dry_run": False, **wanted}}}}
        with dg.DagsterInstance.ephemeral() as instance:
            job, resources = build_replay_job(), {"platform": self.chain.platform}
            assert job.execute_in_process(config, instance=instance, resources=resources).success
            told = instance.get_latest_materialization_event(asset_key("silver", self.chain.source, self.chain.source.tables[0]))
        assert told is not None
        assert told.asset_materialization is not None
        assert told.asset_materialization.metadata["cdc/replay_swapped"].value is True
        return told.asset_materialization.metadata["cdc/replay"].value

    def cdc(self, *words: str) -> Any:
        result = CliRunner().invoke(app, ["replay", self.name, f"public.{self.name}", *words, "-o", "json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def fold(self) -> None:
        """An ordinary run, of silver and the history."""
        self.chain.advance(fold=False)
        (table,) = self.chain.source.tables
        found = catalogue_of(Chain(self.chain.platform, self.chain.source), [table])
        committed = bronze_committed(names.bronze_path(str(self.chain.root), self.chain.source))
        assert committed is not None
        fold_table(Chain(self.chain.platform, self.chain.source), table, found[table.id], committed.version, None)

    @property
    def past(self) -> str:
        return names.history_path(str(self.chain.root), self.chain.source, self.chain.source.tables[0])

    def in_source(self, where: str = "true") -> list[tuple[Any, ...]]:
        query = f"SELECT id, part, email, amount FROM {self.name} WHERE {where} ORDER BY id"
        with self.chain.live.connection() as connection:
            return connection.execute(query.encode()).fetchall()

    def in_silver(self) -> list[tuple[Any, ...]]:
        return of_rows(rows(self.chain.silver(self.name)))


def of_rows(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["part"], row["email"], row["amount"]) for row in found)


@pytest.fixture
def again(
    request: pytest.FixtureRequest,
    live: LiveSource,
    remote: str,
    session: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Again]:
    own = replace(live, name=request.param)
    with own.connection() as connection:
        for statement in DDL:
            connection.execute(statement.format(t=own.name).encode())
    (tmp_path / "sources").mkdir()
    for name, value in (("CDC_LAKE", str(tmp_path / "lake")), ("CDC_SPARK_REMOTE", remote)):
        monkeypatch.setenv(name, value)
    with small_chain(own, remote, session, tmp_path / "lake", [f"public.{own.name}"]) as chain:
        found = Again(chain, tmp_path / "sources", monkeypatch)
        found.declare()
        found.run(*CHANGES)
        found.fold()
        yield found


def current(path: str) -> list[tuple[Any, ...]]:
    return of_rows([row for row in rows(path) if row["_is_current"]])


@pytest.mark.parametrize("again", ["again"], indirect=True)
@pytest.mark.all
def test_broken_by_hand_made_again_and_taken_back(again: Again) -> None:
    silver, right = again.chain.silver(again.name), again.in_source()
    assert again.in_silver() == current(again.past) == right
    DeltaTable(silver).delete("id < 4")
    DeltaTable(silver).update(predicate="id = 6", updates={"email": "'somebody'", "amount": "0"})
    DeltaTable(again.past).delete("id < 4 OR id > 100")
    broken = again.in_silver()

    shown = again.cdc("--dry-run")
    assert (shown["swapped"], again.in_silver()) == (False, broken)
    assert shown["difference"]["silver"]["rows"] == {"added": 3, "changed": 1, "gone": 0, "moved": 0}
    (changed,) = (each for each in shown["difference"]["silver"]["examples"] if each["kind"] == "changed")
    assert changed["was"]["email"].startswith("hash:")
    assert changed["was"]["amount"] == "0.00"
    assert "example.org" not in json.dumps(shown)

    seen: list[list[tuple[Any, ...]]] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.append(again.in_silver())

    reader = threading.Thread(target=read)
    reader.start()
    done = again.cdc()
    over.set()
    reader.join()
    assert done["difference"]["history"]["rows"]["added"] > 0
    assert again.in_silver() == current(again.past) == right
    assert all(each in (broken, right) for each in seen)
    assert broken in seen

    again.run("UPDATE {t} SET amount = 9 WHERE id = 1", "INSERT INTO {t} VALUES (500, 1, 'new', 1)")
    again.fold()
    assert again.in_silver() == current(again.past) == again.in_source()
    assert again.cdc("--dry-run")["difference"]["silver"]["rows"] == {"added": 0, "changed": 0, "gone": 0, "moved": 0}
    assert again.cdc("--undo")["as_of"] == done["before"]
    assert again.in_silver() == broken
    again.fold()
    assert [row[0] for row in again.in_silver()] == [1, *(row[0] for row in broken), 500]
    assert not list(Path(again.chain.root).glob("replay/*/*"))


WHERE = [{"column": "part", "one_of": [0, 1]}, {"column": "email", "none_of": ["person4@example.org", "%s"]}]
CHOSEN = "part IN (0, 1) AND email IS DISTINCT FROM 'person4@example.org' AND email IS DISTINCT FROM '%s'"


@pytest.mark.all
@pytest.mark.parametrize("again", ["chosen"], indirect=True)
def test_other_rows_are_chosen(again: Again) -> None:
    """A replay brings the rows that `where` keeps; then rows come and go by their values, and the comparison knows."""

    def source() -> list[tuple[Any, ...]]:
        return again.in_source(CHOSEN)

    everything = again.in_source()
    again.declare(where=WHERE)
    again.run("UPDATE {t} SET amount = 9 WHERE id = 1")
    with pytest.raises(SparkRunError, match=r"holds all rows, and where says .* cdc replay chosen chosen"):
        again.fold()
    assert again.in_silver() == everything
    done = again.cdc()
    said = "rows: all rows -> part in (0, 1) and email not in (%s, person4@example.org)"
    assert done["rules"] == [f"{layer}: {said}" for layer in ("silver", "history")]
    again.fold()
    assert again.in_silver() == current(again.past) == source()
    assert 0 < len(source()) < len(again.in_source())
    again.run(
        "UPDATE {t} SET part = (part + 1) % 3 WHERE id % 2 = 0",
        "UPDATE {t} SET email = '%s' WHERE id = 3",
        "UPDATE {t} SET email = NULL WHERE id = 4",
        "UPDATE {t} SET id = id + 200 WHERE id IN (8, 9, 11)",
        "DELETE FROM {t} WHERE id IN (12, 13, 14)",
        "INSERT INTO {t} VALUES (300, 0, 'in', 1), (301, 2, 'out', 1)",
    )
    slices = [{}, {again.name: TwoRanges(KeyRange(("id",)), KeyRange(("id",)))}, {again.name: (1, 127)}]
    for each in slices:
        # Before the changes are folded, and so at a cut that silver is behind.
        (result,) = again.chain.compare(slices=each).values()
        assert (result.verdict, result.reason, result.differences) == ("equal", "", ())
    again.fold()
    assert again.in_silver() == current(again.past) == source()
    assert again.chain.history_told(again.name)[0] is True
    path, (lost, other) = again.chain.silver(again.name), (source()[0][0], 301)
    DeltaTable(path).update(predicate=f"id = {lost}", updates={"id": str(other)})
    for each in slices[:2]:
        (result,) = again.chain.compare(slices=each).values()
        assert {d.key: d.kind for d in result.differences} == {f"{lost};": "missing", f"{other};": "phantom"}
    assert heal(Chain(again.chain.platform, again.chain.source), again.chain.source.tables[0], result) == (2, 0)
    assert again.in_silver() == source()


@pytest.mark.parametrize("again", ["anew"], indirect=True)
@pytest.mark.all
def test_another_key_goes_through_dagster(again: Again) -> None:
    again.declare(keys=["id", "part"])
    again.run("UPDATE {t} SET amount = 9 WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    with pytest.raises(SparkRunError, match="cdc replay anew anew"):
        again.fold()
    answer = again.through_dagster()
    assert answer["rules"] == [f"{layer}: key: (id) -> (id, part)" for layer in ("silver", "history")]
    again.fold()
    assert again.in_silver() == current(again.past) == again.in_source()


def break_rows(again: Again) -> dict[int, Any]:
    """Three rows are changed by hand, in silver and in its history; what silver has in them then."""
    for path, current_alone in ((again.chain.silver(again.name), ""), (again.past, " AND _is_current")):
        DeltaTable(path).update(predicate=f"id IN (1, 2, 3){current_alone}", updates={"amount": "0"})
    return {row[0]: row for row in again.in_silver() if row[0] < 4}


def key_of(number: int) -> str:
    return json.dumps({"id": number})


@pytest.mark.parametrize("again", ["onlykeys"], indirect=True)
def test_rows_of_keys_alone(again: Again) -> None:
    right = {row[0]: row for row in again.in_source()}
    wrong = break_rows(again)
    done = again.cdc("--keys", "1", "--keys", key_of(2))
    assert (done["chosen_keys"], done["swapped"]) == (2, True)
    assert done["difference"]["silver"]["rows"]["changed"] == 2
    assert again.in_silver() == current(again.past) == sorted((right | {3: wrong[3]}).values())
    answer = again.through_dagster(keys=["3"])
    assert answer["chosen_keys"] == 1
    assert again.in_silver() == current(again.past) == again.in_source()


@pytest.mark.parametrize("again", ["intime"], indirect=True)
@pytest.mark.all
def test_rows_with_an_event_in_a_time(again: Again) -> None:
    """Of the three broken rows one has an event before the moment, one behind it."""

    def now() -> str:
        with again.chain.live.connection() as connection:
            connection.execute(b"SELECT pg_sleep(0.1)")
            (row,) = connection.execute(b"SELECT to_json(clock_timestamp() AT TIME ZONE 'UTC') #>> '{}'").fetchall()
            connection.execute(b"SELECT pg_sleep(0.1)")
        return f"{row[0]}Z"

    first = now()
    again.run("UPDATE {t} SET amount = amount + 1 WHERE id = 1")
    middle = now()
    again.run("UPDATE {t} SET amount = amount + 1 WHERE id = 2")
    last = now()
    again.fold()
    right = {row[0]: row for row in again.in_source()}
    wrong = break_rows(again)
    done = again.cdc("--from", first, "--to", middle)
    assert (done["chosen_keys"], done["swapped"]) == (1, True)
    assert again.in_silver() == current(again.past) == sorted((right | {key: wrong[key] for key in (2, 3)}).values())
    assert again.through_dagster(since=middle, until=last)["chosen_keys"] == 1
    assert again.in_silver() == current(again.past) == sorted((right | {3: wrong[3]}).values())
    assert again.cdc("--to", first)["swapped"] is True
    assert again.in_silver() == current(again.past) == again.in_source()
