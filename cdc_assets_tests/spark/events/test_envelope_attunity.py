"""Messages of Attunity Replicate: the published world.city example from message to silver, masks, key changes."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.records import Sent, leaves_of
from cdc_assets_tests.support.values.attunity_messages import CITY, DELETED, INSERTED, JOMBANG, NAMES, TAIWAN, loaded, message
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORM = ("attunity-json", "attunity")


def update(data: Any, before: Any, mask: str = "1F") -> dict[str, Any]:
    return message({**INSERTED, "operation": "UPDATE", "columnMask": mask}, data, before)


def changed(number: int, row: dict[str, Any]) -> dict[str, Any]:
    return message({**INSERTED, "operation": "UPDATE", "changeSequence": f"20200520193227{number:021d}"}, row)


def test_the_published_example_from_message_to_silver(session: SparkSession, tmp_path: Path) -> None:
    """Full load, then the published INSERT and DELETE, without record keys."""
    lake = Lake(session, tmp_path, form=FORM)
    sent = [loaded(TAIWAN), loaded({**TAIWAN, "ID": 1}), message(INSERTED, JOMBANG), message(DELETED, TAIWAN)]
    lake.put("city", *[Record(i, None, json.dumps(value)) for i, value in enumerate(sent)])
    lake.append(lake.all_of("city"))
    spec = lake.spec("city", CITY, ["ID"])
    assert lake.fold(spec).by_op == {"r": 2, "c": 1, "d": 1}
    first, second = sorted(rows(spec.path), key=lambda row: row["ID"])
    assert {n: first[n] for n in NAMES} == {**TAIWAN, "ID": 1}
    assert {n: second[n] for n in NAMES} == JOMBANG
    assert second["_cdc_tx_id"] == INSERTED["transactionId"]
    assert second["_cdc_source_ts"] == dt.datetime(2020, 5, 20, 19, 32, 27, tzinfo=dt.timezone.utc)
    assert second["_cdc_position"] == "0000.0000020200520193227000000000000000000005.1.0000000000000002"


@pytest.mark.all
def test_a_table_loaded_again_wins_over_what_came_before(session: SparkSession, tmp_path: Path) -> None:
    """A change was lost, so the table is loaded again; the change after that wins. However it is cut into batches."""
    sent = [
        loaded({**TAIWAN, "Population": 1}),
        changed(9, {**TAIWAN, "Population": 2}),
        loaded({**TAIWAN, "Population": 4}),
        loaded({**JOMBANG, "Population": 5}),
        changed(10, {**JOMBANG, "Population": 6}),
    ]
    places = []
    for cuts in ([5], [1, 2, 4, 5], [3, 5]):
        lake = Lake(session, tmp_path / str(len(cuts)), form=FORM)
        lake.put("city", *[Record(i, None, json.dumps(value)) for i, value in enumerate(sent)])
        spec = lake.spec("city", CITY, ["ID"])
        for end in cuts:
            lake.append(lake.ranges("city", {0: end}))
        lake.fold(spec)
        assert {row["ID"]: row["Population"] for row in rows(spec.path)} == {TAIWAN["ID"]: 4, JOMBANG["ID"]: 6}
        places.append([row["position"] for row in sorted(rows(lake.bronze_path), key=lambda row: row["offset"])])
    assert places[0] == places[1] == places[2]
    assert places[0] == sorted(places[0])


def test_columns_that_a_message_leaves_out_are_absent(session: SparkSession) -> None:
    partial = {"ID": 1, "Name": None, "CountryCode": None, "District": None, "Population": 5}
    found = leaves_of(
        session,
        FORM,
        CITY,
        ["ID"],
        [
            Sent(update(partial, None, "19")),  # bits 0, 3 and 4: District is NULL, Name and CountryCode are absent
            Sent(update({"ID": 1, "Population": 5}, None, "11")),
            Sent(update({**partial, "Name": "x"}, {"ID": 1}, "1F")),
            Sent(loaded(TAIWAN)),
            Sent(message({**INSERTED, "columnMask": None}, JOMBANG)),
        ],
    )
    assert [f["present"] for f in found] == [
        [True, False, False, True, True],
        [True, False, False, False, True],
        [True] * 5,
        [True] * 5,
        [True] * 5,
    ]
    assert found[0]["row"] == {"ID": "1", "Name": None, "CountryCode": None, "District": None, "Population": "5"}


def test_masks_beyond_a_byte_start_with_the_lowest(session: SparkSession) -> None:
    names = [f"c{i}" for i in range(18)]
    columns = [Column(n, "integer") for n in names]
    row: dict[str, Any] = dict.fromkeys(names)
    headers = {**INSERTED, "operation": "UPDATE", "columnMask": "0B8102"}
    found = leaves_of(session, FORM, columns, ["c0"], [Sent(message(headers, {**row, "c0": 1}))])[0]
    assert [i for i, here in enumerate(found["present"]) if here] == [0, 1, 3, 8, 15, 17]


def test_an_update_of_the_key_moves_the_row(session: SparkSession) -> None:
    moved, same = update(JOMBANG, TAIWAN), update(JOMBANG, {**JOMBANG, "Name": "x"})
    found = leaves_of(session, FORM, CITY, ["ID"], [Sent(moved), Sent(same), Sent(message(DELETED, None, TAIWAN))])
    assert sorted((f["offset"], f["op"], f["row"]["ID"], f["row"]["Name"]) for f in found) == [
        (0, "d", "1017", None),
        (0, "u", "4097", "Jombang"),
        (1, "u", "4097", "Jombang"),
        (2, "d", "1017", None),
    ]
    assert len({f["position"] for f in found if f["offset"] == 0}) == 1


def test_what_is_no_data_message(session: SparkSession) -> None:
    strange = {**INSERTED, "operation": "UPSERT"}
    sent = [
        message({}, None, kind="MD"),
        message(strange, JOMBANG),
        {"op": "c"},
        "x",
        message({**INSERTED, "changeSequence": "?"}, JOMBANG),
    ]
    found = leaves_of(session, FORM, CITY, ["ID"], [Sent(value) for value in sent])
    unfit = "the value is not a data message of Attunity Replicate in JSON"
    reasons = [
        "the op is none of c, u, d, r",
        unfit,
        unfit,
        unfit,
        "the source block has no log position (headers.changeSequence)",
    ]
    assert [f["unreadable"] for f in found] == reasons
    assert [f["op"] for f in found] == ["m", None, None, None, "c"]
