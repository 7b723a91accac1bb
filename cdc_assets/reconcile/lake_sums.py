"""Silver's sums at the cut: of a large table, and of one with news, by a query of its own; of small ones by one for many.

A query costs Spark 0.3 to 0.7 CPU seconds whatever it reads, and of a hundred small tables of a source hardly one has news.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets.errors import ON_PURPOSE, SparkRunError
from cdc_assets.reconcile import lake
from cdc_assets.reconcile.table_comparison import Carried, TableComparison
from cdc_assets.resources.databases.cuts import SourceCut

if TYPE_CHECKING:
    from spark.reconcile.job import Digest, Task

_TOGETHER = 12
"""Tables of one query. Of 72 tables on two cores 1, 12 and 36 took 14.6, 10.8 and 18.4 s (ADR 100)."""
LakeSum = tuple["Task", "Digest", float]


def sum_alone(work: TableComparison, cut: SourceCut, carried: Future[Carried]) -> LakeSum:
    """By a query of its own, as soon as the cut is in the lake; its task, and the seconds that it took."""
    return _sum_task(work, _task_of(work, cut, carried))


def sum_small(pool: Executor, works: Sequence[TableComparison], cut: SourceCut, carried: Future[Carried]) -> None:
    """Begin to take the sums of small tables, many at a time; of those with news alone."""
    quiet: list[tuple[TableComparison, Task]] = []
    for work in works:
        try:
            task = _task_of(work, cut, carried)
        except ON_PURPOSE as error:
            # Whoever asks for its sums is told why there are none.
            refused: Future[LakeSum] = Future()
            refused.set_exception(error)
            work.ours = refused.result
            continue
        if task.base.has_news(task.spec.table):
            work.ours = pool.submit(_sum_task, work, task).result
        else:
            quiet.append((work, task))
    for begin in range(0, len(quiet), _TOGETHER):
        group = quiet[begin : begin + _TOGETHER]
        sums = pool.submit(_sum_together, group)
        for number, (work, task) in enumerate(group):
            work.ours = partial(_take_one, sums, number, work, task)


def _sum_task(work: TableComparison, task: Task) -> LakeSum:
    from spark.reconcile import job

    started = time.monotonic()
    ours = work.compared.platform.spark().compare(job.digest, task)
    return task, ours, time.monotonic() - started


def _task_of(work: TableComparison, cut: SourceCut, carried: Future[Carried]) -> Task:
    from spark.reconcile.own_order import TwoRanges

    assert not isinstance(work.part, TwoRanges)
    return lake.task(work.compared, (work.state, work.committed), carried.result().position, cut.in_lake, work.part)


def _sum_together(group: Sequence[tuple[TableComparison, Task]]) -> tuple[list[Digest | None], float]:
    from spark.reconcile.small_digests import digests

    started = time.monotonic()
    found = group[0][0].compared.platform.spark().compare(digests, [task for _, task in group])
    return found, (time.monotonic() - started) / len(group)


def _take_one(sums: Future[tuple[list[Digest | None], float]], number: int, work: TableComparison, task: Task) -> LakeSum:
    """One table's sums of those of its group; by a query of its own where the group's tells none."""
    try:
        found, seconds = sums.result()
    except SparkRunError:
        # What one table is refused for says nothing of the others.
        return _sum_task(work, task)
    digest = found[number]
    return _sum_task(work, task) if digest is None else (task, digest, seconds)
