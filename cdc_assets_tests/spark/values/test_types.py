"""Column types: exact, or an error that names the record. The forms are what Debezium 3.7 really sent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.values.debezium_forms import REFUSED, SENT, typed
from spark.errors import JobRefusedError
from spark.specs import META, Column
from spark.values.lake_types import lake_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_form_becomes_its_value(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    row = {"id": 0, **{f"c{i}": sent for i, (_, sent, _) in enumerate(SENT)}}
    lake.put("t", event(0, row), event(1, dict.fromkeys(row) | {"id": 1}))
    columns = [Column("id", "integer", False), *(typed(f"c{i}", kind) for i, (kind, _, _) in enumerate(SENT))]
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", columns))
    full, empty = sorted(values(lake.spec("t").path), key=lambda found: found["id"])
    for number, (kind, sent, expected) in enumerate(SENT):
        found = full[f"c{number}"]
        same = math.isnan(found) if isinstance(expected, float) and math.isnan(expected) else found == expected
        assert same, f"{kind}: sent {sent!r}, found {found!r}"
    assert set(empty.values()) == {1, None}


def test_what_does_not_fit_is_named(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    columns = [Column("id", "integer", False), *(typed(f"bad{i}", kind) for i, (kind, _) in enumerate(REFUSED))]
    lake.put("t", *[event(i, {"id": i, f"bad{i}": sent}) for i, (_, sent) in enumerate(REFUSED)])
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", columns)
    lake.fold(spec)
    assert values(spec.path) == []
    held = {row["offset"]: row for row in rows(spec.quarantine)}
    for number, (kind, _) in enumerate(REFUSED):
        assert held[number]["message"].startswith(f"column 'bad{number}' of type {kind}"), held[number]
        assert (held[number]["error_class"], held[number]["column"]) == ("value", f"bad{number}")


@pytest.mark.parametrize("kind", ["bit varying(10)", "public.geometry", "box[]", "public.unheard_of", "date[]", "[]"])
def test_types_without_an_exact_lake_type(kind: str) -> None:
    with pytest.raises(JobRefusedError, match=r"column 'x' has type .*except_column_list"):
        lake_type(Column("x", kind))


def test_any_identifier_survives(session: SparkSession, tmp_path: Path) -> None:
    names = ["a.b", "tick`s", "with space", "semi;colon", 'quo"te', "ünïcode", "select", "x=y(z)"]
    lake = Lake(session, tmp_path)
    columns = [Column("the key", "integer", False), *(Column(name, "text") for name in names)]
    spec = lake.spec("t", columns, keys=["the key"])
    for number, start in enumerate("ab"):
        record = event(number, {"id": 1, "the key": 1, **{name: start + name for name in names}})
        lake.put("t", Record(number, '{"the key": 1}', record.value))
        lake.append(lake.all_of("t"))
        lake.fold(spec)
    # Not delta-rs here: its 1.6 reads NULLs from a table with column mapping, which such names need.
    (found,) = session.read.format("delta").load(spec.path).drop(*META).collect()
    assert found.asDict() == {"the key": 1, **{name: "b" + name for name in names}}
