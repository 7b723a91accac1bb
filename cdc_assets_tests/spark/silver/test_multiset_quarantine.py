"""A multiset with records that cannot be read, or were given up, when a TRUNCATE of another partition comes behind later events.

What each history must leave is counted by hand, not folded: per row that is equal, the inserts less the deletes that stand
above the newest TRUNCATE, without what is in quarantine or was given up. They take minutes, and are among
`--all`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import Row, change
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.lake.multisets import Source, decode_mended, held, multiset
from spark.silver import quarantine_table
from spark.silver.quarantine_redrive import Choice, drop, redrive
from spark.specs import SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

EVENTS, PARTITIONS = 60, 3
SEEDS = [pytest.param(seed, marks=pytest.mark.all) for seed in range(3, 10)]
Place = tuple[int, int]
"""A partition and an offset."""


@dataclass
class Sent:
    """An event as it went out: what it says, what is wrong with its record, and what became of it.

    `given_up` is only its delete, which waited for a row; `in_time`: when it came first, such values could be read.
    """

    op: str
    before: Row | None
    after: Row | None
    fault: str | None = None
    given_up: bool = False
    redriven: bool = False
    came: bool = False
    in_time: bool = False

    @property
    def is_read(self) -> bool:
        """Whether silver must count it."""
        return self.fault is None or (self.fault == "value" and (self.in_time or self.redriven))

    def halves(self) -> Iterator[tuple[int, str]]:
        """What it adds to the count of which rows; a value that the mended release reads is NULL."""
        if not (self.came and self.is_read):
            return
        if self.op in "ud" and not self.given_up:
            yield -1, json.dumps(self.before)
        if self.op in "cu":
            yield 1, json.dumps(self.after if self.fault is None else {**(self.after or {}), "a": None})


@dataclass
class History:
    """Events by their place in the source's log, and the records that carry them, some of them twice."""

    seed: int
    lake: Lake
    sent: list[Sent] = field(default_factory=list)
    carried: dict[Place, int] = field(default_factory=dict)
    logs: dict[int, list[Record]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    mended: bool = False

    def __post_init__(self) -> None:
        self.source = Source(self.seed, truncates=0.4)
        self.choice = self.source.random
        for at in range(EVENTS):
            self._send(at)
        for partition, log in self.logs.items():
            self.lake.put("t", *log, partition=partition)

    def _send(self, at: int) -> None:
        self.source.act()
        told = json.loads(self.source.records[-1].value or "")
        event = Sent(told["op"], told["before"], told["after"])
        if event.op != "t" and self.choice.random() < 0.25:
            event.fault = self.choice.choice(["value", "garbage"] if event.op in "cu" else ["no image", "garbage"])
        self.sent.append(event)
        partition = self.choice.randrange(PARTITIONS)
        log = self.logs[partition]
        log.append(replace(_record(at, event), offset=len(log)))
        self.carried[partition, len(log) - 1] = at
        latest = [at for (p, _), at in self.carried.items() if p == partition]
        if self.choice.random() < 0.1:
            self._repeat(partition, sorted({*latest})[-self.choice.randint(2, 5) :])

    def _repeat(self, partition: int, latest: list[int]) -> None:
        """An at-least-once connector sends its latest records of a partition once more."""
        if sum(self.sent[at].fault != "garbage" for at in latest) < 2:
            return  # a replay that begins with the last place known is not told from new records (spark.silver.keyless_tables)
        log = self.logs[partition]
        for at in latest:
            self.carried[partition, len(log)] = at
            log.append(replace(_record(at, self.sent[at]), offset=len(log)))

    def floor(self) -> int:
        return max((at for at, event in enumerate(self.sent) if event.op == "t" and event.came), default=-1)

    def expected(self) -> Counter[str]:
        """The rows that what has come leaves, those that are owed below zero."""
        count: Counter[str] = Counter()
        for event in self.sent[self.floor() + 1 :]:
            for many, row in event.halves():
                count[row] += many
        return count

    def fold(self, spec: SilverSpec, ends: dict[int, int], came: set[Place]) -> None:
        """Everything that has come, by a job that is killed now and then."""
        for place in came:
            event = self.sent[self.carried[place]]
            event.came, event.in_time = True, event.in_time if event.came else self.mended
        self.lake.append(self.lake.ranges("t", ends))
        if self.choice.random() < 0.3:
            with pytest.MonkeyPatch.context() as patch:
                for step in ("spark.silver.keyless_tables.write_rows", "spark.silver.keyless_tables._replace"):
                    patch.setattr(step, _die)
                with pytest.raises(KeyboardInterrupt):
                    self.lake.fold(spec)
        self.lake.fold(spec)

    def open(self, spec: SilverSpec, choice: Choice | None = None) -> list[Any]:
        """The open records of the quarantine."""
        if not quarantine_table.exists(self.lake.session, spec):
            return []
        records = quarantine_table.table(self.lake.session, spec).where((choice or Choice()).condition())
        return sorted(records.collect(), key=lambda r: (r.partition, r.offset))

    def settle(self, spec: SilverSpec) -> None:
        """Give some records of the quarantine up, and re-drive some."""
        for record in self.open(spec):
            event, choice = self.sent[self.carried[record.partition, record.offset]], self.choice.random()
            one = Choice(partition=record.partition, offset=record.offset)
            if choice > 0.3 or not (now := self.open(spec, one)):
                continue  # re-driving another one may have found its row
            if self.mended and now[0].error_class == "value":
                event.redriven = True
                redrive(self.lake.session, spec, one)
            elif choice < 0.15:
                event.given_up = event.given_up or now[0].error_class == "no_row"
                assert drop(self.lake.session, spec, one) == 1


def _record(at: int, event: Sent) -> Record:
    if event.fault == "garbage":
        return Record(at, None, "{")
    before, after = event.before, event.after
    if event.fault == "value":
        after = {**(after or {}), "a": "one"}
    return change(at, event.op, None if event.fault == "no image" else before, after)


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_set_aside_stays_out_of_a_table_that_is_folded_again(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    lake = Lake(session, tmp_path, not_compared="records are given up and re-driven between the folds")
    history, spec, ends = History(seed, lake), multiset(lake), dict.fromkeys(range(PARTITIONS), 0)
    lengths = {p: len(log) for p, log in history.logs.items()}
    while ends != lengths:
        was, partition = dict(ends), history.choice.choice([p for p, end in ends.items() if end < lengths[p]])
        ends[partition] = min(lengths[partition], ends[partition] + history.choice.choice([8, 25]))
        history.fold(spec, ends, {(partition, offset) for offset in range(was[partition], ends[partition])})
        if not history.mended and history.choice.random() < 0.25:
            monkeypatch.setattr("spark.silver.keyed_batch.decode_changes", decode_mended)
            history.mended = True
        history.settle(spec)
    expected = history.expected()
    assert held(spec) == +expected
    open_ = [r for r in history.open(spec) if r.superseded_by is None]
    waiting = (history.sent[history.carried[r.partition, r.offset]] for r in open_ if r.error_class == "no_row")
    assert Counter(json.dumps(event.before) for event in waiting) == -expected


@pytest.mark.parametrize("without_key", [pytest.param("append", marks=pytest.mark.all), "multiset"])
def test_an_unreadable_record_that_comes_again_is_redriven_once(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_key: str
) -> None:
    """Its second delivery is one, whatever its bytes say: its place in the log has been passed."""
    row, lake = {"a": 1, "v": "x", "x": 0.5}, Lake(session, tmp_path)
    first = [change(0, "c", None, row), change(1, "c", None, {**row, "a": "one"}), change(2, "c", None, row)]
    spec = replace(multiset(lake), without_key=without_key)
    for come in (first, [replace(record, offset=record.offset + 3) for record in first]):
        lake.put("t", *come)
        lake.append(lake.all_of("t"))
        lake.fold(spec)
    assert [r.offset for r in quarantine_table.table(session, spec).collect()] == [1]
    for module in ("batch", "redrive"):
        monkeypatch.setattr(f"spark.silver.{module}.decode_changes", decode_mended)
    assert redrive(session, spec, Choice()).redriven == 1
    assert held(spec) == Counter({json.dumps(row): 2, json.dumps({**row, "a": None}): 1})


@pytest.mark.parametrize("without_key", [pytest.param("append", marks=pytest.mark.all), "multiset"])
def test_a_replay_ends_where_it_ends_though_a_record_in_it_is_none(
    session: SparkSession, tmp_path: Path, without_key: str
) -> None:
    """The record in front of the last one has no place: it does not say that the replay is over."""
    row, lake = {"a": 1, "v": "x", "x": 0.5}, Lake(session, tmp_path)
    first = [change(0, "c", None, row), Record(1, None, "{"), change(2, "c", None, row)]
    lake.put("t", *first, *(replace(record, offset=record.offset + 3) for record in first))
    lake.append(lake.all_of("t"))
    spec = replace(multiset(lake), without_key=without_key)
    lake.fold(spec)
    assert held(spec) == Counter({json.dumps(row): 2})
