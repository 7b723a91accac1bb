"""Defaults of added columns, as an event would hold them. psycopg writes the arrays as PostgreSQL does."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.types.array import ListDumper

from spark.specs import Column
from spark.values.missing_values import missing_leaf

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])) | st.sampled_from(
    ["NULL", "", '"', "\\", "{}"]
)


@example(["NEGATIVE_INFINITY", "NAN"])
@given(st.lists(st.none() | TEXTS, min_size=1).filter(any))
def test_texts(elements: list[str | None]) -> None:
    shown = bytes(ListDumper(list).dump(elements)).decode()
    assert json.loads(missing_leaf(Column("c", "text[]", missing=shown)) or "null") == elements


@pytest.mark.parametrize(
    ("type_", "shown", "leaf"),
    [
        ("integer[]", "{1,-2,NULL}", '["1", "-2", null]'),
        ("boolean[]", "{t,f}", '["true", "false"]'),
        ("timestamp without time zone[]", '{"2024-02-29 12:34:56.5"}', '["1709210096500000"]'),
        ("timestamp without time zone[]", '{"1559-07-04 00:00:00"}', None),
        ("date[]", "{2024-02-29}", '["19782"]'),
        ("text[]", "{}", "[]"),
        ("text[]", "{NULL}", None),
        ("text[]", "{{a},{b}}", None),
        ("text[]", "[0:1]={a,b}", None),
        ("numeric[]", "{NaN}", None),
        ("point[]", '{"(1,2)"}', None),
    ],
)
def test_arrays(type_: str, shown: str, leaf: str | None) -> None:
    assert missing_leaf(Column("c", type_, missing=shown)) == leaf


@pytest.mark.parametrize(("type_", "shown"), [("numeric(6,2)", "1.50"), ("date", "2024-02-29"), ("bytea", "\\x61")])
def test_another_form_of_a_connector_of_somebody_else(type_: str, shown: str) -> None:
    assert missing_leaf(Column("c", type_, missing=shown)) is not None
    assert missing_leaf(Column("c", type_, missing=shown, modes="decimal=precise")) is None
