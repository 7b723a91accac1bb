"""The small tables of a source in one Spark job, a task for some of them each; and what a table's declaration says
against that.

What a task leaves to Spark, with its reason, is the caller's to run by spark.silver.fold_job; so is everything where
the executors cannot run Python as the client does, or a worker died. The table's log says what is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark.bronze.narrow_columns import ENVELOPE
from spark.specs import JobResult, SilverSpec
from spark.table.commit_metadata import Committed, CommittedTopic, fold
from spark.table.delta_table import table_of
from spark.table.server_facts import small_work_lack
from spark.table.spark_failures import SPARK_FAILURES, error_text, is_closed_session
from spark.table.spark_session import cluster_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_REAL = re.compile(r"\b(real|float|double|point|line|circle)")
_PLAIN_NAME = re.compile(r"^[^\W\d]\w*$")


def reason_against(spec: SilverSpec) -> str:
    """Why only Spark's fold knows the table's rules; empty where a task may look at it."""
    reasons = {
        f"its records are no {ENVELOPE}": spec.envelope != ENVELOPE,
        "its events may be about parts of rows": spec.partial,
        "rows below a TRUNCATE stay": spec.truncate == "soft",
        # Arrow reads 1e-400 as 0.
        "others write its numbers": spec.foreign and any(_REAL.search(column.source_type) for column in spec.columns),
        "a column has a name that Spark writes": not all(_PLAIN_NAME.match(column.name) for column in spec.columns),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


MOST_TASKS, TABLES_A_TASK = 32, 5
_SCHEMA = "number int, result string, left string"


@dataclass(frozen=True)
class SmallTableOutcome:
    """What became of a table: the job's result, or why it is left to Spark."""

    spec: SilverSpec
    result: JobResult | None
    left: str = ""


@dataclass(frozen=True)
class SmallTablesSpec:
    """The tables, all of one source, and up to which version of bronze they are folded; None: all that it has."""

    tables: tuple[SilverSpec, ...]
    folded_limit: int | None = None


def run(session: SparkSession, spec: SmallTablesSpec) -> list[SmallTableOutcome]:
    """Bring the tables up to what bronze has committed, as far as tasks can."""
    if not spec.tables:
        return []
    if lack := small_work_lack(session):
        return [SmallTableOutcome(table, None, f"Spark's executors cannot do it in Python: {lack}") for table in spec.tables]
    committed = table_of(spec.tables[0].bronze_path).fold(fold, up_to=spec.folded_limit)
    groups = _deal(spec.tables, committed, most=max(MOST_TASKS, cluster_of(session).slots))
    payload = [[_item(number, spec.tables[number], committed) for number in group] for group in groups]
    fold_groups = partial(fold_group, json.dumps(payload))
    try:
        rows = session.range(0, len(groups), 1, len(groups)).mapInArrow(fold_groups, _SCHEMA).collect()
    except SPARK_FAILURES as error:
        if is_closed_session(error):
            raise
        why = f"the job of small tables failed: {error_text(error)[:500]}"
        return [SmallTableOutcome(table, None, why) for table in spec.tables]
    outcomes = {row.number: row for row in rows}
    return [
        SmallTableOutcome(table, JobResult.from_json(outcomes[n].result) if outcomes[n].result else None, outcomes[n].left or "")
        for n, table in enumerate(spec.tables)
    ]


def _deal(tables: Sequence[SilverSpec], committed: Committed, *, most: int) -> list[list[int]]:
    """The tables' numbers by task, in `most` of them: those with the most records first, each to the next task."""

    def records(number: int) -> int:
        return sum(state.records for state in committed.of_table(tables[number].table).values())

    count = min(most, max(1, -(-len(tables) // TABLES_A_TASK), min(2, len(tables))))
    ordered = sorted(range(len(tables)), key=records, reverse=True)
    return [ordered[task::count] for task in range(count)]


def _item(number: int, table: SilverSpec, committed: Committed) -> dict[str, object]:
    topics = {name: state.to_dict() for name, state in committed.of_table(table.table).items()}
    return {"number": number, "spec": table.to_json(), "version": committed.version, "topics": topics}


def fold_group(payload: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the tables of the groups whose numbers the batches hold."""
    import pyarrow as pa

    groups = json.loads(payload)
    for batch in batches:
        for group in batch.column(0).to_pylist():
            rows = list(_outcomes(groups[group]))
            schema = pa.schema([("number", pa.int32()), ("result", pa.string()), ("left", pa.string())])
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _outcomes(items: Sequence[dict]) -> Iterator[dict[str, object]]:
    from spark.silver.small_table_fold import SmallTable, fold_tables

    tables = []
    for item in items:
        topics = {name: CommittedTopic.from_dict(state) for name, state in item["topics"].items()}
        committed = Committed(item["version"], topics)
        tables.append(SmallTable(SilverSpec.from_json(item["spec"]), committed))
    for item, (result, left) in zip(items, fold_tables(tables), strict=True):
        yield {"number": item["number"], "result": result and result.to_json(), "left": left}


def fold_one(session: SparkSession, spec: SilverSpec) -> JobResult:
    """One table by whichever writer takes it, as spark.silver.fold_job.run."""
    from spark.silver import fold_job as silver_job

    if not reason_against(spec):
        [outcome] = run(session, SmallTablesSpec((spec,), spec.folded_limit))
        if outcome.result is not None:
            return outcome.result
    return silver_job.run(session, spec)
