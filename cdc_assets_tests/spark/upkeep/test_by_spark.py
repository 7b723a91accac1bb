"""What a real Spark does for maintenance, and what it refuses afterwards. Oracle: delta-rs, and Delta's own VACUUM."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets.clients import delta_rows
from spark.table.identifiers import table_at
from spark.upkeep import file_rewrite
from spark.upkeep.maintenance_spec import MaintenanceSpec
from spark.upkeep.table_maintenance import KEEP_FILES, KEEP_LOG, Step, maintain, properties_to_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400.0
MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
PLAIN = "'delta.enableDeletionVectors' = 'false'"
ROWS = [{"id": number, "v": f"v{number}"} for number in range(6)]


def make_table(session: SparkSession, path: str, properties: str) -> None:
    """A file for each row."""
    session.sql(f"CREATE TABLE {table_at(path)} (id int, v string) USING delta TBLPROPERTIES ({properties})").collect()
    for row in ROWS:
        session.sql(f"INSERT INTO {table_at(path)} VALUES ({row['id']}, '{row['v']}')").collect()


def rows(path: str) -> list[dict[str, Any]]:
    return sorted(delta_rows.read_rows(DeltaTable(path)).read_all().to_pylist(), key=lambda row: row["id"])


def is_kept_by_vacuum(session: SparkSession, path: str, *, days_old: int) -> bool:
    """Whether a person's VACUUM leaves a file of that age which no commit names."""
    file = Path(path, f"part-of-nobody-{days_old}.parquet")
    file.write_bytes(b"")
    at = time.time() - days_old * DAY
    os.utime(file, (at, at))
    # Delta takes no other number of hours than 0, which it refuses: the property says how long.
    session.sql(f"VACUUM {table_at(path)} RETAIN 24 HOURS").collect()
    return file.exists()


def configuration(path: str) -> dict[str, str]:
    return dict(DeltaTable(path).metadata().configuration)


@pytest.mark.parametrize(
    "properties",
    [MAPPED, pytest.param("'delta.enableDeletionVectors' = 'false'", marks=pytest.mark.all)],
    ids=["by Spark", "here"],
)
def test_files_are_made_one_by_whoever_writes_the_table(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: str
) -> None:
    monkeypatch.setattr(file_rewrite, "MOST_SMALL", 3)
    path, asked = str(tmp_path / "t"), list[str]()
    make_table(session, path, properties)

    def by_spark(step: Step, at: str) -> str:
        asked.append(at)
        return step(session, at)

    spec = MaintenanceSpec(path, needed_seconds=29.5 * DAY)
    done = maintain(spec, by_spark)
    assert done.given_up == {}
    assert (done.files_rewritten, done.files_written) == (6, 1)
    assert rows(path) == ROWS
    assert asked == ([path, path] if properties == MAPPED else [])
    said = configuration(path)
    assert (said[KEEP_LOG], said[KEEP_FILES]) == ("false", "interval 30 days")
    before = session.read.format("delta").option("versionAsOf", len(ROWS)).load(path)
    assert before.count() == len(ROWS), "a version before the rewriting"
    version = DeltaTable(path).version()
    assert maintain(spec, by_spark).given_up == {}
    assert DeltaTable(path).version() == version
    with pytest.raises(Exception, match="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"):
        session.sql(f"VACUUM {table_at(path)} RETAIN 0 HOURS").collect()
    assert maintain(replace(spec, needed_seconds=2 * DAY), by_spark).given_up == {}
    assert configuration(path)[KEEP_FILES] == "interval 7 days"


@pytest.mark.all
def test_a_vacuum_keeps_what_is_needed(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make_table(session, path, PLAIN)
    assert maintain(MaintenanceSpec(path, needed_seconds=30 * DAY)).given_up == {}
    assert is_kept_by_vacuum(session, path, days_old=10)
    assert maintain(MaintenanceSpec(path, needed_seconds=2 * DAY)).given_up == {}
    assert not is_kept_by_vacuum(session, path, days_old=10)


def test_without_a_spark_it_is_left_and_told(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    make_table(session, path, MAPPED)
    assert maintain(MaintenanceSpec(path)).given_up["settings"].startswith("Spark writes it: ")
    assert KEEP_LOG not in configuration(path)


def test_deltas_own_seven_days_need_no_property() -> None:
    assert properties_to_set({}, 2 * DAY) == {KEEP_LOG: "false"}
    assert properties_to_set({KEEP_LOG: "false"}, 7 * DAY) == {}
    assert properties_to_set({KEEP_LOG: "false"}, 7 * DAY + 1) == {KEEP_FILES: "interval 8 days"}
    assert properties_to_set({KEEP_LOG: "true", KEEP_FILES: "interval 8 days"}, DAY) == {
        KEEP_LOG: "false",
        KEEP_FILES: "interval 7 days",
    }
