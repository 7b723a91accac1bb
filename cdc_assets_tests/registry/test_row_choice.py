"""`where` of a table: what may be said, and what it means to the job."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cdc_assets.registry.table_declaration import Table
from spark.specs import RowCondition, conditions_text


def table(**more: Any) -> Table:
    return Table.model_validate({"name": "public.orders", **more})


def test_conditions() -> None:
    where = [{"column": "region", "one_of": ["US", "EU", None]}, {"column": "paid", "none_of": [False]}]
    found = [each.condition for each in table(where=[*where, {"column": "number", "one_of": [12, 7]}]).where]
    assert found == [
        RowCondition("region", ("EU", "US", None)),
        RowCondition("paid", ("false",), excluded=True),
        RowCondition("number", ("12", "7")),
    ]
    assert conditions_text(found) == "region in (EU, US, NULL) and paid not in (false) and number in (12, 7)"
    assert conditions_text([]) == "all rows"
    assert table(where=[{"column": "a", "one_of": ["b", "a"]}]).where[0].condition == RowCondition("a", ("a", "b"))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"where": [{"column": "a"}]}, "give values as one_of or as none_of"),
        ({"where": [{"column": "a", "one_of": [1], "none_of": [2]}]}, "give values as one_of or as none_of"),
        ({"where": [{"column": "a", "one_of": [1.5]}]}, "one_of"),
        ({"where": [{"column": "a", "is": 1}]}, "Extra inputs"),
        ({"where": [{"column": "a", "one_of": [1]}], "deletes": "soft"}, "deletes: soft: where keeps whole rows"),
        ({"where": [{"column": "a", "one_of": [1]}], "without_key": "multiset"}, "without_key: multiset: where keeps whole rows"),
        ({"where": [{"column": "a", "one_of": [1]}], "ignore_null_updates": True}, "ignore_null_updates: where keeps whole rows"),
        ({"where": [{"column": "a", "one_of": [1]}], "except_column_list": ["a"]}, "that the lake has not"),
    ],
)
def test_what_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        table(**more)


def test_windows_are_of_all_rows() -> None:
    window = {"name": "per_minute", "event_time": "at", "size": "1m", "measures": {"rows": "count"}}
    assert table(windows=[window]).windows
    with pytest.raises(ValidationError, match="give where or windows"):
        table(where=[{"column": "a", "one_of": [1]}], windows=[window])
