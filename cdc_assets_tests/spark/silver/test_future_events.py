"""An event whose position lies beyond what the source's log had reached: it is held in quarantine, and true changes win."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.compared import task_of
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.quarantined import held
from spark.proof.bucket_sums import key_hashes, suspects
from spark.proof.snapshot_cut import Cut
from spark.values.sql_dialects import BUCKETS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END = 1000


def placed(offset: int, row: dict[str, Any], lsn: int, sequence: list[str | None]) -> Record:
    told = event(offset, row, op="u")
    value = json.loads(told.value or "")
    value["source"] |= {"lsn": lsn, "sequence": json.dumps(sequence)}
    return Record(offset, told.key, json.dumps(value))


@pytest.mark.parametrize("by_task", [True, False])
def test_it_waits_in_quarantine(session: SparkSession, tmp_path: Path, by_task: bool) -> None:
    lake = replace(Lake(session, tmp_path), by_task=by_task)
    spec = replace(lake.spec("t"), log_end=f"0000.{END:016x}")
    far, near = 1 << 62, END + 1
    lake.put(
        "t",
        event(0, {"id": 1, "v": "a"}),
        event(1, {"id": 2, "v": "b"}),
        placed(2, {"id": 1, "v": "from the future"}, far, [str(far), str(far)]),
        placed(3, {"id": 2, "v": "of a later change"}, near, ["100", str(near)]),
        placed(4, {"id": 2, "v": "at the end"}, END, [str(END), str(END)]),
    )
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert held(spec) == {(2, "future"), (3, "future")}
    assert {row["id"]: row["v"] for row in values(spec.path)} == {1: "a", 2: "at the end"}
    # The log has grown since, and the source's own change of the row wins.
    lake.put("t", placed(5, {"id": 1, "v": "true later update"}, 2000, ["1990", "2000"]))
    lake.append(lake.all_of("t"))
    lake.fold(replace(spec, log_end=f"0000.{3000:016x}"))
    assert {row["id"]: row["v"] for row in values(spec.path)} == {1: "true later update", 2: "at the end"}
    # Of an epoch before, every position is.
    assert lake.fold(replace(spec, log_end=f"0001.{0:016x}")).detail.get("quarantined", 0) == 0


def test_a_comparison_names_its_key(session: SparkSession, tmp_path: Path) -> None:
    """Silver of a release before has folded it. What was read before a cut and lies beyond it is no change on its way."""
    lake, far = Lake(session, tmp_path), 1 << 62
    forged = placed(2, {"id": 1, "v": "from the future"}, far, [str(far), str(far)])
    value = json.loads(forged.value or "")
    value["source"]["txId"] = 5000
    lake.put(
        "t",
        event(0, {"id": 1, "v": "a"}),
        event(1, {"id": 2, "v": "b"}),
        Record(2, forged.key, json.dumps(value)),
    )
    lake.append(lake.all_of("t"))
    spec = lake.spec("t")
    lake.fold(spec)
    task = task_of(lake, spec, Cut(1000, frozenset(), END))
    found = key_hashes(session, task, range(BUCKETS))
    told = suspects(session, task, ["1;", "2;"])
    assert not any(suspect.hides for suspect in told.values())
    assert told["1;"].silver is not None
    assert told["1;"].silver["v"] == "from the future"
    assert ("1;", told["1;"].bronze_hash) in found
