"""Tables without a key: every event once, replays dropped, a new full snapshot in place of what was below it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Connector, Database, Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def inserted(connector: Connector, keys: range) -> None:
    for key in keys:
        connector.database.write(0, "insert", key)
        if key % 3 == 2:
            connector.database.commit(0)
    connector.database.commit(0)
    connector.stream()


def without_key(records: list[Record]) -> list[Record]:
    return [Record(r.offset, None, r.value) for r in records]


@pytest.mark.parametrize("step", [1000, pytest.param(7, marks=pytest.mark.all)])
def test_every_row_once(session: SparkSession, tmp_path: Path, step: int) -> None:
    connector = Connector(Database())
    inserted(connector, range(4))
    connector.snapshot(rows=2)  # Interrupted, and started again at a later position.
    inserted(connector, range(4, 6))
    connector.snapshot()
    inserted(connector, range(6, 15))
    connector.replay(5)
    inserted(connector, range(15, 20))
    lake = Lake(session, tmp_path)
    lake.put("t", *without_key(connector.records))
    spec = lake.spec("t", keys=())
    end = connector.next_offset
    for at in [*range(step, end, step), end]:
        lake.append(lake.ranges("t", {0: at}))
        if at % 2 or at == end:
            lake.fold(spec)
    assert lake.fold(spec).version is None
    expected = sorted((row["id"], row["v"]) for row in connector.database.rows.values())
    assert sorted((row["id"], row["v"]) for row in values(spec.path)) == expected


def test_rows_that_are_alike_stay_apart(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    records = [event(offset, {"id": 1, "v": "same"}) for offset in range(3)]
    copied = json.loads(records[2].value or "")  # COPY: another row, the same LSN.
    lake.put("t", *without_key([*records, Record(3, None, json.dumps(copied))]))
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", keys=())
    lake.fold(spec)
    assert values(spec.path) == [{"id": 1, "v": "same"}] * 4


def test_an_update_has_no_row_to_go_to(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "x"}, op="u"), event(1, {"id": 2, "v": "y"}))
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", keys=())
    lake.fold(spec)
    assert values(spec.path) == [{"id": 2, "v": "y"}]
    (held,) = rows(spec.quarantine)
    assert (held["offset"], held["row_key"]) == (0, None)
    assert "declare its keys" in held["message"]


def test_truncate(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "x"}))
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", keys=())
    lake.fold(spec)
    lake.put("t", event(1, {"id": 2, "v": "x"}), event(2, None, op="t"), event(3, {"id": 3, "v": "y"}))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert values(spec.path) == [{"id": 3, "v": "y"}]


@pytest.mark.parametrize(
    ("folded_between", "multiset"),
    [(True, True), *(pytest.param(*each, marks=pytest.mark.all) for each in ((True, False), (False, True), (False, False)))],
)
def test_offsets_of_a_topic_that_was_made_again_are_its_own(
    session: SparkSession, tmp_path: Path, folded_between: bool, multiset: bool
) -> None:
    """Both epochs in one fold, as in a replay: behind the gap that a control record leaves, the other epoch has a record."""
    lake = Lake(session, tmp_path)
    lake.put("t", *without_key([event(offset, {"id": offset, "v": "before"}) for offset in range(12)]))
    lake.append(lake.all_of("t"))
    spec = replace(lake.spec("t", keys=()), without_key="multiset" if multiset else "append")
    if folded_between:
        lake.fold(spec)
    lake.epoch, lake.topic_id, lake.log = 1, "another", {}
    lake.put("t", *(snapshot_row(offset, offset + 100) for offset in range(12) if offset != 5))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert sorted(row["id"] for row in values(spec.path)) == [offset + 100 for offset in range(12) if offset != 5]


def snapshot_row(offset: int, key: int) -> Record:
    """All rows of a snapshot have one place in the log."""
    record = event(offset, {"id": key, "v": "row"}, op="r")
    value = json.loads(record.value or "")
    value["source"] |= {"lsn": 900, "sequence": '[null,"900"]', "snapshot": "true"}
    return Record(offset, None, json.dumps(value))
