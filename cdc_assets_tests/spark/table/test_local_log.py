"""A table's newest commits from its own files say what Spark says of them, and ask Spark nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.bench.profile import count_calls
from spark.errors import CommitLeftOutError, HistoryTooShortError
from spark.table import delta_table
from spark.table.commit_metadata import RESTORED, surviving
from spark.table.delta_table import Commit, table_of, widen
from spark.table.log_reader import names_after, newest_here
from spark.table.spark_session import USER_METADATA, connect
from spark.table.table_folder import open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# pyspark releases an answer by a pool of threads: such a call may come any time after its plan's.
# pyspark/sql/connect/client/reattach.py, _release_until and _release_all
RELEASE = "ReleaseExecute"


def by_spark(session: SparkSession, table: str, limit: int | None) -> list[Commit]:
    """What DESCRIBE HISTORY says, less what a RESTORE has undone."""
    rows = session.sql(f"DESCRIBE HISTORY {table}" + (f" LIMIT {limit}" if limit else "")).collect()
    kept = dict(surviving([row.asDict() for row in rows]))
    return [Commit(r.version, r.operation, kept[r.version], dict(r.operationMetrics or {}), r.timestamp) for r in rows]


@pytest.mark.all
def test_a_look_at_a_log_asks_spark_nothing_and_says_the_same(remote: str, tmp_path: Path) -> None:
    calls: Counter[str] = Counter()
    session = connect(remote, interceptors=[count_calls(calls.update)])
    # All settings of a session by one call.
    assert calls["Config"] <= 2
    path = str(tmp_path / "a table")
    asked = f"delta.`{path}`"
    assert table_of(path).history(5) == []
    session.sql(f"CREATE TABLE {asked} (id INT, text STRING) USING delta")
    for number in (1, 2):
        session.conf.set(USER_METADATA, f'{{"operation_id":"{number}","text":"a \\"quoted\\"\\n line"}}')
        session.sql(f"INSERT INTO {asked} VALUES ({number}, 'new')")
    session.conf.unset(USER_METADATA)
    session.sql(f"RESTORE TABLE {asked} TO VERSION AS OF 1")
    session.sql(f"INSERT INTO {asked} VALUES (9, 'last')")
    for limit in (1, 3, None):
        before = Counter(calls)
        found = table_of(path).history(limit)
        assert {**calls, RELEASE: 0} == {**before, RELEASE: 0}
        assert found == by_spark(session, asked, limit)
        assert calls["ExecutePlan"] > before["ExecutePlan"]
    whole = table_of(path).history(None)
    assert [c.version for c in whole] == [4, 3, 2, 1, 0]
    assert [c.user_metadata for c in whole][1:3] == [RESTORED, None]
    assert table_of(path).find_commit("1", rows=1).version == 1
    with pytest.raises(CommitLeftOutError):
        table_of(path).find_commit("2")
    session.stop()


@pytest.mark.parametrize("checkpoint", [None, 3, 11])
@pytest.mark.parametrize("gone_below", [0, 2])
def test_the_newest_are_those_of_the_list(tmp_path: Path, checkpoint: int | None, gone_below: int) -> None:
    """However they are found: from the newest checkpoint on, or by listing the folder."""
    path, log = str(tmp_path), tmp_path / "_delta_log"
    for number in range(12):
        write_deltalake(path, pa.table({"n": [number]}), mode="append")
        if number == checkpoint:
            DeltaTable(path).create_checkpoint()
    for version in range(gone_below):
        (log / f"{version:020}.json").unlink()
    listed = sorted((int(file.stem) for file in log.glob("*.json")), reverse=True)
    assert newest_here(path) == (None if checkpoint is None else 11)
    for limit in (1, 5, 20, None):
        for up_to in (None, 11, 6, 2):
            found = table_of(path).commits(limit, up_to=up_to)
            expected = [version for version in listed if up_to is None or version <= up_to][:limit]
            assert [commit["version"] for commit in found or ()] == expected
    folder = open_folder(path)
    assert names_after(folder, 8) == [f"{version:020}.json" for version in (9, 10, 11)]
    assert len(names_after(folder, -1)) == len(listed)


def test_a_reader_looks_no_further_back_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int | None] = []

    def look(limit: int | None) -> list[int]:
        looks.append(limit)
        return list(range(6_000))[:limit]

    def count_from_150(commits: list[tuple[int, str | None]]) -> int:
        if len(commits) < 150:
            raise HistoryTooShortError(f"{len(commits)} commits")
        return len(commits)

    monkeypatch.setattr(delta_table.DeltaTable, "commits", lambda _, limit, up_to: [{"version": v} for v in look(limit)])
    assert (delta_table.DeltaTable("t").fold(count_from_150), looks) == (200, [20, 200])
    looks.clear()
    assert (len(list(widen(look, first=1))[-1]), looks) == (6_000, [1, 10, 100, 1_000, 10_000])
    looks.clear()
    assert (len(list(widen(look))[-1]), looks) == (6_000, [20, 200, 2_000, None])
    monkeypatch.setattr(delta_table.DeltaTable, "commits", lambda _, limit, up_to: [{"version": v} for v in [2, 1][:limit]])
    with pytest.raises(HistoryTooShortError, match="2 commits"):
        delta_table.DeltaTable("t").fold(count_from_150, first=1)
