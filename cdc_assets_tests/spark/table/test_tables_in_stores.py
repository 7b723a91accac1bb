"""What tasks write and the product reads of one table, on a disk and in the stack's endpoints: bronze, and topics made again."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import duckdb
import pyarrow as pa
import pytest

from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.restored_topics import RestoredTopic, read_restored_topics, record_restored
from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.large_table import LargeTable
from spark.bronze import part_files
from spark.bronze.part_files import commit_files
from spark.errors import LeftToSparkError
from spark.events.arrow_records import BRONZE_ARROW
from spark.specs import BronzeSpec, TopicRange
from spark.table.commit_metadata import Committed
from spark.table.data_files import write_file
from spark.table.delta_rs import open_delta
from spark.table.delta_table import table_of
from spark.table.log_reader import LOG, last_checkpoint
from spark.table.table_folder import open_folder
from spark.table.topic_commits import TopicCommit
from spark.upkeep.content_swap import move_files, put_content


def records(first: int, count: int) -> pa.Table:
    at = datetime(2026, 11, 1, tzinfo=timezone.utc)
    known = {"table": "t", "topic": "t", "partition": 0, "timestamp": at, "key": b"k", "value": b"v", "op": "c", "epoch": 1}
    rows = [{**known, "offset": first + number, "position": f"{first + number:020}"} for number in range(count)]
    return pa.Table.from_pylist(rows, schema=BRONZE_ARROW)


class Bronze:
    """Appends of ten records each, as a task commits them."""

    def __init__(self, root: str) -> None:
        self.path = f"{root}/bronze/shop"
        open_folder(self.path).make()

    def committed(self) -> Committed:
        return bronze_committed(self.path) or Committed(-1, {})

    def append(self, committed: Committed) -> int:
        start = committed.position("t", 0) or 0
        ranges = {0: (start, start + 10)}
        spec = BronzeSpec(self.path, "none:1", (TopicRange("t", "t", "id", 1, ranges),), uuid.uuid4().hex)
        file = write_file(open_folder(self.path), records(start, 10))
        return commit_files(spec, committed, [file], {"t": TopicCommit("t", "id", 1, ranges, records=10)})

    def offsets(self) -> list[int]:
        return sorted(row["offset"] for row in read(self.path))


def test_bronze_appends_and_its_checkpoints(lake_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "TABLE_PROPERTIES", {**part_files.TABLE_PROPERTIES, "delta.checkpointInterval": "3"})
    bronze = Bronze(lake_root)
    for turn in range(8):
        assert bronze.append(bronze.committed()) == turn
    assert bronze.offsets() == list(range(80))
    log = open_folder(bronze.path)
    made = [int(name[:20]) for name in log.names(LOG) if "checkpoint.parquet" in name]
    assert made == [3, 6]
    assert (last_checkpoint(log) or {})["version"] == made[-1]
    # From the checkpoint alone, as readers have it once the log before is gone.
    for version in range(made[-1]):
        log.delete(f"{LOG}/{version:020}.json")
    assert bronze.offsets() == list(range(80))
    assert len(table_of(bronze.path).snapshot().files) == 8
    committed = bronze.committed()
    assert (committed.version, committed.position("t", 0)) == (7, 80)


def test_of_two_appends_to_one_version_one_is_made(lake_root: str) -> None:
    bronze = Bronze(lake_root)
    for turn in range(3):
        seen = bronze.committed()

        def append(_: int, seen: Committed = seen) -> bool:
            try:
                bronze.append(seen)
            except LeftToSparkError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(append, range(4))) == 1
        assert bronze.committed().position("t", 0) == 10 * (turn + 1)
    assert bronze.offsets() == list(range(30))


def test_duckdb_reads_the_same(lake_root: str) -> None:
    bronze = Bronze(lake_root)
    for _ in range(3):
        bronze.append(bronze.committed())
    rows = open_dataset(open_delta(bronze.path), bronze.path)
    with duckdb.connect() as connection:
        found = connection.sql('SELECT count(*), min("offset"), max("offset") FROM rows WHERE "offset" >= 5').fetchall()
    assert found == [(25, 5, 29)]
    assert rows.count_rows() == 30


def test_topics_made_again_by_several_at_a_time(lake_root: str) -> None:
    path = f"{lake_root}/moves"
    made = [RestoredTopic("shop", f"t{n}", f"new{n}", f"old{n}", {0: ((0, 7), (5, n))}) for n in range(6)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda each: record_restored(path, [each]), made))
    assert read_restored_topics(path) == {each.topic_id: each for each in made}


def test_a_table_is_moved_and_removed(lake_root: str) -> None:
    table = LargeTable(f"{lake_root}/replay", 4)
    for _ in range(3):
        table.change()
    path, other = table.spec.path, f"{lake_root}/silver/shop/t"
    content = table_of(path).snapshot()
    open_folder(other).make()
    for _ in range(2):
        move_files(path, other, content)
    put_content(other, content, "")
    open_folder(path).remove_all()
    open_folder(path).remove_all()
    assert not open_folder(path).has_files(LOG)
    assert table_of(other).snapshot().files == content.files
    assert len(read(other)) == len(table.rows)
    open_folder(lake_root).remove_all()
    open_folder(lake_root).remove_all()
    assert not open_folder(other).has_files(LOG)
