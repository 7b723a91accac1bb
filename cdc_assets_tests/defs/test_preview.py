"""The first rows of a silver table on its asset's page, as delta-rs wrote them; nothing sensitive."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from cdc_assets.chain.silver_fold import MASK, preview
from cdc_assets.registry.display_text import in_markdown
from cdc_assets_tests.support.lake.delta_shop import write
from spark.silver.task_merge import upgrade_protocol
from spark.table.data_files import write_vectors
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder

NAMES, LONG = ["a|b", None, "<b>x</b>"], "y" * 61


def written(folder: Path) -> str:
    rows = {"id": [1, 2, 3], "name": NAMES, "note": [LONG, b"\x01".hex(), None], "email": ["x@y"] * 3, "_cdc_op": ["c"] * 3}
    write(folder / "t", pa.table(rows))
    return str(folder / "t")


def test_rows_are_shown_without_what_is_sensitive(tmp_path: Path) -> None:
    shown = preview(written(tmp_path), ["email"], 2).splitlines()
    hidden = in_markdown(MASK)
    assert shown == [
        "| id | name | note | email |",
        "| --- | --- | --- | --- |",
        f"| 1 | a\\|b | {'y' * 60}… | {hidden} |",
        f"| 2 |  | 01 | {hidden} |",
    ]
    assert r"\<b\>x\<\/b\>" in preview(str(tmp_path / "t"), (), 3)


def test_rows_that_are_gone_are_not_shown(tmp_path: Path) -> None:
    path = written(tmp_path)
    live = table_of(path).snapshot()
    [(name, file)] = live.files.items()
    vector = write_vectors(open_folder(path), {name: np.array([0])})[name]
    gone = {"path": name, "deletionTimestamp": 1, "dataChange": True}
    info = {"commitInfo": {"timestamp": 1, "operation": "DELETE", "operationParameters": {}}}
    table_of(path).put(
        live.version + 1, [info, *upgrade_protocol(live), {"remove": gone}, {"add": {**file, "deletionVector": vector}}]
    )
    assert json.loads(file["stats"])["numRecords"] == 3
    assert [line.split()[1] for line in preview(path, (), 5).splitlines()[2:]] == ["2", "3"]


def test_there_may_be_nothing_to_show(tmp_path: Path) -> None:
    assert preview(str(tmp_path / "none"), (), 5) == ""
    assert preview(written(tmp_path), (), 0) == ""
