"""How Spark executes a job's plans: interpreted where it looks at little, generated as Java and compiled where it looks at much.

Generating and compiling costs every plan of every job the same, whatever it reads: a third of a cycle of up to 5,000 events
(`python -m benchmarks.interpreted`, ADR 12), most of a job right after Spark has started. Interpreted rows cost more each.
Both give the same rows; Spark falls back from the one to the other by itself where a plan cannot be compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from spark.delta.cluster import cluster_of
from spark.delta.topic_commits import CommittedTopic

# Interpreted, a cycle of 20,000 events over 60,000 rows takes 0.81 of the time, one of 60,000 still 0.87, but a first load of
# 60,000 takes 1.18. A MERGE of 1,000 events into 500,000 rows takes 1.05.
EVENTS_UP_TO = 20_000
ROWS_UP_TO = 250_000
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_OPEN_COST = "spark.sql.files.openCostInBytes"
_TASKS_OF_A_STAGE = ("spark.sql.shuffle.partitions", "spark.sql.files.maxPartitionNum")


def suit(session: SparkSession, *, events: int, rows: int = 0) -> None:
    """Before a session's job that decodes so many events and reads so many rows of a table."""
    small = events <= EVENTS_UP_TO and rows <= ROWS_UP_TO
    for name, value in INTERPRETED.items():
        if small:
            session.conf.set(name, value)
        else:
            session.conf.unset(name)


def spread(session: SparkSession, rows: int) -> None:
    """Before a session's job that works long on each of so many rows: a file of a few megabytes is read by several tasks.

    Spark takes the opening of a file for as dear as 4 MB of it (spark.sql.files.openCostInBytes), and gives a task at least so
    much. A million rows of silver may be 5 MB: one core hashed most of them (ADR 112).
    """
    if rows > ROWS_UP_TO:
        session.conf.set(_OPEN_COST, 64 << 10)
    else:
        session.conf.unset(_OPEN_COST)


def leave_a_slot(session: SparkSession) -> None:
    """Before a session's job for which nobody waits: its stages are cut into fewer tasks than the server runs at a time.

    A union has the tasks of all its parts: what works long on each row asks `in_spare_slots` besides.
    """
    for name in _TASKS_OF_A_STAGE:
        session.conf.set(name, _spare_slots(session))


def in_spare_slots(rows: DataFrame) -> DataFrame:
    """The rows, worked on by fewer tasks than the server runs at a time."""
    return rows.coalesce(_spare_slots(rows.sparkSession))


def _spare_slots(session: SparkSession) -> int:
    return max(1, cluster_of(session).slots - 1)


def rows_at_most(topics: Iterable[CommittedTopic]) -> int:
    """An estimate of a table's rows from what bronze has counted: inserts and snapshot rows less deletes.

    Where neither is told apart from updates, every event may be a row.
    """
    counts: Counter[str] = Counter()
    for state in topics:
        counts.update(state.by_op)
    made = counts["c"] + counts["r"]
    return max(0, made - counts["d"]) if made else counts.total()
