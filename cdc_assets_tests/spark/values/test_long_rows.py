"""A long value of every type that can have one comes through each step as it was sent.

What it costs is held by `python -m benchmarks.long_values`: twice the value takes about twice as long.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.declared import declare_source
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.ledger_records import told
from cdc_assets_tests.support.lake.long_rows import STEPS, TABLE, LongRow
from cdc_assets_tests.support.values.long_values import LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SIZE = 1 << 18
SOURCE = """
source: source
database: {{kind: postgresql, host: localhost, dbname: shop, user: shop, password: {{secret: shop}}}}
backup: {{store: {{kind: local, bucket: {bucket}, prefix: lake}}}}
tables: [{{name: public.long}}]
"""
# One of each form of silver; the others are played with --all.
CORE = ("jsonb", "bytea", "path", "text[]")


@pytest.mark.parametrize("type_", [t if t in CORE else pytest.param(t, marks=pytest.mark.all) for t in LONG])
def test_a_long_value_comes_through(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str) -> None:
    source = declare_source(tmp_path, monkeypatch, SOURCE.format(bucket=tmp_path / "bucket"))
    row = LongRow(session, tmp_path, type_, SIZE, source)
    found = row.play()
    assert [*row.seconds] == [*STEPS]
    assert sum(rows for rows, _ in found.values()) == 1
    held = LONG[type_](SIZE).held
    for path in (str(tmp_path / "silver" / "source" / TABLE), row.path_by_spark):
        assert [each["v"] for each in read(path)] == [held]
    fates, _ = told(str(tmp_path / "ledger"))
    assert [dict(each) for each in fates.values()] == [{"applied": 1}]
    was, now = (read(f"{lake}/bronze/source") for lake in (tmp_path, row.restored))
    assert [each["value"] for each in now] == [each["value"] for each in was]
    # Bits are a letter each in silver, and a sixth of one in the event.
    assert len(was[0]["value"]) > SIZE // 7
