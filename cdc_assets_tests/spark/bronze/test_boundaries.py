"""Random histories of transactions that are split over tables, cut at random: each named version holds exactly what was committed
before its marker. A model of the database and delta-rs are the oracle; no service runs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.histories.bank_history import BankHistory, Marked, Rows
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from spark.bronze.commit_boundaries import Boundaries, find_boundaries
from spark.record_formats import CommitPlace, behind_commit, in_binlog
from spark.specs import Column, TopicRange
from spark.table.commit_metadata import fold
from spark.table.delta_table import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 2
"""Of the default run, and shorter."""
TABLES = ("accounts_a", "accounts_b", "accounts_c")
COLUMNS = (Column("id", "integer", False), Column("v", "integer"))


@dataclass
class CutLake(Lake):
    """Bronze and silver up to any place, as a cut brings them there."""

    versions: list[tuple[Marked, dict[str, int]]] = field(default_factory=list)

    def ends(self, tables: dict[str, int]) -> list[TopicRange]:
        return [self.ranges(table, {0: end}) for table, end in tables.items()]

    def boundaries(self, place: CommitPlace, tables: dict[str, int]) -> Boundaries:
        """Of what bronze does not have yet, up to these offsets."""
        committed = table_of(self.bronze_path).fold(fold)
        asked = [self.ranges(t, {0: end}, start=committed.position(self.topic(t), 0) or 0) for t, end in tables.items()]
        asked = [each for each in asked if each.ranges[0][0] < each.ranges[0][1]]
        return find_boundaries(self._read(self.session, asked), asked, committed, place) if asked else Boundaries({})

    def topic(self, table: str) -> str:
        return f"core.source.public.{table}"

    def cut(self, marked: Marked, tables: dict[str, int]) -> None:
        found = self.boundaries(marked.place, tables)
        assert (found.unclear, found.unread) == ((), ())
        bounded = {table: found.ends.get(self.topic(table), {}).get(0, end) for table, end in tables.items()}
        self.append(*self.ends(bounded))
        limit = table_of(self.bronze_path).fold(fold).version
        for table in tables:
            self.fold(self.spec(table, COLUMNS), limit=limit)
        self.versions.append((marked, {table: self.version(table) for table in tables}))

    def version(self, table: str) -> int:
        from deltalake import DeltaTable

        return int(DeltaTable(self.spec(table, COLUMNS).path).version())

    def rows_at(self, versions: dict[str, int]) -> Rows:
        from deltalake import DeltaTable

        tables = {t: DeltaTable(self.spec(t, COLUMNS).path, version=v).to_pyarrow_table() for t, v in versions.items()}
        return {table: {row["id"]: row["v"] for row in rows.to_pylist()} for table, rows in tables.items()}


@pytest.mark.all
@pytest.mark.parametrize("seed", [SEED, *(pytest.param(seed, marks=pytest.mark.all) for seed in (0, 1, *range(3, 20)))])
def test_each_cut_is_complete_up_to_one_transaction(session: SparkSession, tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    bank, lake = BankHistory(choice, TABLES), CutLake(session, tmp_path)
    lake.log = {table: {0: records} for table, records in bank.log.items()}
    total = bank.total
    split = 0
    for _ in range(2 if seed == SEED else 4):
        for _ in range(choice.randrange(5, 25)):
            bank.step()
        if choice.random() < 0.3:
            bank.replay()
        # Whatever is there before the marker may be in bronze, of each table as much as it likes; and in silver.
        lake.append(*lake.ends({table: choice.randrange(end + 1) for table, end in bank.offsets.items()}))
        if choice.random() < 0.5:
            lake.fold(lake.spec(choice.choice(TABLES), COLUMNS))
        while (marked := bank.mark()) is None:
            pass
        for _ in range(choice.randrange(25)):
            bank.step()
        if choice.random() < 0.3:
            bank.replay()
        # The topics are at different places behind the marker.
        lake.cut(marked, dict(bank.offsets))
        split += any(lake.rows_at({t: v})[t] != bank.rows[t] for t, v in lake.versions[-1][1].items())
    lake.append(*lake.ends(bank.offsets))
    for table in TABLES:
        lake.fold(lake.spec(table, COLUMNS))
    assert lake.rows_at({table: lake.version(table) for table in TABLES}) == bank.rows
    for marked, versions in lake.versions:
        assert lake.rows_at(versions) == marked.rows
        assert sum(balance for rows in marked.rows.values() for balance in rows.values()) == total
    assert split, "nothing was committed behind any marker: the seed proves less than it should"


def test_what_nobody_can_tell_is_named(session: SparkSession, tmp_path: Path) -> None:
    lake = CutLake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "a"}))
    lake.append(lake.all_of("t"))

    def place(last: int, offset: int, op: str = "c") -> Record:
        found = event(offset, {"id": offset, "v": "a"}, op=op)
        text = (found.value or "").replace('\\"100\\"', f'\\"{last}\\"')
        return Record(offset, found.key, text)

    # The connector began anew, and did not know the commit before this transaction.
    lake.put("t", place(100, 1), place(200, 2), place(300, 3))
    assert lake.boundaries(behind_commit(200), {"t": 4}) == Boundaries({lake.topic("t"): {0: 3}}, (lake.topic("t"),))
    assert lake.boundaries(behind_commit(250), {"t": 4}) == Boundaries({lake.topic("t"): {0: 3}})
    assert lake.boundaries(behind_commit(900), {"t": 4}) == Boundaries({})
    # A row that is read of an older state comes behind the marker: the table is not whole before it.
    lake.put("t", place(150, 4, "r"))
    assert lake.boundaries(behind_commit(250), {"t": 5}) == Boundaries({lake.topic("t"): {0: 3}}, (), (lake.topic("t"),))
    assert lake.boundaries(behind_commit(900), {"t": 5}) == Boundaries({})


def test_a_place_of_a_binlog(session: SparkSession, tmp_path: Path) -> None:
    lake = CutLake(session, tmp_path, form=("debezium-json", "mariadb"))
    for offset, (file, position) in enumerate([(9, 4), (9, 700), (9, 700), (10, 4), (10, 90)]):
        source = f'{{"file": "binlog.{file:06d}", "pos": {position}, "row": 0, "ts_us": 1, "snapshot": "false"}}'
        value = f'{{"op": "c", "before": null, "after": {{"id": {offset}, "v": "a"}}, "source": {source}}}'
        lake.put("t", Record(offset, f'{{"id": {offset}}}', value))

    def first(file: int, position: int) -> int | None:
        found = lake.boundaries(in_binlog("", f"{file:010d}.{position:016x}"), {"t": 5})
        return found.ends.get(lake.topic("t"), {}).get(0)

    assert [first(9, 4), first(9, 5), first(9, 700), first(9, 701), first(10, 4), first(10, 91)] == [0, 1, 1, 3, 3, None]
