"""Unchanged TOASTed values: the leaves that Debezium 3.7 sent for them, and values that only look like one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.connectors.postgresql import UNAVAILABLE_VALUE
from cdc_assets_tests.spark.lake import Lake, values
from cdc_assets_tests.spark.test_types import event
from spark.silver.unavailable import forms, null_may_mean_unchanged
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
    assert set(SENT.values()) == set(forms(UNAVAILABLE_VALUE))


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


def test_a_real_value_that_looks_like_debeziums_default(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "__debezium_unavailable_value"}, op="u"))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t"))
    assert values(lake.spec("t").path) == [{"id": 1, "v": "__debezium_unavailable_value"}]
