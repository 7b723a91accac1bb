"""A declared field is the event's time, in bronze and from there on; what is none keeps Kafka's time."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.records import NOW, Sent, kafka
from spark.errors import JobRefusedError
from spark.specs import TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = dt.datetime(2024, 2, 29, 12, 0, 0, 500000)
KAFKA_TIME = NOW.replace(tzinfo=None)
SENT: dict[str, list[tuple[Any, dt.datetime]]] = {
    "iso:at": [
        ({"at": "2024-02-29T12:00:00.5Z"}, AT),
        ({"at": "2024-02-29 14:00:00.5+02:00"}, AT),
        ({"at": "29 February"}, KAFKA_TIME),
        ({"at": None}, KAFKA_TIME),
        ({}, KAFKA_TIME),
        ("no JSON", KAFKA_TIME),
        ({"at": "+12345-01-01"}, KAFKA_TIME),
    ],
    "seconds:sent.at": [({"sent": {"at": 1709208000.5}}, AT), ({"at": 1709208000.5}, KAFKA_TIME), ({"sent": 5}, KAFKA_TIME)],
    "milliseconds:at": [
        ({"at": 1709208000500}, AT),
        ({"at": "1709208000500"}, AT),
        ({"at": 10**18}, KAFKA_TIME),
        ({"at": 10**40}, KAFKA_TIME),
        ({"at": "2024"}, dt.datetime(1970, 1, 1, 0, 0, 2, 24000)),
    ],
    "microseconds:at": [({"at": 1709208000500000}, AT), ({"at": -1}, dt.datetime(1969, 12, 31, 23, 59, 59, 999999))],
}


def test_each_form(session: SparkSession) -> None:
    from spark.bronze.batch_records import drafts

    topics = {f"t{number}": [Sent(value) for value, _ in sent] for number, sent in enumerate(SENT.values())}
    topics["plain"] = [Sent({"at": "2024-02-29T12:00:00.5Z"})]
    ranges = [
        TopicRange(name, name, "id", 0, {0: (0, 100)}, "json", "topic", event_time=declared)
        for name, declared in zip(topics, [*SENT, ""], strict=True)
    ]
    found = drafts(kafka(session, topics), ranges).select("topic", "offset", "source_ts", "timestamp").collect()
    by_topic = {name: [row.source_ts for row in sorted(found) if row.topic == name] for name in topics}
    expected = [[at for _, at in sent] for sent in SENT.values()]
    assert [*by_topic.values()] == [*expected, [KAFKA_TIME]]
    assert {row.timestamp for row in found} == {KAFKA_TIME}


def test_another_form_is_refused(session: SparkSession) -> None:
    from spark.bronze.batch_records import drafts

    wrong = TopicRange("t", "t", "id", 0, {0: (0, 1)}, "json", "topic", event_time="minutes:at")
    with pytest.raises(JobRefusedError, match="'minutes:at' is not form:path"):
        drafts(kafka(session, {"t": [Sent({})]}), [wrong])
