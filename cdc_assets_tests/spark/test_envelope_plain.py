"""Topics without a database: plain JSON rows and generic events, appended each once or kept by key, to silver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.spark.capture import Record
from cdc_assets_tests.spark.lake import Lake, values
from cdc_assets_tests.spark.records import NOW, Sent, leaves_of
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
