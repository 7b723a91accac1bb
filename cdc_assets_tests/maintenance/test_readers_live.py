"""Whoever reads our own commits gets the same answer when a log is checkpointed, expired, compacted and purged of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from cdc_assets.cuts.cut_manifest import CutManifest
from cdc_assets.errors import SparkRunError
from cdc_assets.maintenance.maintain_source import maintain_source
from cdc_assets_tests.maintenance.old_lake import NAME, OldLake, old_lake
from cdc_assets_tests.support.live.live_source import LiveSource
from spark.maintenance import maintain as steps
from spark.maintenance import rewriting
from spark.maintenance.maintenance_spec import Maintained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(
    live: LiveSource, remote: str, session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OldLake]:
    monkeypatch.setenv("CDC_LAKE", str(tmp_path / "lake"))
    monkeypatch.setattr(rewriting, "MOST_SMALL", 1)
    monkeypatch.setattr(rewriting, "GONE_SHARE", 0.0)
    monkeypatch.setattr(steps, "CHECKPOINT_FROM", 1)
    with old_lake(replace(live, name=NAME), remote, session, tmp_path) as found:
        yield found


def maintain(lake: OldLake) -> dict[str, Maintained]:
    return {table.name: done for table, done in maintain_source(lake.chain.platform, lake.source)}


def at_version(path: str, version: int) -> list[str]:
    found = QueryBuilder().register("t", DeltaTable(path, version=version)).execute("SELECT * FROM t").read_all()
    return sorted(map(repr, pa.table(found).to_pylist()))


def test_readers_say_the_same_after_a_log_has_gone(lake: OldLake) -> None:
    lake.grow(3)
    cut = lake.cut()
    named = {entry.path: at_version(f"{lake.root}/{entry.path}", entry.version) for entry in cut.entries}
    lake.grow(3)
    lake.replay()
    lake.refine()
    lake.count()
    before, rows, by_spark = lake.answers(), lake.rows(), lake.rows_by_spark()
    assert before[f"quarantine public.{NAME}"]
    assert before[f"mark public.{NAME}"] is not None

    lake.grow_old()
    first, second = maintain(lake), maintain(lake)
    assert first.keys() == lake.paths.keys(), "a table of the source that nobody maintains"
    assert {name: done.given_up for name, done in (*first.items(), *second.items()) if done.given_up} == {}
    gone = {name: first[name].commits_expired + second[name].commits_expired for name in first}
    assert all(gone[f"{layer}/{NAME}{rest}"] for layer, rest in (("bronze", ""), ("silver", f"/{NAME}"), ("ledger", ""))), gone
    assert sum(done.files_removed for done in second.values()) > 0
    assert all(done.after is not None and done.after.dead_rows == 0 for done in second.values())

    assert lake.answers() == before
    assert lake.rows() == rows
    assert lake.rows_by_spark() == by_spark
    assert {path: at_version(f"{lake.root}/{path}", version) for path, version in versions_of(cut).items()} == named
    assert not lake.windows_are_behind() or lake.refine() is None
    # The version before the replay is older than time travel: said, and nothing is half undone.
    with pytest.raises(SparkRunError, match=r"version \d+.*maintenance.time_travel"):
        lake.undo()
    assert lake.rows() == rows

    # Whoever goes on, goes on from what the log says.
    lake.grow(2)
    lake.is_the_source()
    assert lake.answers()["lags"] == before["lags"]
    broken = lake.replay()
    maintain(lake)
    assert lake.undo()
    assert lake.rows()[f"silver/{NAME}/{NAME}"] == broken
    lake.replay()
    lake.is_the_source()


def versions_of(cut: CutManifest) -> dict[str, int]:
    return {entry.path: entry.version for entry in cut.entries}
