"""Lines that Arrow makes are those that are made one by one, and JSON as Python reads it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.backup.json_lines import Lines, arrow_lines, line_runs, row_lines
from cdc_assets.backup.object_layout import ObjectLayout
from cdc_assets_tests.backup.record_batches import ANY_DATA, DATA, TEXT, as_batch

HOUR = 3_600_000


def batches(data: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    headers = st.none() | st.lists(st.fixed_dictionaries({"key": TEXT, "value": data}), max_size=2)
    row = st.tuples(
        *(st.integers(0, 2), st.integers(0, 9), st.integers(0, 3 * HOUR), st.none() | st.sampled_from(["r", "u", ""])),
        *(st.none() | TEXT, headers, data, data),
        *(st.none() | TEXT, st.none() | st.integers(-(10**15), 10**17), st.none() | TEXT),
    )
    return st.lists(row, min_size=2, max_size=12).map(as_batch)


@given(batches(DATA))
def test_arrow_makes_the_lines_of_any_text(batch: pa.RecordBatch) -> None:
    made = arrow_lines(batch, Lines("t"))
    assert made is not None
    assert [line.encode() for line in made.to_pylist()] == row_lines(batch, Lines("t"))


@given(batches(ANY_DATA))
def test_runs_hold_each_record_once_and_tell_what_it_is(batch: pa.RecordBatch) -> None:
    runs = list(line_runs(batch, Lines("t")))
    read = [(run, json.loads(line)) for run in runs for line in run.lines.splitlines(keepends=True) if line.strip()]
    rows = batch.to_pylist()
    assert [(each["partition"], each["offset"]) for _, each in read] == [(row["partition"], row["offset"]) for row in rows]
    assert [run.folder for run, _ in read] == [ObjectLayout().hour_folder(row["timestamp"]) for row in rows]
    assert sum(run.records for run in runs) == len(rows)
    assert sum(run.kinds["tombstone"] for run in runs) == sum(row["value"] is None for row in rows)
    assert b"".join(run.lines for run in runs) == b"".join(row_lines(batch, Lines("t")))


def test_what_is_no_text_is_row_lines() -> None:
    for data in (b"\xff", b"a\nb", b"\x00"):
        batch = as_batch([(0, n, 0, "c", None, None, None, data, None, None, None) for n in range(2)])
        assert arrow_lines(batch, Lines("t")) is None
