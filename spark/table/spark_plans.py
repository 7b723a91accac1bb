"""How Spark executes a job's plans: interpreted where it looks at little, generated as Java and compiled where it looks at much.

Generating and compiling costs every plan of every job the same, whatever it reads: a third of a cycle of up to 5,000 events
(`python -m benchmarks.interpreted`, ADR 12), most of a job right after Spark has started. Interpreted rows cost more each.
Both give the same rows; Spark falls back from the one to the other by itself where a plan cannot be compiled.

Plans must not be too deep to be sent: Spark Connect's messages nest 100 levels at most (google.protobuf's limit, DecodeError
"Error parsing message with type 'spark.connect.Relation'"), and each step of a DataFrame is one. The history of a table whose
columns have changed took more.

A small table at one version is read as the Parquet files that it consists of. Delta's own reader makes a snapshot of every
version that it has not seen: Spark jobs over the log, half of what it takes to compare a table of some hundred rows (ADR 100).
A table is plain where its files are its rows, under its columns' names: no deletion vectors, no column mapping, no widened types
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#reader-requirements-for-deletion-vectors and what follows).
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark.table.spark_session import cluster_of
from spark.table.topic_commits import CommittedTopic

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


def cut_plan(frame: DataFrame) -> DataFrame:
    """The same rows by a view of the session: the server keeps what it was made of; nothing is computed."""
    view = f"cdc_plan_{uuid.uuid4().hex}"
    frame.createTempView(view)
    return frame.sparkSession.table(view)


def any_of(conditions: Sequence[Expression]) -> Expression:
    """Whether one of them holds; false of none."""
    return _join_as_tree(conditions, Expression.__or__) if conditions else sf.lit(False)


def all_of(conditions: Sequence[Expression]) -> Expression:
    """Whether each of them holds; true of none."""
    return _join_as_tree(conditions, Expression.__and__) if conditions else sf.lit(True)


def _join_as_tree(conditions: Sequence[Expression], both: Callable[[Expression, Expression], Expression]) -> Expression:
    """Spark Connect reads expressions of up to 100 levels: a chain of fifty conditions is deeper, and a tree has six."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return both(_join_as_tree(conditions[:half], both), _join_as_tree(conditions[half:], both))


@dataclass(frozen=True)
class PlainTable:
    """`files` as Spark opens them, one at least; `schema` in Delta's JSON; `properties` are the table's."""

    files: tuple[str, ...]
    schema: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Their names, in the table's order."""
        return [column["name"] for column in json.loads(self.schema)["fields"]]


def read_plain(session: SparkSession, table: PlainTable) -> DataFrame:
    """The table's rows. Spark finds no partitions in the folders' names: those below a file's own folder alone count."""
    return session.read.schema(StructType.fromJson(json.loads(table.schema))).parquet(*table.files)
