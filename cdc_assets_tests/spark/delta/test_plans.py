"""Small batches are interpreted, large ones compiled; asked of Spark itself, which shows the plan that it runs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark.delta import plans
from spark.delta.session import connect
from spark.delta.topic_commits import CommittedTopic


def is_compiled(session: SparkSession) -> bool:
    """Whether the plan holds a stage of generated code ("*(1) …" in Spark's own explanation)."""
    answer = session.sql("EXPLAIN SELECT id + 1 FROM range(10)").first()
    assert answer
    return "*(1)" in str(answer[0])


def test_a_small_batch_is_interpreted_and_a_large_one_compiled(remote: str) -> None:
    session = connect(remote)
    try:
        plans.suit(session, events=plans.EVENTS_UP_TO, rows=plans.ROWS_UP_TO)
        assert not is_compiled(session)
        for given in ({"events": plans.EVENTS_UP_TO + 1}, {"events": 1, "rows": plans.ROWS_UP_TO + 1}):
            plans.suit(session, **given)
            assert is_compiled(session)
            plans.suit(session, events=0)
            assert not is_compiled(session)
    finally:
        session.stop()


def test_rows_are_inserts_and_snapshots_less_deletes() -> None:
    def state(**by_op: int) -> CommittedTopic:
        return CommittedTopic("t", "id", 0, {}, by_op=by_op)

    assert plans.rows_at_most([state(c=5, u=900, d=2), state(r=10, d=1)]) == 12
    assert plans.rows_at_most([state(c=1, d=5)]) == 0
    assert plans.rows_at_most([state(u=900, d=2)]) == 902
    assert plans.rows_at_most([]) == 0
