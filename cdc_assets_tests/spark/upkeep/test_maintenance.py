"""Maintenance between random changes, killed at random: rows are a dictionary's, and our commits say the same as before."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from cdc_assets.clients.delta_log import bronze_committed, bronze_rows, silver_committed
from cdc_assets_tests.spark.upkeep.kills import Mortal
from cdc_assets_tests.support.lake.large_table import NAMES, LargeTable
from spark.bronze.change_log import BronzeTail
from spark.bronze.part_files import TABLE_PROPERTIES, commit_files
from spark.events.arrow_records import BRONZE_ARROW
from spark.silver import task_merge
from spark.specs import BronzeSpec
from spark.table.commit_metadata import Committed, CommittedTopic, Folded, TopicCommit, fold, silver_metadata, surviving
from spark.table.data_files import AddFile, write_file
from spark.table.delta_table import table_of
from spark.table.identifiers import table_at
from spark.table.needed_versions import Need
from spark.table.table_folder import open_folder
from spark.table.write_lease import lend_to_task
from spark.upkeep import file_rewrite
from spark.upkeep import table_maintenance as steps
from spark.upkeep.file_rewrite import figures_of, rows_gone, rows_of_file
from spark.upkeep.log_expiry import list_log
from spark.upkeep.maintenance_spec import Maintained, MaintenanceSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Silver(LargeTable):
    """Its commits say what it has folded, as those of every silver table do."""

    def __init__(self, path: Path, seed: int, keys: tuple[str, ...] = ()) -> None:
        super().__init__(str(path), seed, keys)
        self.told = self.folded()

    def metadata(self, operation_id: str) -> str:
        return silver_metadata(operation_id, self.folded(), {})

    def folded(self) -> Folded:
        return Folded(self.number, {"t": CommittedTopic("t", "id", 0, {0: self.number}, records=self.number)})

    def check(self) -> None:
        super().check()
        found = silver_committed(self.spec.path)
        assert found is not None
        assert (found.bronze_version, found.topics) == (self.told.bronze_version, self.told.topics)

    def change(self, *, late: bool = False) -> None:
        super().change(late=late)
        self.told = self.folded()


def spec_of(path: str, *needs: Need, seconds: float = 0.0) -> MaintenanceSpec:
    return MaintenanceSpec(path, time_travel=seconds, needs=needs, work_seconds=0.0)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files are many, few commits a long log."""
    monkeypatch.setattr(file_rewrite, "MOST_SMALL", 3)
    monkeypatch.setattr(steps, "CHECKPOINT_FROM", 4)
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.all) for seed in range(1, 10))])
def test_a_table_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: None, seed: int) -> None:
    table, choice, mortal = Silver(tmp_path, seed), random.Random(seed), Mortal(monkeypatch)
    path, killed = table.spec.path, 0
    for number in range(24):
        table.change(late=number % 5 == 4)
        if choice.random() < 0.5:
            spec = spec_of(path)
            killed += not mortal.allow(choice.choice((0, 1, 2, 3, 5, 8, 1000)), partial(steps.maintain, spec))
            table.check()
    steps.maintain(spec_of(path))
    table.check()
    done = steps.maintain(spec_of(path))
    assert done.after is not None
    assert done.given_up == {}
    assert done.after.small_files <= file_rewrite.MOST_SMALL
    live = table_of(path).snapshot()
    assert all(rows_gone(file) <= file_rewrite.GONE_SHARE * rows_of_file(file) for file in live.files.values())
    # What is on the disk is what the table has: all that kills have left behind is gone.
    assert sorted(file.name for file in Path(path).glob("*.parquet")) == sorted(live.files)
    assert len(list_log(path).commits) <= steps.CHECKPOINT_FROM + 3
    assert killed, "no kill came before the end: the seed proves less than it should"


class Bronze:
    """Appends of several topics, and what the log must say of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path, self.choice = str(folder / "bronze"), random.Random(seed)
        Path(self.path).mkdir()
        self.ends, self.values = dict.fromkeys(("a", "b", "c"), 0), list[bytes]()

    def append(self) -> None:
        commits = table_of(self.path).commits(400)
        committed = fold(surviving(commits)) if commits else Committed(-1, {})
        shares, rows = {}, []
        for topic in self.choice.sample(sorted(self.ends), self.choice.randrange(1, 4)):
            start, count = self.ends[topic], self.choice.randrange(1, 5)
            self.ends[topic] += count
            shares[topic] = TopicCommit(topic, topic, 0, {0: (start, start + count)}, records=count, by_op={"c": count})
            rows += [{"table": topic, "topic": topic, "partition": 0, "offset": at, "value": b"v", "op": "c", "epoch": 0,
                      "position": f"0000.{at:016x}"} for at in range(start, start + count)]  # fmt: skip
        spec = BronzeSpec(self.path, "", (), f"op{sum(self.ends.values())}")
        held = pa.Table.from_pylist([{name: row.get(name) for name in BRONZE_ARROW.names} for row in rows], schema=BRONZE_ARROW)
        file = write_file(open_folder(self.path), held, TABLE_PROPERTIES["delta.dataSkippingStatsColumns"].split(","))
        commit_files(spec, committed, [file], shares)

    def check(self) -> None:
        found = bronze_committed(self.path)
        assert found is not None
        assert {topic: state.positions[0] for topic, state in found.topics.items()} == {t: e for t, e in self.ends.items() if e}
        assert {topic: state.records for topic, state in found.topics.items()} == {t: e for t, e in self.ends.items() if e}
        held = bronze_rows(self.path, found.version, dict.fromkeys(self.ends, 0))
        assert {topic: count for (topic, _), count in held.items()} == {t: e for t, e in self.ends.items() if e}


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.all) for seed in range(1, 6))])
def test_bronze_says_the_same_and_gives_the_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: None, seed: int) -> None:
    bronze, choice, mortal = Bronze(tmp_path, seed), random.Random(seed), Mortal(monkeypatch)
    folded, at = 0, dict(bronze.ends)
    for _ in range(30):
        bronze.append()
        if choice.random() < 0.3:
            need = Need(folded, "silver has not folded what comes after it")
            mortal.allow(choice.choice((0, 1, 2, 3, 5, 1000)), partial(steps.maintain, spec_of(bronze.path, need)))
            bronze.check()
        if choice.random() < 0.3:
            version = DeltaTable(bronze.path).version()
            news = BronzeTail(bronze.path, sorted(bronze.ends), after=folded if any(at.values()) else -1, version=version)
            for topic, end in bronze.ends.items():
                assert sorted(news.of_table(topic)["offset"].to_pylist()) == list(range(at[topic], end))
            folded, at = version, dict(bronze.ends)
    assert figures_of(table_of(bronze.path).snapshot(), list_log(bronze.path)).rows == sum(bronze.ends.values())


def test_versions_of_the_declared_time_can_be_read(tmp_path: Path, eager: None) -> None:
    table = Silver(tmp_path, 3)
    held = {}
    for _ in range(12):
        table.change()
        held[DeltaTable(table.spec.path).version()] = sorted(table.rows.values())
    for _ in range(2):
        done = steps.maintain(spec_of(table.spec.path, seconds=3600.0))
    assert done.kept is not None
    assert done.kept.reason == "time travel: 1 h"
    assert done.files_removed == 0
    for version, rows in held.items():
        found = DeltaTable(table.spec.path, version=version)
        assert sorted(tuple(row[name] for name in NAMES) for row in read_version(found)) == rows
    # What somebody still reads stays, however old it is, and is named.
    done = steps.maintain(spec_of(table.spec.path, Need(5, "cut c1 names it")))
    assert (done.kept, done.given_up) == (Need(5, "cut c1 names it"), {})
    assert sorted(tuple(row[name] for name in NAMES) for row in read_version(DeltaTable(table.spec.path, version=5))) == held[5]


def read_version(table: DeltaTable) -> list[dict[str, Any]]:
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
    return list(pa.table(found).to_pylist())


def test_news_of_a_table_that_was_idle_hold_nothing_that_is_gone(tmp_path: Path, eager: None) -> None:
    bronze = Bronze(tmp_path, 7)
    for _ in range(10):
        bronze.append()
    folded = DeltaTable(bronze.path).version()
    for _ in range(3):
        bronze.append()
        steps.maintain(spec_of(bronze.path))
    need = Need(folded, "silver has not folded what comes after it")
    assert min(list_log(bronze.path).commits) > folded
    bronze.append()
    planned, done = steps.plan_table(spec_of(bronze.path, need)), steps.maintain(spec_of(bronze.path, need))
    assert (planned.left, done.given_up) == ("", {})
    assert done.kept is not None
    assert table_of(bronze.path).snapshot(done.kept.version).files
    bronze.check()


@pytest.mark.slow
def test_a_writer_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: None) -> None:
    """It changes a file that is being written anew: its commit stands, and the new file goes."""
    table = Silver(tmp_path, 4, ("a",))
    for _ in range(6):
        table.change()
    write = file_rewrite.write_file

    def meanwhile(*args: Any) -> AddFile:
        made = write(*args)
        monkeypatch.setattr(file_rewrite, "write_file", write)
        for _ in range(5):
            table.change()
        return made

    monkeypatch.setattr(file_rewrite, "write_file", meanwhile)
    monkeypatch.setattr(steps, "TRIES", 1)
    done = steps.maintain(spec_of(table.spec.path, seconds=3600.0))
    assert "a writer has changed" in done.given_up.get("rewrite", "")
    table.check()
    # What came first is what the next try begins with.
    monkeypatch.setattr(file_rewrite, "write_file", meanwhile)
    monkeypatch.setattr(steps, "TRIES", 3)
    assert steps.maintain(spec_of(table.spec.path, seconds=3600.0)).given_up == {}
    table.check()
    for _ in range(6):
        table.change()
    with lend_to_task(table.spec.path):
        monkeypatch.setattr(file_rewrite, "LEASE_SECONDS", 0.1)
        held: list[Maintained] = []
        thread = threading.Thread(target=lambda: held.append(steps.maintain(spec_of(table.spec.path, seconds=3600.0))))
        started = time.monotonic()
        thread.start()
        thread.join()
    assert time.monotonic() - started < 30
    assert "is being written by somebody else" in held[0].given_up["rewrite"]
    table.check()


@pytest.mark.all
def test_spark_reads_what_maintenance_leaves(session: SparkSession, tmp_path: Path, eager: None) -> None:

    for seed in range(2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        table, choice = Silver(folder, seed), random.Random(seed)
        for _ in range(14):
            table.change()
            if choice.random() < 0.4:
                steps.maintain(spec_of(table.spec.path))
        steps.maintain(spec_of(table.spec.path))
        rows = session.read.format("delta").load(table.spec.path).select(*NAMES).collect()
        assert sorted(tuple(row) for row in rows) == sorted(table.rows.values())
        told = [row.userMetadata for row in session.sql(f"DESCRIBE HISTORY {table_at(table.spec.path)}").collect()]
        assert any('"kind":"silver"' in text for text in told if text)
        session.sql(f"DELETE FROM delta.`{table.spec.path}` WHERE a % 2 = 0")
        table.rows = {key: row for key, row in table.rows.items() if row[0] % 2}
        steps.maintain(spec_of(table.spec.path))
        table.check()
        rows = session.read.format("delta").load(table.spec.path).select(*NAMES).collect()
        assert sorted(tuple(row) for row in rows) == sorted(table.rows.values())
