"""`where`: random histories whose rows enter and leave what a table keeps, against a fold in plain Python."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.lake.replayed import ReplayedTable
from cdc_assets_tests.support.lake.versions import COLUMNS, place, sent
from spark.errors import JobRefusedError, RebuildNeededError
from spark.silver.typed_changes import condition_values, outside_in_arrow
from spark.specs import Column, RowCondition, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = ("EU", "Å ", None)
IN_EUROPE = (RowCondition("v", KEPT),)
NOT_DRAFT = (*IN_EUROPE, RowCondition("note", ("draft",), excluded=True))


def is_kept(row: tuple[str | None, str | None]) -> bool:
    return row[0] in KEPT and row[1] != "draft"


class Source:
    """Rows of a source by key, and every version of what is kept of them: (key, row, from, to)."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.rows: dict[int, tuple[str | None, str | None]] = {}
        self.versions: list[list[Any]] = []
        self.records: list[Record] = []

    def step(self) -> None:
        at, key = len(self.records), self.choice.randrange(8)
        was = self.rows.get(key)
        if was is not None and self.choice.random() < 0.2:
            del self.rows[key]
            self._end(key, at)
            self.records.append(sent(at, at, key, None, None, "d"))
            return
        row = (self.choice.choice(["EU", "eu", "US", "Å ", "Å", None]), self.choice.choice(["a", "draft", None]))
        if was is not None and is_kept(was) and self.choice.random() < 0.3:
            # Not changed, and so not sent; of a row that is not there nobody could tell it.
            row = (row[0], was[1])
            self.records.append(sent(at, at, key, row[0], GAP if was[1] is not None else None, "u"))
        else:
            self.records.append(sent(at, at, key, *row, "c" if was is None else "u"))
        self.rows[key] = row
        open_ = next((each for each in self.versions if each[0] == key and each[3] is None), None)
        if open_ is not None and open_[1] == row:
            return
        self._end(key, at)
        if is_kept(row):
            self.versions.append([key, row, at, None])

    def _end(self, key: int, at: int) -> None:
        for each in self.versions:
            if each[0] == key and each[3] is None:
                each[3] = at

    def kept(self) -> dict[int, tuple[str | None, str | None]]:
        return {key: row for key, row in self.rows.items() if is_kept(row)}


def in_silver(table: ReplayedTable) -> dict[int, tuple[str | None, str | None]]:
    return {row["id"]: (row["v"], row["note"]) for row in values(table.spec.path)}


def in_history(table: ReplayedTable) -> list[list[Any]]:
    assert table.past is not None
    found = rows(table.past.path)
    told = [[r["id"], (r["v"], r["note"]), place(r["_valid_from"]), place(r["_valid_to"])] for r in found]
    return sorted(told, key=lambda each: (each[0], each[2]))


def chosen(session: SparkSession, root: Path, where: tuple[RowCondition, ...]) -> ReplayedTable:
    table = ReplayedTable(session, root)
    table.spec = replace(table.spec, where=where)
    return table


@pytest.mark.all
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.all), pytest.param(3, marks=pytest.mark.all)])
def test_random_histories(session: SparkSession, tmp_path: Path, seed: int) -> None:
    """In order, then late and twice, and all of it once more in any order; of the writers of silver each does what it can."""
    source, table = Source(seed), chosen(session, tmp_path, NOT_DRAFT)
    for _ in range(4):
        begin = len(source.records)
        for _ in range(source.choice.choice([6, 25])):
            source.step()
        batch = source.records[begin:]
        for repeated in source.choice.sample(batch, 3):
            batch.append(replace(repeated))
        held = len(table.lake.log.get("t", {}).get(0, []))
        table.send(*[replace(record, offset=held + n) for n, record in enumerate(batch)])
        assert in_silver(table) == source.kept()
        assert in_history(table) == sorted(source.versions, key=lambda each: (each[0], each[2]))
    assert table.lake.folded_by_tasks > 0
    assert table.lake.appended_by_tasks > 0
    late = ReplayedTable(session, tmp_path / "late")
    late.spec = replace(late.spec, where=NOT_DRAFT)
    mixed = [*source.records]
    source.choice.shuffle(mixed)
    half = len(mixed) // 2
    for part in (mixed[:half], mixed[half:]):
        held = len(late.lake.log.get("t", {}).get(0, []))
        late.send(*[replace(record, offset=held + n) for n, record in enumerate(part)], fold=part is mixed)
    late.fold()
    assert in_silver(late) == source.kept()


@pytest.mark.all
def test_a_row_that_comes_in_without_all_of_its_values_is_set_aside(session: SparkSession, tmp_path: Path) -> None:
    """What it did not change the event does not say, and the table has no row to keep it from."""
    table = chosen(session, tmp_path, IN_EUROPE)
    table.send(sent(0, 0, 1, "US", "long", "c"), sent(1, 1, 2, "EU", "long", "c"), sent(2, 2, 3, "US", "long", "c"))
    table.send(sent(3, 3, 1, "EU", GAP, "u"), sent(4, 4, 2, "US", GAP, "u"), sent(5, 5, 3, "US", GAP, "u"))
    assert in_silver(table) == {}
    [held] = rows(table.spec.quarantine)
    assert (held["error_class"], held["offset"]) == ("no_row", 3)
    # Changed as a whole it is there.
    table.send(sent(6, 6, 1, "EU", "long", "u"))
    assert in_silver(table) == {1: ("EU", "long")}


@pytest.mark.all
def test_other_rows_are_another_table(session: SparkSession, tmp_path: Path) -> None:
    table = chosen(session, tmp_path, IN_EUROPE)
    table.send(sent(0, 0, 1, "US", "a", "c"), sent(1, 1, 2, "EU", "a", "c"))
    table.spec = replace(table.spec, where=(RowCondition("v", ("US",)),))
    table.send(sent(2, 2, 3, "US", "b", "c"), fold=False)
    for table.lake.by_task in (True, False):
        with pytest.raises(RebuildNeededError, match=r"holds v in \(EU, Å , NULL\), and where says v in \(US\) now"):
            table.fold()
    assert in_silver(table) == {2: ("EU", "a")}
    table.replay()
    assert in_silver(table) == {1: ("US", "a")}
    table.fold()
    assert in_silver(table) == {1: ("US", "a"), 3: ("US", "b")}
    assert [each[:2] for each in in_history(table)] == [[1, ("US", "a")], [3, ("US", "b")]]
    table.spec = replace(table.spec, where=())
    table.replay()
    assert in_silver(table) == {1: ("US", "a"), 2: ("EU", "a"), 3: ("US", "b")}


@pytest.mark.all
def test_a_column_that_has_changed_its_type_is_asked_again_by_a_replay_alone(session: SparkSession, tmp_path: Path) -> None:
    """Newer values are in a column beside the old one: of that nobody has asked."""
    table = chosen(session, tmp_path, IN_EUROPE)
    table.send(sent(0, 0, 1, "EU", "a", "c"), sent(1, 1, 2, "US", "a", "c"))
    told = (RowCondition("v", ("7",)),)
    table.spec = replace(table.spec, where=told)
    table.replay()
    table.spec = replace(table.spec, columns=(COLUMNS[0], Column("v", "integer"), COLUMNS[2]))
    table.send(sent(2, 2, 3, "7", "b", "c"), fold=False)
    for _ in range(2):
        with pytest.raises(RebuildNeededError, match="where asks for v, which the source has changed since.*cdc replay source t"):
            table.fold()
    assert in_silver(table) == {}
    table.replay()
    table.fold()
    assert in_silver(table) == {3: (7, "b")}


@pytest.mark.parametrize(
    ("column", "given", "held"),
    [
        (Column("a", "integer"), ("7", "-0", None), {"7", "0"}),
        (Column("a", "bigint(20) unsigned", dialect="mariadb"), ("18446744073709551615",), {"18446744073709551615"}),
        (Column("a", "boolean"), ("true",), {"true"}),
        (Column("a", "date"), ("2026-01-31",), {"2026-01-31"}),
        (Column("a", "character(4)"), ("ab",), {"ab  ", "ab"}),
        (Column("a", "char(4)", dialect="mariadb"), ("ab ",), {"ab  ", "ab"}),
        (Column("a", "varchar(4)", dialect="mariadb"), ("ab ",), {"ab "}),
        (Column("a", "shade", kind="enum"), ("light",), {"light"}),
    ],
)
def test_values_are_those_that_the_lake_holds(column: Column, given: tuple[str | None, ...], held: set[str]) -> None:
    assert condition_values(RowCondition("a", given), column) == held


@pytest.mark.parametrize(
    ("source_type", "value"),
    [("integer", "seven"), ("boolean", "1"), ("date", "31.1."), ("double precision", "1.5"), ("bytea", "a")],
)
def test_values_of_other_types_are_refused(source_type: str, value: str) -> None:
    with pytest.raises(JobRefusedError, match=f"where: column 'a' of type {source_type}"):
        condition_values(RowCondition("a", (value,)), Column("a", source_type))


def test_types_of_values_in_arrow() -> None:
    columns = (Column("i", "integer", False), Column("d", "date"), Column("b", "boolean"), Column("n", "numeric(3,0)"))
    held = {
        "i": pa.array([1, 2, None], pa.int32()),
        "d": pa.array([dt.date(2026, 1, 31), None, None]),
        "b": pa.array([True, False, None]),
        "n": pa.array([Decimal(1), Decimal(20), None], pa.decimal128(3, 0)),
    }

    def outside(*where: RowCondition) -> list[bool]:
        return outside_in_arrow(SilverSpec("s", "t", "-", "-", columns, ("i",), where=where), held).to_pylist()

    assert outside(RowCondition("i", ("1",))) == [False, True, True]
    assert outside(RowCondition("d", ("2026-01-31", None))) == [False, False, False]
    assert outside(RowCondition("b", ("false",), excluded=True)) == [False, True, False]
    assert outside(RowCondition("n", (None,), excluded=True)) == [False, False, True]
    assert outside(RowCondition("n", ("1", "20")), RowCondition("i", ("1",))) == [False, True, True]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"keys": ()}, "a table without a key"),
        ({"deletes": "soft"}, "deletes: soft"),
        ({"ignore_null_updates": ("v",)}, "parts of rows"),
        ({"where": (RowCondition("w", ("a",)),)}, r"\['w'\] are not among its columns"),
    ],
)
def test_what_does_not_go_together(more: dict[str, Any], told: str) -> None:
    given = {"keys": ("id",), "where": IN_EUROPE, **more}
    with pytest.raises(JobRefusedError, match=told):
        SilverSpec("s", "t", "-", "-", COLUMNS, **given)


def test_a_spec_and_a_ledger_travel_with_their_conditions() -> None:
    from spark.silver.column_ledger import ColumnLedger
    from spark.silver.schema_evolution import first_ledger

    spec = SilverSpec("s", "t", "-", "-", COLUMNS, ("id",), where=NOT_DRAFT)
    assert SilverSpec.from_json(spec.to_json()) == spec
    assert ColumnLedger.from_text(first_ledger(spec).to_text()).where == NOT_DRAFT
    assert '"where"' not in first_ledger(replace(spec, where=())).to_text()
