"""Deletes against older events that come after them: the row stays gone, and what is remembered of that is bounded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.versions import COLUMNS, sent
from spark.silver import row_completion
from spark.silver.keyed_batch import position_count, position_of_growth
from spark.table.commit_metadata import CommittedTopic, Folded

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


@pytest.mark.all
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


@pytest.mark.all
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

    assert position_of_growth(None, topics(p0="5")) is None
    assert position_of_growth(None, topics(p0="5", p1="7")) == "7"
    assert position_of_growth(folded("7", p0="5", p1="7"), topics(p0="6", p1="9")) == "7"
    assert position_of_growth(folded("7", p0="6", p1="9"), topics(p0="8", p1="9")) is None
    assert position_of_growth(folded(None, p0="8", p1="9"), topics(p0="8", p1="99")) is None
    assert position_of_growth(folded(None, p0="8", p1="9"), topics(p0="8", p1="99", p2="98")) == "99"
    assert position_count(folded("7", p0="5", p1="7")) == 3


class Change(NamedTuple):
    """At a place of the source's log; a row that is moved is a delete and a create, which lacks the note, at one place."""

    place: int
    key: int
    op: str
    v: str | None = None
    note: str | None = None


def changes_of(choice: random.Random, places: int) -> list[Change]:
    """In the order of the log."""
    there, made = set[int](), list[Change]()
    for place in range(places):
        key, v, note = choice.randrange(6), f"v{place}", choice.choice(["x", "y", None])
        free = sorted(set(range(6)) - there)
        act = choice.choice("wwwppdm") if key in there else "c"
        if act == "m" and free:
            new = choice.choice(free)
            made += [Change(place, key, "d"), Change(place, new, "c", v, GAP)]
            there = there - {key} | {new}
        elif act == "d":
            made.append(Change(place, key, "d"))
            there.remove(key)
        else:
            made.append(Change(place, key, "c" if act == "c" else "u", v, GAP if act == "p" else note))
            there.add(key)
    return made


def made_late(choice: random.Random, changes: Sequence[Change]) -> list[Change]:
    """Whole updates come up to twelve places later, some of them twice; what lacks something always finds the rest."""
    due = []
    for change in changes:
        is_whole = change.op == "u" and change.note != GAP
        due.append((change.place + (choice.randrange(13) if is_whole and choice.random() < 0.6 else 0), change))
        if is_whole and choice.random() < 0.1:
            due.append((change.place + 8, change))
    return [change for _, change in sorted(due, key=lambda each: each[0])]


def table_of(changes: Sequence[Change]) -> dict[int, tuple[str | None, str | None]]:
    """What these make in the order of the log, by plain Python."""
    table, moved = dict[int, Any](), None
    for change in sorted(set(changes), key=lambda each: (each.place, each.op != "d")):
        if change.op == "d":
            moved = table.pop(change.key, None)
        else:
            rest = moved if change.op == "c" else table.get(change.key)
            table[change.key] = (change.v, rest[1] if change.note == GAP and rest else change.note)
    return table


@pytest.mark.all
@pytest.mark.parametrize("seed", [8, *(pytest.param(seed, marks=pytest.mark.all) for seed in range(1, 8))])
def test_the_log_from_the_late_event_on_says_it_all(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """As of a table of which only what is older than all of this is gone. Parts and moved rows take part."""
    choice, lake, asked = random.Random(seed), Lake(session, tmp_path), list[bool]()
    fold = row_completion.fold_events_in_log

    def fold_and_tell(*arguments: Any) -> Any:
        found = fold(*arguments)
        asked.append(found is not None)
        return found

    monkeypatch.setattr(row_completion, "highest_gone", lambda *_: "")
    monkeypatch.setattr(row_completion, "fold_events_in_log", fold_and_tell)
    spec, sent_so_far, changes = lake.spec("t", COLUMNS), 0, made_late(choice, changes_of(choice, 40))
    lake.put("t", *(sent(at, *change[:2], change.v, change.note, change.op) for at, change in enumerate(changes)))
    while sent_so_far < len(changes):
        sent_so_far = min(len(changes), sent_so_far + choice.randrange(4, 12))
        lake.append(lake.ranges("t", {0: sent_so_far}))
        assert lake.fold(spec).detail["quarantined"] == 0
        found = {row["id"]: (row["v"], row["note"]) for row in values(spec.path)}
        assert found == table_of(changes[:sent_so_far])
    assert asked.count(True) > 1
