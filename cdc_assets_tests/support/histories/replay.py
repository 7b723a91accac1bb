"""Recordings folded anyhow: partitions interleaved, stretches delivered again, batches cut and jobs killed anywhere.

What Kafka and an at-least-once connector allow: each partition in its order, any order between partitions, and a
stretch of a partition's latest records once more. What the silver asset promises: the catalogue is asked after bronze
was read, so its columns are those under which the newest record was written, or later ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets_tests.support.histories.play import kind_of
from cdc_assets_tests.support.histories.recording import Log, Recorded
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake
from spark.silver import schema_evolution, spark_merge
from spark.specs import SilverSpec, TopicRange

KILLED = ((spark_merge, "execute"), (schema_evolution, "_alter"), (schema_evolution, "_fill"))
"""The steps of a silver job that change its table; each takes a session and a spec first."""


@dataclass
class Kill(BaseException):
    """The job's process is gone."""

    at: str


@dataclass
class Replay:
    """One table on its way into silver."""

    recorded: Recorded
    choice: random.Random
    log: Log = field(init=False)
    at: dict[int, int] = field(init=False)
    definitions: dict[int, list[int]] = field(init=False)
    columns: int = 0
    """Which of the recorded definitions the catalogue shows."""

    def __post_init__(self) -> None:
        self.log = repeated(self.recorded.log, self.choice)
        self.at = dict.fromkeys(self.log, 0)
        self.definitions = {p: [self.recorded.definition_of(r) for r in records] for p, records in self.log.items()}

    def advance(self, lake: Lake, *, last: bool) -> TopicRange:
        """Some more of each partition, or all that is left."""
        newest = len(self.recorded.definitions) - 1
        # Any partition's newest record decides what the catalogue must show: up to some definition they go together.
        upto = newest if last else self.choice.randint(self.columns, newest)
        ends = {p: records[-1].offset + 1 for p, records in self.log.items()}
        some = {p: end if last else min(end, self.at[p] + self._some(end)) for p, end in ends.items()}
        self.at = {p: max(self.at[p], min([end, *self._later(p, upto)])) for p, end in some.items()}
        written = [
            self.definitions[p][i] for p, records in self.log.items() for i, r in enumerate(records) if r.offset < self.at[p]
        ]
        needed = max([self.columns, *written])
        self.columns = newest if last else self.choice.choice([needed, needed, self.choice.randint(needed, newest)])
        return lake.ranges(self.recorded.table, self.at)

    def spec(self, lake: Lake) -> SilverSpec:
        """Silver as the catalogue shows it by now."""
        kind = kind_of(self.recorded.table)
        return lake.spec(self.recorded.table, self.recorded.definitions[self.columns], kind.keys)

    def fold(self, lake: Lake, doomed: dict[str, Kill], *, last: bool) -> None:
        """What bronze has, or some of it, by a job that may be killed; or nothing."""
        spec = self.spec(lake)
        if self.choice.random() < 0.3:
            doomed[spec.path] = Kill(
                self.choice.choice([f"{when} {name}" for when in ("before", "behind") for _, name in KILLED])
            )
            try:
                # By Spark: what is killed here are its steps.
                replace(lake, by_task=False).fold(spec)
            except Kill:
                pass
            finally:
                doomed.pop(spec.path, None)
        if last or self.choice.random() < 0.8:
            lake.fold(spec)

    def _later(self, partition: int, upto: int) -> list[int]:
        """Where the partition begins to hold records of later definitions."""
        known = zip(self.log[partition], self.definitions[partition], strict=True)
        return [record.offset for record, definition in known if definition > upto][:1]

    def _some(self, end: int) -> int:
        return self.choice.choice([0, end // 3, end // 2, end])


def repeated(log: Log, choice: random.Random) -> Log:
    """The log with some stretches delivered twice, and gaps in the offsets as transaction markers leave them."""
    answer: Log = {}
    for partition, records in log.items():
        sent: list[Record] = []
        for number, record in enumerate(records, 1):
            sent.append(record)
            if choice.random() < 2 / max(20, len(records)):
                sent += records[max(0, number - choice.randrange(1, 40)) : number]
        offset, placed = 0, []
        for record in sent:
            offset += 1 + (choice.random() < 0.1)
            placed.append(replace(record, offset=offset))
        answer[partition] = placed
    return answer


def fold(
    lake: Lake, recorded: Sequence[Recorded], seed: str, *, remote: str, batches: int, workers: int = 2
) -> dict[str, SilverSpec]:
    """Everything into silver, in about so many batches, as a source does it: bronze is one slice of all tables, and some
    tables are folded at the same time, each in a session of its own."""
    choice, sessions = random.Random(seed), SparkSessions(remote)
    replays = [Replay(table, random.Random(f"{seed}/{table.table}")) for table in recorded]
    for replay in replays:
        for partition, records in replay.log.items():
            lake.put(replay.recorded.table, *records, partition=partition)

    def each(work: Callable[[Lake, Replay], None]) -> None:
        def one(replay: Replay) -> None:
            with sessions.session() as session:
                work(replace(lake, session=session), replay)

        list(pool.map(one, replays))

    with _dying() as doomed, ThreadPoolExecutor(workers) as pool:
        for batch in range(batches):
            last = batch == batches - 1
            asked = [replay.advance(lake, last=last) for replay in replays]
            lake.append(*asked)
            if choice.random() < 0.2:
                assert lake.append(*asked).version is None
            each(partial(_fold, doomed=doomed, last=last))
        each(_nothing_left)
    return {replay.recorded.table: replay.spec(lake) for replay in replays}


def _fold(lake: Lake, replay: Replay, *, doomed: dict[str, Kill], last: bool) -> None:
    replay.fold(lake, doomed, last=last)


def _nothing_left(lake: Lake, replay: Replay) -> None:
    assert lake.fold(replay.spec(lake)).version is None


@contextmanager
def _dying() -> Iterator[dict[str, Kill]]:
    """Jobs on the paths that are in the answer die before or behind the step that it names."""
    doomed: dict[str, Kill] = {}

    def dying(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(session: Any, spec: SilverSpec, *args: Any, **options: Any) -> Any:
            kill = doomed.get(spec.path)
            if kill is not None and kill.at == f"before {name}":
                raise kill
            answer = step(session, spec, *args, **options)
            if kill is not None and kill.at == f"behind {name}":
                raise kill
            return answer

        return run

    with ExitStack() as stack:
        for module, name in KILLED:
            stack.enter_context(patch.object(module, name, dying(name, getattr(module, name))))
        yield doomed
