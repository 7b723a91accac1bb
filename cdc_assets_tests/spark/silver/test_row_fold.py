"""The fold's rules in process, without a JVM: random histories end in what plain Python tells (version_oracle), in whatever order
their events came, and however often."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cdc_assets_tests.support.histories.fold_events import SCHEMA, delivered, event, history
from cdc_assets_tests.support.oracles.version_oracle import Happened, Oracle
from spark.silver import row_fold
from spark.silver.row_fold import POSITION, FoldPlan

PLAN = FoldPlan(keys=("c0",), rest=("c1", "c2"), tracked=("c1", "c2"))
HISTORIES, AT_ONCE = 1_000, 50
"""So many, with so many in one table: a key of each is none of another's."""


def completed(events: pa.Table, slices: int = 1) -> pa.Table:
    """With what moved rows held under their old keys, in so many slices."""
    lacking = pc.fill_null(events["lacks"], False)
    numbers = np.arange(events.num_rows) % slices
    rows = []
    for number in range(slices):
        creates = events.filter(pc.and_(lacking, pa.array(numbers == number)))
        for own, is_create in ((creates, True), (events, False)):
            flags = {
                "slice": pa.array([number] * own.num_rows, pa.int64()),
                "creates": pa.array([is_create] * own.num_rows, pa.bool_()),
            }
            rows.append(pa.table({**{name: own[name] for name in own.column_names}, **flags}))
    filled = row_fold.fill_slices(pa.concat_tables(rows), PLAN).drop_columns(["slice", "creates"])
    return pa.concat_tables([events.filter(pc.invert(lacking)), filled]).drop_columns(["write", "lacks"])


def of_place(position: str | None) -> int | None:
    return None if position is None else int(position.split(".")[1], 16)


def test_a_thousand_histories() -> None:
    """Rows and versions of each are those of plain Python."""
    chosen = random.Random(1)
    for table in range(HISTORIES // AT_ONCE):
        worlds = [history(chosen, 100 * number) for number in range(AT_ONCE)]
        events = pa.Table.from_pylist([one for world in worlds for one in delivered(chosen, world)], schema=SCHEMA)
        plan = replace(PLAN, tracked=("c1",)) if table % 2 else PLAN
        made = row_fold.versions(completed(events, slices=1 + table % 3), plan, ()).to_pylist()
        versions = {(row["c0"], row["c1"], row["c2"], of_place(row["_valid_from"]), of_place(row["_valid_to"])) for row in made}
        expected = set[tuple[Any, ...]]().union(*(Oracle(plan.tracked == ("c1",)).tell(world) for world in worlds))
        assert versions == expected, table
        assert len(made) == len(versions)
        folded = row_fold.fold_per_key(row_fold.mark_problems(completed(events), plan), plan)
        rows = {(row["c0"], row["c1"], row["c2"]) for row in folded.to_pylist() if row["_cdc_op"] != "d"}
        assert rows == {version[:3] for version in expected if version[4] is None}, table
        assert folded.num_rows == len(set(folded["c0"].to_pylist()))


def test_the_newest_of_a_thousand_histories() -> None:
    """Of each key the newest event that can be folded, and what else there is among its events, in whatever order they come."""
    chosen = random.Random(3)
    for _ in range(HISTORIES // AT_ONCE):
        rows = [one for number in range(AT_ONCE) for one in delivered(chosen, history(chosen, 100 * number))]
        rows += [{**event(Happened(place, 0, "t"), place), "c0": None} for place in chosen.sample(range(99), 2)]
        rows = [{**row, "is_late": chosen.random() < 0.1} for row in rows]
        schema = SCHEMA.append(pa.field("is_late", pa.bool_()))
        found = row_fold.newest_per_key(pa.Table.from_pylist(rows, schema=schema), PLAN).to_pylist()
        assert len(found) == len({row["c0"] for row in rows})
        for one in found:
            own = [row for row in rows if row["c0"] == one["c0"]]
            fit = [row for row in own if row["problem"] is None and row["_cdc_op"] != "t"]
            newest = max(fit, key=lambda row: str(row[POSITION]), default=dict[str, Any]())
            assert [one[name] for name in NEWEST] == [newest.get(name) for name in NEWEST]
            moved = sum(row["_cdc_op"] == "c" and row["absent"] is not None for row in fit)
            truncated = max((row[POSITION] for row in own if row["_cdc_op"] == "t"), default=None)
            facts = (sum(row["is_late"] for row in own), sum(row["problem"] is not None for row in own), moved, truncated)
            assert tuple(one[name] for name in row_fold.FACTS) == facts


NEWEST = ("c1", "c2", POSITION, "_cdc_op", "absent")


def test_what_stops_a_part() -> None:
    """A part needs a row before it, and no record between that cannot be read; the literal is never a value."""
    lone, behind = [Happened(1, 1, "u", "a", part=True)], [Happened(1, 2, "c", "a", "x"), Happened(2, 2, "u", broken=True)]
    gone = [Happened(1, 3, "c", "a", "x"), Happened(2, 3, "d"), Happened(3, 3, "u", "b", part=True)]
    rows = [*lone, *behind, Happened(3, 2, "u", "b", part=True), *gone]
    table = pa.Table.from_pylist([event(one, offset) for offset, one in enumerate(rows)], schema=SCHEMA)
    marked = row_fold.mark_problems(table, PLAN).to_pylist()
    problems = {row["offset"]: row["problem"] and row["problem"]["error_class"] for row in marked}
    assert problems == {0: "no_row", 1: None, 2: "envelope", 3: "after_problem", 4: None, 5: None, 6: "no_row"}
    said = next(row["problem"]["message"] for row in marked if row["offset"] == 3)
    assert said == row_fold.WITHOUT_REST["after_problem"]


@pytest.mark.parametrize("keeps_deleted", [False, True])
def test_a_thousand_histories_cut_into_batches(keeps_deleted: bool) -> None:
    """What the table has of a key, with what came since, is folded as everything at once."""
    chosen, plan = random.Random(2), replace(PLAN, keeps_deleted=keeps_deleted)
    for _ in range(HISTORIES // AT_ONCE):
        worlds = [history(chosen, 100 * number) for number in range(AT_ONCE)]
        happened = sorted((one for world in worlds for one in world), key=lambda one: (one.place % 100, one.op != "d"))
        rows = [event(one, offset) for offset, one in enumerate(happened)]
        events = completed(pa.Table.from_pylist(rows, schema=SCHEMA)).sort_by("offset")
        at_once = row_fold.mark_problems(events, plan)
        table, problems, begin = OneTable(plan), at_once.slice(0, 0), 0
        for end in [*sorted(chosen.sample(range(events.num_rows), 3)), events.num_rows]:
            problems = pa.concat_tables([problems, table.fold(events.slice(begin, end - begin), problems)])
            begin = end
        folded = row_fold.fold_per_key(at_once, plan)
        there = folded if keeps_deleted else folded.filter(pc.not_equal(folded["_cdc_op"], "d"))
        assert shown(table.rows) == shown(there)
        whole = at_once.filter(pc.is_valid(at_once["problem"]))
        assert sorted(problems["offset"].to_pylist()) == sorted(whole["offset"].to_pylist())


class OneTable:
    """A table in memory, folded batch by batch."""

    def __init__(self, plan: FoldPlan) -> None:
        self.plan, self.rows = plan, SCHEMA.empty_table().drop_columns(["write", "lacks"])

    def fold(self, batch: pa.Table, before: pa.Table) -> pa.Table:
        """One batch, onto what there is and behind the records in quarantine `before`; what cannot be folded of it."""
        keys = batch["c0"]
        there = self.rows.filter(pc.is_in(self.rows["c0"], value_set=keys.combine_chunks()))
        holes = before.filter(pc.is_in(before["c0"], value_set=keys.combine_chunks()))
        topic = pa.array([row_fold.OF_TABLE] * holes.num_rows, pa.string())
        holes = holes.set_column(0, "topic", topic)
        judged = row_fold.mark_problems(pa.concat_tables([there, holes, batch]), self.plan)
        folded = row_fold.fold_per_key(judged, self.plan)
        others = self.rows.filter(pc.invert(pc.is_in(self.rows["c0"], value_set=keys.combine_chunks())))
        count = folded.num_rows
        values = {"topic": pa.array([row_fold.OF_TABLE] * count, pa.string()), "partition": pa.array([-1] * count, pa.int32())}
        values |= {"offset": pa.array([-1] * count, pa.int64()), **{name: folded[name] for name in folded.column_names}}
        schema = self.rows.schema
        new = pa.table([values.get(f.name, pa.nulls(count, f.type)) for f in schema], schema=schema)
        new = new if self.plan.keeps_deleted else new.filter(pc.not_equal(new["_cdc_op"], "d"))
        self.rows = pa.concat_tables([others, new])
        return judged.filter(pc.and_(pc.is_valid(judged["problem"]), pc.not_equal(judged["topic"], row_fold.OF_TABLE)))


def shown(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Key, values, position, and whether the row is there."""
    return sorted(((row["c0"], row["c1"], row["c2"], row[POSITION], row["_cdc_op"] == "d") for row in rows.to_pylist()), key=str)


def test_a_record_without_a_position_stands_behind_what_its_partition_held() -> None:
    rows = [event(one, offset) for offset, one in enumerate([Happened(1, 1, "c", "a", "x"), Happened(2, 1, "u", broken=True)])]
    later = event(Happened(3, 1, "u", "b", part=True), 2)
    table = pa.Table.from_pylist([rows[0], {**rows[1], POSITION: None}, later], schema=SCHEMA)
    marked = row_fold.mark_problems(table, PLAN).to_pylist()
    assert {row["offset"]: (row["problem"] or {}).get("error_class") for row in marked} == {
        0: None,
        1: "envelope",
        2: "after_problem",
    }
    # The row that the table has stands before it, too.
    row = {**rows[0], "topic": row_fold.OF_TABLE, "partition": -1, "offset": -1}
    onto = pa.Table.from_pylist([{**rows[1], POSITION: None}, row, later], schema=SCHEMA)
    marked = row_fold.mark_problems(onto, PLAN).to_pylist()
    assert {row["offset"]: (row["problem"] or {}).get("error_class") for row in marked} == {
        -1: None,
        1: "envelope",
        2: "after_problem",
    }
    places = row_fold.add_places(table, PLAN)
    assert dict(zip(places["offset"].to_pylist(), places["place"].to_pylist(), strict=True))[1] == "0000.0001.1~"


def test_a_soft_delete_keeps_the_row() -> None:
    plan = replace(PLAN, keeps_deleted=True)
    rows = [Happened(1, 1, "c", "a", "x"), Happened(2, 1, "d"), Happened(1, 2, "d")]
    table = pa.Table.from_pylist([event(one, offset) for offset, one in enumerate(rows)], schema=SCHEMA)
    folded = sorted(row_fold.fold_per_key(table, plan).to_pylist(), key=lambda row: row["c0"])
    assert [(row["c0"], row["c1"], row["c2"], row["_cdc_op"]) for row in folded] == [(1, "a", "x", "d")]


def test_parts_that_make_rows() -> None:
    """Of a table whose events say themselves which columns they are about."""
    plan = replace(PLAN, partial=True)
    rows = [
        Happened(1, 1, "u", "a", part=True),
        Happened(2, 1, "d"),
        Happened(3, 1, "u", "b", part=True),
        Happened(4, 1, "u", "c", part=True),
    ]
    table = pa.Table.from_pylist([event(one, offset) for offset, one in enumerate(rows)], schema=SCHEMA)
    marked = sorted(row_fold.mark_problems(table, plan).to_pylist(), key=lambda row: row["offset"])
    assert [row["absent"] for row in marked] == [None, None, None, [2]]


def test_truncates_end_versions() -> None:
    rows = [Happened(1, 1, "c", "a", "x"), Happened(5, 1, "c", "a", "x"), Happened(2, 2, "c", "b", None)]
    table = pa.Table.from_pylist([event(one, offset) for offset, one in enumerate(rows)], schema=SCHEMA)
    made = row_fold.versions(table, PLAN, ["0000.0003.1.0", "0000.0004.1.0"]).to_pylist()
    spans = {(row["c0"], of_place(row["_valid_from"]), of_place(row["_valid_to"]), row["_is_current"]) for row in made}
    assert spans == {(1, 1, 3, False), (1, 5, None, True), (2, 2, 3, False)}


@pytest.mark.parametrize(
    ("values", "type_", "groups"),
    [
        ([0.0, -0.0, math.nan, -math.nan, None, None, 1.0], pa.float64(), [0, 0, 1, 1, 2, 2, 3]),
        ([[0.0], [-0.0], [math.nan], [math.nan], None, [], [None]], pa.list_(pa.float64()), [0, 0, 1, 1, 2, 3, 4]),
        ([b"", None, b"", b"\x00"], pa.binary(), [0, 1, 0, 2]),
        (["a", "A", None, "a", ""], pa.string(), [0, 1, 2, 0, 3]),
    ],
)
def test_equal_as_spark_groups(values: list[Any], type_: pa.DataType, groups: list[int]) -> None:
    assert classes(row_fold.value_numbers(pa.chunked_array([pa.array(values, type_)]))) == groups
    table = pa.table({"a": pa.array(values, type_), "b": pa.array([1] * len(values))})
    assert classes(row_fold.key_numbers(table, ["a", "b"])) == groups


def classes(numbers: np.ndarray) -> list[int]:
    """Numbered in the order in which they appear."""
    return list(_renumbered(numbers.tolist()))


def _renumbered(numbers: Iterable[int]) -> Iterable[int]:
    first = dict[int, int]()
    for number in numbers:
        yield first.setdefault(number, len(first))
