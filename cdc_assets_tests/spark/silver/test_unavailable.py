"""Unchanged TOASTed values: the leaves that Debezium 3.7 sent for them, and values that only look like one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as UNAVAILABLE_VALUE
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.record_formats import UNCHANGED_HEADER
from spark.silver.typed_changes import null_may_mean_unchanged, placeholder_forms
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Read from the topic of the product's own connector: the leaf of an unchanged value, as the JSON had it.
SENT = {
    "text": "cdc_assets:unchanged:6f2d9a4be1c84d3f9a57",
    "bytea": "Y2RjX2Fzc2V0czp1bmNoYW5nZWQ6NmYyZDlhNGJlMWM4NGQzZjlhNTc=",
    "hstore": '{"cdc_assets:unchanged:6f2d9a4be1c84d3f9a57":"cdc_assets:unchanged:6f2d9a4be1c84d3f9a57"}',
    "text[]": '["cdc_assets:unchanged:6f2d9a4be1c84d3f9a57"]',
    "bytea[]": '["Y2RjX2Fzc2V0czp1bmNoYW5nZWQ6NmYyZDlhNGJlMWM4NGQzZjlhNTc="]',
    "uuid[]": '["cae26633-2ceb-345f-9da5-e5d17873cd0f"]',
    "integer[]": (
        "[99,100,99,95,97,115,115,101,116,115,58,117,110,99,104,97,110,103,101,100,58,"
        "54,102,50,100,57,97,52,98,101,49,99,56,52,100,51,102,57,97,53,55]"
    ),
}


def test_every_form_that_was_sent_is_known() -> None:
    assert set(SENT.values()) == set(placeholder_forms(UNAVAILABLE_VALUE))


@pytest.mark.parametrize(
    "kind",
    [
        *("numeric[]", "boolean[]", "real[]", "smallint[]", "timestamp without time zone[]", "bit(1000)"),
        *("polygon", "path", "int4multirange", "jsonpath"),
    ],
)
def test_types_sent_as_null(kind: str) -> None:
    assert null_may_mean_unchanged(Column("x", kind, accepted=True))
    assert not any(null_may_mean_unchanged(Column("x", known)) for known in SENT)


def test_null_of_a_fixed_length_is_null() -> None:
    assert null_may_mean_unchanged(Column("x", "public.lquery_like", kind="base"))
    assert not null_may_mean_unchanged(Column("x", "public.isbn13", kind="fixed"))


def test_a_real_value_that_looks_like_debeziums_default(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "__debezium_unavailable_value"}, op="u"))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t"))
    assert values(lake.spec("t").path) == [{"id": 1, "v": "__debezium_unavailable_value"}]


def test_the_text_that_the_header_tells_counts_and_no_other(session: SparkSession, tmp_path: Path) -> None:
    lake, own = Lake(session, tmp_path), "cdc_unchanged_0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    columns = [Column("id", "integer", False), Column("v", "text"), Column("b", "bytea"), Column("a", "text[]")]
    columns += [Column("u", "uuid[]"), Column("i", "integer[]"), Column("h", "hstore")]
    text, binary, listed, _, numbers, named, pair = placeholder_forms(own)
    gone = dict(zip("vbauih", (text, binary, *map(json.loads, (listed, named, numbers)), pair), strict=True))
    was = {"v": "x", "b": "eA==", "a": ["x"], "u": ["0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"], "i": [1], "h": '{"a":"1"}'}
    told = {UNCHANGED_HEADER: own}
    lake.put("t", event(0, {"id": 1, **was}), event(1, {"id": 2, **was}), event(2, {"id": 3, **was}))
    lake.put(
        "t",
        replace(event(3, {"id": 1, **gone}, op="u"), headers=told),
        # Of before, when no header was sent; and the same text where another one counts.
        event(4, {"id": 2, **was, "v": UNAVAILABLE_VALUE}, op="u"),
        replace(event(5, {"id": 3, **was, "v": UNAVAILABLE_VALUE}, op="u"), headers=told),
        event(6, {"id": 4, **was, "v": UNAVAILABLE_VALUE}, op="r"),
    )
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", columns))
    found = {row["id"]: row for row in values(lake.spec("t", columns).path)}
    assert {key: row["v"] for key, row in found.items()} == {1: "x", 2: "x", 3: UNAVAILABLE_VALUE, 4: UNAVAILABLE_VALUE}
    assert [{name: row[name] for name in "bauih"} for row in found.values()] == 4 * [{n: found[4][n] for n in "bauih"}]
