"""Rows are counted whatever of Delta's features the table has; written by delta-rs, with the protocol of a table of Spark's."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.clients.delta_log import silver_rows
from cdc_assets.clients.schema_ledger import rows_up_to, rows_without_value

SILVER = pa.table(
    {
        "id": [1, 2, 3, 4],
        'the "name': ["a", None, "c", None],
        "_cdc_position": ["0000.1", "0000.2", "0000.3", "0000.4"],
        "_cdc_deleted": [False, True, None, True],
    }
)


def table(path: Path, *features: str) -> str:
    write_deltalake(path, SILVER)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    (path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"protocol": protocol}))
    assert set(DeltaTable(path).protocol().reader_features or ()) == {*features}
    return str(path)


@pytest.mark.parametrize(
    "features", [["deletionVectors"], ["columnMapping"], ["deletionVectors", "columnMapping", "v2Checkpoint"]]
)
def test_marked_rows_are_not_counted(features: list[str], tmp_path: Path) -> None:
    """It was: "The table has set these reader features … not yet supported by the deltalake reader"."""
    path = table(tmp_path / "t", *features)
    assert silver_rows(path) == 2
    assert (rows_up_to(path, "0000.3"), rows_up_to(path, "0")) == (3, 0)
    assert (rows_without_value(path, 'the "name', "0000.3"), rows_without_value(path, "none", "0000.3")) == (1, 0)


def test_of_widened_types_it_says_what_it_knows(tmp_path: Path) -> None:
    path = table(tmp_path / "t", "typeWidening", "deletionVectors")
    assert silver_rows(path) == 4
    assert (rows_up_to(path, "0000.3"), rows_without_value(path, 'the "name', "0000.3")) == (None, None)
