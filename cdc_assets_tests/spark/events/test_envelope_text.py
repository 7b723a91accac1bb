"""Texts of producers that agree on no format: appended each once or kept by key, to silver; bytes that are no text wait."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.lake.records import Sent, leaves_of
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE = (
    Column("value", "text"),
    Column("key", "text"),
    Column("time", "timestamp with time zone"),
    Column("headers", "jsonb"),
    Column("offset", "bigint", False),
    Column("partition", "integer", False),
)


@pytest.mark.all
def test_random_texts_are_rows(session: SparkSession, tmp_path: Path) -> None:
    """The producer of a course on Kafka: a thousand random strings, of which none is JSON."""
    choice = random.Random(7)
    sent = ["".join(choice.choices(string.printable + "áçé☃{}\"'", k=choice.randint(0, 40))) for _ in range(1000)]
    lake = Lake(session, tmp_path, form=("text", "topic"))
    lake.put("random", *[Record(i, None, text) for i, text in enumerate(sent)])
    spec = lake.spec("random", WHOLE, [])
    for end in (300, 1000):
        lake.append(lake.ranges("random", {0: end}))
        lake.fold(spec)
    found = sorted(rows(spec.path), key=lambda row: row["offset"])
    assert [row["value"] for row in found] == sent
    assert [(row["offset"], row["partition"], row["key"]) for row in found] == [(i, 0, None) for i in range(1000)]
    assert all(row["time"] == row["_cdc_source_ts"] for row in found)
    assert not Path(spec.quarantine).exists()


def test_the_newest_text_of_a_key_is_its_row(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path, form=("text", "topic"))
    texts = [("a", "1"), ("b", "x"), ("a", "2"), ("b", None), (None, "without a key"), ("c", "")]
    lake.put("kept", *[Record(i, key, text) for i, (key, text) in enumerate(texts)])
    spec = lake.spec("kept", (Column("key", "text", False), Column("value", "text")), ["key"])
    lake.append(lake.ranges("kept", {0: len(texts)}))
    lake.fold(spec)
    assert sorted(values(spec.path), key=str) == [{"key": "a", "value": "2"}, {"key": "c", "value": ""}]
    assert [row["error_class"] for row in rows(spec.quarantine)] == ["key"]


def test_what_a_record_has_and_what_is_no_text(session: SparkSession) -> None:
    sent = [
        Sent(b"\xff\xfe", "k"),
        Sent("text", b"\xc3\x28"),
        Sent('{"a": 1}', "k", headers={"trace": "1", "empty": ""}),
        Sent("null", None),
    ]
    found = leaves_of(session, ("text", "topic"), WHOLE, [], sent)
    assert [f["unreadable"] for f in found] == ["the value is not text in UTF-8", "the key is not text in UTF-8", None, None]
    assert [f["row"]["value"] for f in found[2:]] == ['{"a": 1}', "null"]
    assert json.loads(found[2]["row"]["headers"]) == [{"key": "trace", "value": "1"}, {"key": "empty", "value": ""}]
    assert [(f["row"]["offset"], f["row"]["headers"]) for f in found[3:]] == [("3", "[]")]
    # Of a key that no column shows nothing is asked.
    (alone,) = leaves_of(session, ("text", "topic"), (Column("value", "text"),), [], sent[1:2])
    assert (alone["unreadable"], alone["row"]) == (None, {"value": "text"})
