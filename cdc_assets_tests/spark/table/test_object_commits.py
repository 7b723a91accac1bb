"""Commits into the stack's S3 and GCS endpoints: of two writers none loses one, and a lost answer counts once."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from cdc_assets_tests.support.lake.deaf_proxy import DeafProxy, deaf_proxy
from cdc_assets_tests.support.lake.large_table import LargeTable
from spark.errors import CommitUncertainError, LeftToSparkError
from spark.silver import task_merge
from spark.table import buckets, delta_table
from spark.table.delta_rs import open_delta
from spark.table.delta_table import table_of
from spark.table.lake_location import gcs_access, s3_client
from spark.table.table_folder import open_folder


@pytest.fixture
def proxy(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeafProxy]:
    """Only what commits goes by it: PyArrow and delta-rs reach the store as ever."""
    is_s3 = object_lake.startswith("s3a://")
    with deaf_proxy(os.environ["AWS_ENDPOINT_URL_S3" if is_s3 else "STORAGE_EMULATOR_HOST"]) as found:
        monkeypatch.setattr(buckets, "_CLIENTS", {})
        if is_s3:
            monkeypatch.setattr(buckets, "s3_client", lambda: s3_client({**os.environ, "AWS_ENDPOINT_URL_S3": found.url}))
        else:
            monkeypatch.setattr(buckets, "gcs_access", lambda: gcs_access(found.url))
        yield found


def is_write(method: str, path: str, body: bytes, name: str) -> bool:
    """Whether a request writes that object: S3's name it by their path, GCS's in what they send."""
    return (method == "PUT" and path.endswith(f"/{name}")) or (method == "POST" and f'{name}"'.encode() in body)


@pytest.mark.parametrize("vectors", [True, False])
def test_the_table_holds_what_the_changes_say(object_lake: str, monkeypatch: pytest.MonkeyPatch, *, vectors: bool) -> None:
    monkeypatch.setattr(task_merge, "_SMALL_BYTES", 0)
    monkeypatch.setattr(delta_table, "_EVERY", 4)
    table = LargeTable(object_lake, 3, vectors=vectors)
    for number in range(9):
        table.change(late=number % 3 == 2)
        table.check()
    assert open_folder(f"{table.spec.path}/_delta_log").read("_last_checkpoint")
    names = open_folder(table.spec.path).filesystem.get_file_info(_all_files())
    assert any("deletion_vector" in each.path for each in names) is vectors


def test_two_writers_lose_nothing(object_lake: str) -> None:
    """Each process commits to the newest version that it sees, without a lease, until all of its commits are in the log."""
    each = 25
    table = LargeTable(object_lake, 1, keys=("a",))
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_commit_many, args=(table.spec.path, name, each)) for name in ("one", "two", "three")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    commits = table_of(table.spec.path).commits(None)
    told = Counter(json.loads(commit["userMetadata"])["operation_id"] for commit in commits[:-1])
    assert told == Counter(f"{name}-{number}" for name in ("one", "two", "three") for number in range(each))
    assert open_delta(table.spec.path).version() == 3 * each


def _commit_many(path: str, name: str, count: int) -> None:
    for number in range(count):
        metadata = json.dumps({"operation_id": f"{name}-{number}"})
        while True:
            [newest] = table_of(path).commits(1)
            try:
                table_of(path).put(newest["version"] + 1, [{"commitInfo": {"timestamp": 0, "userMetadata": metadata}}])
                break
            except LeftToSparkError:
                continue


@pytest.mark.parametrize("times", [1, 3, 7])
def test_a_commit_whose_answer_is_lost_counts_once(object_lake: str, proxy: DeafProxy, times: int) -> None:
    """The client repeats it (five times at most), and is told 412 by its own commit; or we repeat it."""
    table = LargeTable(object_lake, 2, keys=("a",))
    left = [times]

    def drops(method: str, path: str, body: bytes) -> bool:
        if not left[0] or not is_write(method, path, body, f"_delta_log/{1:020}.json"):
            return False
        left[0] -= 1
        return True

    proxy.drops = drops
    while not proxy.dropped:
        table.change()
    table.check()
    assert len(proxy.dropped) == times
    commits = [c for c in table_of(table.spec.path).commits(None) if c["version"] == 1]
    assert len(commits) == 1
    table.change()
    table.check()


def test_a_store_that_is_not_heard_is_no_refusal(object_lake: str, proxy: DeafProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says whether the commit is there: it is not said to be made, nor not to be."""
    monkeypatch.setattr(delta_table, "_TRIES", 1)
    monkeypatch.setattr(buckets, "_REPEAT_SECONDS", 3.0)
    proxy.drops = lambda _method, path, body: b"_delta_log" in path.encode() + body
    with pytest.raises(CommitUncertainError, match="nobody says whether _delta_log/0"):
        table_of(f"{object_lake}/t").put(0, [{"commitInfo": {"userMetadata": "x"}}])
    proxy.drops = lambda *_: False
    assert len(open_folder(f"{object_lake}/t").names("_delta_log")) == 1


def test_somebody_elses_commit_is_not_ours(object_lake: str) -> None:
    table_of(f"{object_lake}/t").put(0, [{"commitInfo": {"userMetadata": "one"}}])
    with pytest.raises(LeftToSparkError, match="somebody else has committed version 0"):
        table_of(f"{object_lake}/t").put(0, [{"commitInfo": {"userMetadata": "two"}}])


def _all_files() -> object:
    import pyarrow.fs as fs

    return fs.FileSelector("", recursive=True)
