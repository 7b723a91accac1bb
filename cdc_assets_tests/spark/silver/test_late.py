"""Deletes against older events that come after them: the row stays gone, and what is remembered of that is bounded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.connectors.unchanged_value import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.versions import COLUMNS, sent
from spark.delta.commits import CommittedTopic, Folded
from spark.silver.late import grown, position_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.all
def test_a_partition_more_may_hold_the_delete_of_what_an_old_one_has_still_to_bring(
    session: SparkSession, tmp_path: Path
) -> None:
    """Keys move when partitions are added: the new partition's delete is folded before the old partition's update."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", COLUMNS)
    lake.put("t", sent(0, 0, 1, "a", None, "c"), sent(1, 1, 2, "a", None, "c"), sent(2, 5, 1, "late", None, "u"))
    lake.put("t", sent(3, 20, 2, "b", None, "u"), sent(4, 21, 2, "c", None, "u"))
    lake.append(lake.ranges("t", {0: 2}))
    assert lake.fold(spec).detail["positions_remembered"] == 1
    lake.put("t", sent(0, 11, 1, None, None, "d"), partition=1)
    lake.append(lake.ranges("t", {0: 2, 1: 1}))
    assert lake.fold(spec).detail["positions_remembered"] == 3
    lake.append(lake.ranges("t", {0: 3, 1: 1}))
    result = lake.fold(spec)
    assert (result.detail["late_events"], result.detail["refolded_keys"]) == (1, 1)
    assert values(spec.path) == [{"id": 2, "v": "a", "note": None}]
    lake.append(lake.ranges("t", {0: 4, 1: 1}))
    # Both partitions are past it.
    assert lake.fold(spec).detail["positions_remembered"] == 2
    lake.append(lake.all_of("t"))
    assert lake.fold(spec).detail["late_events"] == 0


def test_what_an_epoch_took_away_stays_away_when_silver_is_made_anew(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", sent(0, 0, 1, "a", None, "c"), sent(1, 1, 2, "deleted in the hole", None, "c"))
    lake.append(lake.all_of("t"))
    lake.epoch, lake.topic_id, lake.log = 1, "another", {"t": {0: [sent(0, 9, 1, "b", None, "r")]}}
    lake.append(lake.all_of("t"))
    spec = replace(lake.spec("t", COLUMNS), truncate="ignore")
    lake.fold(spec)
    assert values(spec.path) == [{"id": 1, "v": "b", "note": None}]


def test_what_comes_late_below_a_part_of_a_row_changes_the_rest_of_it(session: SparkSession, tmp_path: Path) -> None:
    """By hand: the part at place 5 carries on what the events before it say, whenever those arrive."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", COLUMNS)
    lake.put("t", sent(0, 0, 1, "a", "x", "c"), sent(1, 0, 2, "a", "x", "c"), sent(2, 0, 3, "a", "x", "c"))
    lake.put("t", *(sent(2 + key, 5, key, "b", GAP, "u") for key in (1, 2, 3)))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert {r["id"]: r["note"] for r in values(spec.path)} == {1: "x", 2: "x", 3: "x"}
    # Late: another note of 1; the row of 2 was gone before its part; the row of 3 went and came again.
    lake.put("t", sent(6, 3, 1, "c", "y", "u"), sent(7, 3, 2, None, None, "d"), sent(8, 3, 3, None, None, "d"))
    lake.put("t", sent(9, 4, 3, "c", "z", "c"))
    lake.append(lake.all_of("t"))
    result = lake.fold(spec)
    assert (result.detail["late_events"], result.detail["refolded_keys"], result.detail["quarantined"]) == (4, 3, 1)
    assert {r["id"]: (r["v"], r["note"]) for r in values(spec.path)} == {1: ("b", "y"), 3: ("b", "z")}


@pytest.mark.all
def test_a_key_of_nothing_is_folded_again_as_any_other(session: SparkSession, tmp_path: Path) -> None:
    def of_no_key(offset: int, place: int, v: str, note: str, op: str) -> Record:
        return Record(offset, '{"id": null}', event(place, {"id": None, "v": v, "note": note}, op=op).value)

    lake = Lake(session, tmp_path)
    spec = lake.spec("t", (replace(COLUMNS[0], nullable=True), *COLUMNS[1:]))
    lake.put("t", of_no_key(0, 0, "a", "x", "c"), of_no_key(1, 5, "b", GAP, "u"))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    lake.put("t", of_no_key(2, 3, "c", "y", "u"))
    lake.append(lake.all_of("t"))
    assert lake.fold(spec).detail["refolded_keys"] == 1
    assert values(spec.path) == [{"id": None, "v": "b", "note": "y"}]


def test_what_comes_late_for_a_key_changes_the_row_that_was_moved_from_it(session: SparkSession, tmp_path: Path) -> None:
    """The new partition has the change of the key, and the old one an update before it: the row's rest is of that update."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", COLUMNS)
    lake.put("t", sent(0, 0, 1, "a", "x", "c"), sent(1, 2, 1, "a", "y", "u"))
    lake.append(lake.ranges("t", {0: 1}))
    lake.fold(spec)
    lake.put("t", sent(0, 4, 1, None, None, "d"), sent(1, 4, 2, "b", GAP, "c"), sent(2, 5, 2, "c", GAP, "u"), partition=1)
    lake.append(lake.ranges("t", {0: 1, 1: 3}))
    lake.fold(spec)
    assert values(spec.path) == [{"id": 2, "v": "c", "note": "x"}]
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert values(spec.path) == [{"id": 2, "v": "c", "note": "y"}]


@pytest.mark.all
def test_what_is_remembered_does_not_grow_with_deletes() -> None:
    def topics(**highest: str) -> dict[str, CommittedTopic]:
        at = {int(p[1:]): position for p, position in highest.items()}
        return {"t": CommittedTopic("t", "id", 0, dict.fromkeys(at, 9), max_position=at)}

    def folded(grown: str | None, **highest: str) -> Folded:
        return Folded(1, topics(**highest), grown=grown)

    assert grown(None, topics(p0="5")) is None
    assert grown(None, topics(p0="5", p1="7")) == "7"
    assert grown(folded("7", p0="5", p1="7"), topics(p0="6", p1="9")) == "7"
    assert grown(folded("7", p0="6", p1="9"), topics(p0="8", p1="9")) is None
    assert grown(folded(None, p0="8", p1="9"), topics(p0="8", p1="99")) is None
    assert grown(folded(None, p0="8", p1="9"), topics(p0="8", p1="99", p2="98")) == "99"
    assert position_count(folded("7", p0="5", p1="7")) == 3
