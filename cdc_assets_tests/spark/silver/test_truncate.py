"""TRUNCATE is an event in position order: what lies below it goes, what lies above stays, whatever came first."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.oracles.proven import proven
from spark.errors import TableStopError
from spark.silver import history_job as history
from spark.silver import keyed_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def truncate(offset: int) -> Record:
    return Record(offset, None, event(offset, None, op="t").value)


def at(offset: int, place: int, key: int, v: str, op: str = "c") -> Record:
    """An event at another place in the source's log than its offset says."""
    return Record(offset, f'{{"id": {key}}}', event(place, {"id": key, "v": v}, op=op).value)


# In the order of the source: 1 a, 2 b, a broken record, TRUNCATE, 2 c, 3 d; in two partitions, any of which may be read first.
FIRST = [event(0, {"id": 1, "v": "a"}), Record(1, '{"id": 4}', '{"op": "c", "aft'), truncate(3), at(4, 5, 3, "d")]
SECOND = [at(0, 1, 2, "b"), at(1, 4, 2, "c")]
KEPT = [(2, "c"), (3, "d")]
END = (5, 2)


@pytest.mark.parametrize(("cut", "at_once"), [((4, 0), "soft"), pytest.param((1, 2), "hard", marks=pytest.mark.all)])
def test_what_is_below_goes(session: SparkSession, tmp_path: Path, cut: tuple[int, int], at_once: str) -> None:
    """In two batches, and in one."""
    lake = Lake(session, tmp_path)
    lake.put("t", *FIRST)
    lake.put("t", *SECOND, partition=1)
    spec = lake.spec("t")
    soft = replace(spec, path=spec.path + "_soft", truncate="soft")
    for first, second in (cut, END):
        lake.append(lake.ranges("t", {0: first, 1: second}))
        for deletes, one in (("hard", spec), ("soft", soft)):
            if deletes != at_once or (first, second) == END:
                lake.fold(one)
    assert sorted((row["id"], row["v"]) for row in values(spec.path)) == KEPT
    # No row is in doubt any more, unless rows from before stay.
    assert [row["superseded_by"] is not None for row in rows(spec.quarantine)] == [True]
    assert [row["superseded_by"] for row in rows(soft.quarantine)] == [None]
    found = {row["id"]: (row["v"], row["_cdc_deleted"], row["_cdc_op"]) for row in rows(soft.path)}
    assert found == {1: ("a", True, "t"), 2: ("c", False, "c"), 3: ("d", False, "c")}


def test_other_modes(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", *FIRST)
    lake.append(lake.all_of("t"))
    with pytest.raises(TableStopError, match=r"table t: the source was truncated .* set truncate: apply, soft or ignore"):
        lake.fold(replace(lake.spec("t"), truncate="halt"))
    lake.fold(replace(lake.spec("t"), truncate="ignore"))
    assert sorted(row["id"] for row in values(lake.spec("t").path)) == [1, 3]


Kept = dict[int, tuple[str, str, bool]]
"""By key: the value, the operation that made the row what it is, and whether it is marked as deleted."""


def happened(chosen: random.Random, deletes: str) -> tuple[list[Record], list[Kept]]:
    """What happens to three keys, and after each event what a table is that keeps the rows below a TRUNCATE."""
    records, states, kept = list[Record](), list[Kept](), Kept()
    for place in range(12):
        key, v = chosen.randrange(3), chosen.choice("abc")
        there = key in kept and not kept[key][2]
        if chosen.random() < 0.15:
            records.append(truncate(place))
            kept = {key: row if row[2] else (row[0], "t", True) for key, row in kept.items()}
        elif there and chosen.random() < 0.4:
            records.append(Record(place, f'{{"id": {key}}}', event(place, None, op="d").value))
            rest = {other: row for other, row in kept.items() if other != key}
            kept = rest if deletes == "hard" else {**kept, key: (kept[key][0], "d", True)}
        else:
            op = "u" if there else "c"
            records.append(event(place, {"id": key, "v": v}, op=op))
            kept = {**kept, key: (v, op, False)}
        states.append(kept)
    return records, states


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_rows_below_a_truncate_stay_however_it_is_cut(session: SparkSession, tmp_path: Path, deletes: str) -> None:
    """From the first load on: it kept rows that had been deleted before, as marked ones without values."""
    lake = Lake(session, tmp_path)
    for seed in range(4):
        records, states = happened(random.Random(seed), deletes)
        table = f"t{seed}"
        lake.put(table, *records)
        spec = replace(lake.spec(table), truncate="soft", deletes=deletes)
        for end in ((12,), (4, 8, 12))[seed % 2]:
            lake.append(lake.ranges(table, {0: end}))
            lake.fold(spec)
            found = {row["id"]: (row["v"], row["_cdc_op"], row["_cdc_deleted"]) for row in rows(spec.path)}
            assert found == states[end - 1], (seed, end)


@pytest.mark.all
def test_a_large_first_load(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain rows are written as they are read; a broken record and a TRUNCATE are found all the same."""
    lake = Lake(session, tmp_path, by_task=False)
    lake.put("plain", event(0, {"id": 1, "v": "a"}), event(1, {"id": 1, "v": "b"}, op="u"), event(2, {"id": 2}, op="d"))
    lake.put("t", *FIRST)
    lake.put("t", *SECOND, partition=1)
    lake.append(lake.all_of("plain"), lake.ranges("t", {0: 5, 1: 2}))
    monkeypatch.setattr(keyed_batch, "LOCAL_UP_TO", 0)
    lake.fold(lake.spec("t"))
    monkeypatch.setattr(keyed_batch, "newest", None)
    lake.fold(lake.spec("plain"))
    assert [(row["id"], row["v"]) for row in values(lake.spec("plain").path)] == [(1, "b")]
    assert sorted((row["id"], row["v"]) for row in values(lake.spec("t").path)) == KEPT
    assert [row["offset"] for row in rows(lake.spec("t").quarantine)] == [1]


def test_an_epoch_begins_with_the_whole_table(session: SparkSession, tmp_path: Path) -> None:
    """After a hole in the log, or a log that starts again: what has no event in the new epoch is not at the source any more."""
    lake = Lake(session, tmp_path)
    lake.put("t", *[event(place, {"id": key, "v": "old"}) for place, key in ((50, 1), (51, 2), (52, 3))])
    lake.append(lake.all_of("t"))
    spec = lake.spec("t")
    soft = replace(spec, path=spec.path + "_soft", truncate="soft")
    past = replace(spec, path=spec.path + "__history")
    for one in (spec, soft):
        lake.fold(one)
    history.run(session, past)
    lake.put("t", event(53, {"id": 4, "v": "not folded before the hole"}))
    lake.append(lake.all_of("t"))
    lake.epoch, lake.topic_id, lake.log["t"] = 1, "another", {}
    # Lower places and offsets than ever: 1 is as it was, 3 changed, 5 is new; 2 and 4 are gone without an event.
    lake.put("t", at(0, 7, 1, "old", "r"), at(1, 7, 3, "read", "r"), at(2, 8, 3, "new", "u"), at(3, 9, 5, "new"))
    lake.append(lake.all_of("t"))
    for _ in range(2):
        lake.fold(spec)
        lake.fold(soft)
        history.run(session, past)
    kept = [(1, "old"), (3, "new"), (5, "new")]
    assert sorted((row["id"], row["v"]) for row in values(spec.path)) == kept
    assert sorted((row["id"], row["v"]) for row in rows(soft.path) if not row["_cdc_deleted"]) == kept
    current = [(row["id"], row["v"]) for row in rows(past.path) if row["_is_current"]]
    assert sorted(current) == kept
    assert {row["id"] for row in rows(past.path) if row["_valid_to"] == "0001."} == {1, 2, 3, 4}
    # Rows that are gone stay in `soft`, marked; they have no current version.
    for one in (spec, soft):
        assert proven(session, past, one) == (8, 3)
