"""A table's newest commits from its own files say what Spark says of them, and ask Spark nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cdc_assets.bench.profile import count_calls
from spark.delta.commits import RESTORED
from spark.delta.log import commit_of, history, history_by_spark
from spark.delta.session import USER_METADATA, connect
from spark.errors import CommitLeftOutError

# pyspark releases an answer by a pool of threads: such a call may come any time after its plan's.
# pyspark/sql/connect/client/reattach.py, _release_until and _release_all
RELEASE = "ReleaseExecute"


def test_a_look_at_a_log_asks_spark_nothing_and_says_the_same(remote: str, tmp_path: Path) -> None:
    calls: Counter[str] = Counter()
    session = connect(remote, interceptors=[count_calls(calls.update)])
    # All settings of a session by one call.
    assert calls["Config"] <= 2
    path = str(tmp_path / "a table")
    asked = f"delta.`{path}`"
    assert history(session, path, 5) == []
    session.sql(f"CREATE TABLE {asked} (id INT, text STRING) USING delta")
    for number in (1, 2):
        session.conf.set(USER_METADATA, f'{{"operation_id":"{number}","text":"a \\"quoted\\"\\n line"}}')
        session.sql(f"INSERT INTO {asked} VALUES ({number}, 'new')")
    session.conf.unset(USER_METADATA)
    session.sql(f"RESTORE TABLE {asked} TO VERSION AS OF 1")
    session.sql(f"INSERT INTO {asked} VALUES (9, 'last')")
    for limit in (1, 3, None):
        before = Counter(calls)
        found = history(session, path, limit)
        assert {**calls, RELEASE: 0} == {**before, RELEASE: 0}
        assert found == history_by_spark(session, path, limit)
        assert calls["ExecutePlan"] > before["ExecutePlan"]
    whole = history(session, path, None)
    assert [c.version for c in whole] == [4, 3, 2, 1, 0]
    assert [c.user_metadata for c in whole][1:3] == [RESTORED, None]
    assert commit_of(session, path, "1", rows=1).version == 1
    with pytest.raises(CommitLeftOutError):
        commit_of(session, path, "2")
    session.stop()
