"""Topics without a database: plain JSON rows and generic events, appended each once or kept by key, to silver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.records import NOW, Sent, leaves_of
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SENSOR = (Column("sensor", "text"), Column("value", "double precision"))
EVENT = (
    Column("ID", "uuid"),
    Column("Type", "text"),
    Column("Version", "integer"),
    Column("city", "text"),
    Column("data", "jsonb"),
)


def test_sensor_readings_are_appended(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path, form=("json", "topic"))
    readings: list[dict[str, Any]] = [
        {"sensor": "a", "value": 21.5},
        {"sensor": "a", "value": 21.5},
        {"value": None, "unit": "C"},
    ]
    lake.put("readings", *[Record(i, None, json.dumps(r)) for i, r in enumerate(readings)])
    spec = lake.spec("readings", SENSOR, [])
    for end in (1, 3):
        lake.append(lake.ranges("readings", {0: end}))
        lake.fold(spec)
    expected = [{"sensor": "a", "value": 21.5}, {"sensor": "a", "value": 21.5}, {"sensor": None, "value": None}]
    assert sorted(values(spec.path), key=str) == sorted(expected, key=str)


def test_rows_by_key(session: SparkSession) -> None:
    sent = [Sent({"sensor": "a", "value": 1}, {"sensor": "a"}), Sent(None, {"sensor": "a"}), Sent("5", {"sensor": "a"})]
    found = leaves_of(session, ("json", "topic"), SENSOR, ["sensor"], sent)
    assert [(f["op"], f["row"]["sensor"], f["row"]["value"]) for f in found[:2]] == [("c", "a", "1"), ("d", "a", None)]
    assert [f["unreadable"] for f in found] == [None, None, "the value is not a JSON object"]
    assert {f["source_ts"] for f in found} == {NOW.replace(tzinfo=None)}


def test_written_dates_and_times(session: SparkSession) -> None:
    columns = [
        Column("d", "date"),
        Column("t", "timestamp(3) without time zone"),
        Column("h", "time without time zone"),
        Column("z", "timestamp with time zone"),
    ]
    told = [
        ({"d": "2024-02-29", "t": "2024-02-29T12:34:56.123456", "h": "23:59:59.5"}, ("19782", "1709210096123456", "86399500000")),
        ({"d": "1969-12-31", "t": "1969-12-31 23:59:59.999000000Z", "h": "00:00"}, ("-1", "-1000", "0")),
        ({"d": "2024-02-29T01:00:00", "t": "2024-02-29 12:00:00.1234567", "h": "1 pm"}, None),
        ({"d": "2024-02-30", "t": "2024-02-29 12:00:00+02:00", "h": 5}, None),
        ({"d": 19782, "t": 1709210096123456}, ("19782", "1709210096123456", None)),
    ]
    found = leaves_of(
        session, ("json", "topic"), columns, [], [Sent({**sent, "z": "2024-02-29T12:00:00+02:00"}) for sent, _ in told]
    )
    for (sent, numbers), leaves in zip(told, found, strict=True):
        expected = numbers or tuple(None if v == "2024-02-30" else str(v) for v in sent.values())
        assert tuple(leaves["row"][n] for n in ("d", "t", "h")) == expected
        assert leaves["row"]["z"] == "2024-02-29T12:00:00+02:00"


def test_events(session: SparkSession) -> None:
    own = {"ID": "e-1", "Version": 2, "Source": "shop", "Type": "order", "Data": {"city": "São Carlos", "n": [1]}}
    cloud = {
        "specversion": "1.0",
        "id": "e-2",
        "type": "x",
        "time": "2020-05-20T19:32:27Z",
        "data": {"city": "Bauru", "ID": "own"},
    }
    found = leaves_of(
        session, ("event-json", "topic"), EVENT, [], [Sent(own), Sent(cloud), Sent({"ID": "e-3", "id": "twice"}), Sent("x")]
    )
    assert found[0]["row"] == {
        **{"ID": "e-1", "Type": "order", "Version": "2", "city": "São Carlos", "data": '{"city":"São Carlos","n":[1]}'},
    }
    assert (found[1]["row"]["ID"], found[1]["row"]["Version"], found[1]["row"]["city"]) == ("own", None, "Bauru")
    assert found[1]["source_ts"].isoformat() == "2020-05-20T19:32:27"
    unfit = "the value is not an event in JSON with Data"
    assert [f["unreadable"] for f in found] == [None, None, unfit, unfit]
    assert [f["position"][:7] for f in found] == ["0000.1."] * 4
