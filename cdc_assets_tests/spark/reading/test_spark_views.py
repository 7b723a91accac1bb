"""Spark's view of a table as it is now: what the next fold makes of it, whatever that has to look at."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import UNAVAILABLE_VALUE, Lake
from spark.errors import JobRefusedError, TableStopError
from spark.silver import current_view
from spark.silver import fold_job as silver
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), Column("v", "text"), Column("big", "text"))
OPS = "ccuuudptlx"
"""Besides Debezium's: a part of a row, a late event, one that does not fit."""


def content(session: SparkSession, path: str) -> Counter[str]:
    return Counter(str(row.asDict()) for row in session.read.format("delta").load(path).collect())


def shown(session: SparkSession, spec: SilverSpec) -> Counter[str]:
    return Counter(str(row.asDict()) for row in current_view.rows_now(session, spec).collect())


class Writer:
    """Random events of a few keys, of every kind that a fold has to look at."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.random, self.offset = lake, random.Random(seed), 0

    def append(self, count: int) -> None:
        for _ in range(count):
            self._write(self.random.choice(OPS))
        self.lake.append(self.lake.all_of("t"))

    def _write(self, kind: str) -> None:
        key = self.random.randrange(5)
        row: dict[str, Any] = {"id": key, "v": f"v{self.offset}", "big": f"b{self.offset}"}
        more: dict[str, Any] = {}
        if kind == "p":
            row["big"] = UNAVAILABLE_VALUE
        elif kind == "x":
            row["v"] = {"no": "text"}
        elif kind == "l":
            lsn = 100 + self.random.randrange(max(1, self.offset))
            more = {"source": {"lsn": lsn, "sequence": json.dumps(["100", str(lsn)]), "txId": 7, "snapshot": "false"}}
        op = "t" if kind == "t" and self.random.random() < 0.3 else "u" if kind in "plxt" else kind
        record = event(self.offset, None if op in "dt" else row, op=op, **more)
        record.key = None if op == "t" else json.dumps({"id": key})
        self.lake.put("t", record)
        self.offset += 1


@pytest.mark.all
@pytest.mark.parametrize("change", [{}, {"deletes": "soft", "truncate": "soft"}, {"keys": ()}])
def test_the_view_is_what_the_next_fold_makes(session: SparkSession, tmp_path: Path, change: dict[str, Any]) -> None:
    writer = Writer(Lake(session, tmp_path), 11)
    spec = replace(writer.lake.spec("t", COLUMNS), **change)
    for count in (12, 30):
        writer.append(count)
        before = content(session, spec.quarantine) if (Path(spec.quarantine) / "_delta_log").exists() else None
        found = shown(session, spec)
        after = content(session, spec.quarantine) if (Path(spec.quarantine) / "_delta_log").exists() else None
        assert before == after, "looking leaves quarantine as it is"
        silver.run(session, spec)
        assert found == content(session, spec.path)
        assert shown(session, spec) == found


@pytest.mark.all
def test_a_view_stays_at_its_moment_and_sees_new_columns(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    old = lake.spec("t")
    lake.put("t", event(0, {"id": 1, "v": "a"}))
    lake.append(lake.all_of("t"))
    current_view.register(session, old, "silver_now_born")
    assert [row.v for row in session.table("silver_now_born").collect()] == ["a"]
    silver.run(session, old)
    spec = replace(
        old, columns=(Column("id", "integer", False), Column("w", "text"), Column("more", "integer")), renamed={"v": "w"}
    )
    lake.put("t", event(1, {"id": 2, "w": "b", "more": 7}))
    lake.append(lake.all_of("t"))
    current_view.register(session, spec, "silver_now_t")
    version = DeltaTable(spec.path).version()
    rows = {row.id: (row.w, row.more) for row in session.table("silver_now_t").collect()}
    assert rows == {1: ("a", None), 2: ("b", 7)}
    assert DeltaTable(spec.path).version() == version
    lake.put("t", event(2, {"id": 1, "w": "c", "more": 8}, op="u"))
    lake.append(lake.all_of("t"))
    silver.run(session, spec)
    assert {row.id: (row.w, row.more) for row in session.table("silver_now_t").collect()} == rows
    assert shown(session, spec) == content(session, spec.path)


@pytest.mark.all
def test_what_has_no_view_is_told(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t")
    lake.put("t", event(0, {"id": 1, "v": "a"}), event(1, None, op="t"))
    lake.append(lake.all_of("t"))
    with pytest.raises(TableStopError, match="the source was truncated"):
        current_view.rows_now(session, replace(spec, truncate="halt"))
    with pytest.raises(JobRefusedError, match="its rows are known by all of their values"):
        current_view.rows_now(session, replace(spec, keys=(), without_key="multiset"))
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with pytest.raises(JobRefusedError, match="set spark.sql.session.timeZone=UTC"):
            current_view.rows_now(session, spec)
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
