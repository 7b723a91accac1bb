"""Keys as people write them, and the features of two tables as one's."""

from __future__ import annotations

from typing import Any

import pytest

from spark.errors import JobRefusedError
from spark.upkeep.chosen_keys import parse_key
from spark.upkeep.content_swap import _common_folder, join_protocols
from spark.upkeep.replay_spec import WantedKeys, parse_bound


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("42", ["id"], ["42"]),
        ("a,b=c", ["id"], ["a,b=c"]),
        ('{"id": 42}', ["id"], ["42"]),
        ('{"b": null, "a": 1.50}', ["a", "b"], ["1.50", None]),
    ],
)
def test_keys(text: str, names: list[str], values: list[str | None]) -> None:
    assert parse_key(text, names) == values


@pytest.mark.parametrize("text", ["42", "[1, 2]", '{"a": 1}', '{"a": 1, "b": 2, "c": 3}', "{"])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(JobRefusedError, match='write {"a": …, "b": …}'):
        parse_key(text, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("42", ["id"], ["42"]),
        ('{"id": 42}', ["id"], ["42"]),
        ('{"a": 1}', ["a", "b"], ["1"]),
        ('{"b": "x", "a": 1}', ["a", "b", "c"], ["1", "x"]),
    ],
)
def test_bounds(text: str, names: list[str], values: list[str]) -> None:
    assert parse_bound(text, names) == values


@pytest.mark.parametrize("text", ["42", "[1]", "{}", '{"b": 1}', '{"a": null}', '{"a": 1, "c": 3}', "{"])
def test_what_is_no_bound(text: str) -> None:
    with pytest.raises(JobRefusedError, match='is no bound of a key: write {"a": …, "b": …}, without NULL; the last columns may'):
        parse_bound(text, ["a", "b"])


def test_wanted_keys_in_words() -> None:
    assert [bool(each) for each in (WantedKeys(), WantedKeys(("1",)), WantedKeys(begin=""), WantedKeys(end="5"))] == [
        False,
        *[True] * 3,
    ]
    assert WantedKeys(("1", "2")).text == "keys 1, 2"
    assert (WantedKeys(begin="1", end="5").text, WantedKeys(end="5").text) == ("keys from 1 to 5", "keys to 5")
    assert (WantedKeys(begin="1", end="5").options, WantedKeys(end="5").options) == ("--from-key/--to-key", "--to-key")


def named(readers: list[str], writers: list[str]) -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": writers}


PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
NO_ZONE = named(["timestampNtz"], ["appendOnly", "invariants", "timestampNtz"])


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ({}, PLAIN, PLAIN),
        (PLAIN, PLAIN, PLAIN),
        (PLAIN, {"minReaderVersion": 2, "minWriterVersion": 5}, {"minReaderVersion": 2, "minWriterVersion": 5}),
        (PLAIN, NO_ZONE, NO_ZONE),
        (NO_ZONE, PLAIN, NO_ZONE),
        (
            {"minReaderVersion": 2, "minWriterVersion": 5},
            named(["deletionVectors"], ["deletionVectors"]),
            named(
                ["columnMapping", "deletionVectors"],
                [
                    *("appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors"),
                    *("generatedColumns", "invariants"),
                ],
            ),
        ),
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]},
            PLAIN,
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", "rowTracking"]},
        ),
    ],
)
def test_a_table_has_the_features_of_both(one: dict[str, Any], other: dict[str, Any], joined: dict[str, Any]) -> None:
    assert join_protocols(one, other) == joined


def test_the_folder_above_both() -> None:
    assert _common_folder("s3a://b/lake/replay/x/silver", "s3a://b/lake/silver/x/t") == (
        "s3a://b/lake",
        ("replay/x/silver", "silver/x/t"),
    )
