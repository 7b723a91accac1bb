"""The ledger's counts of small tables, taken together by Arrow: the same rows as Spark's, of the same histories."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.lake import ID_V, rows
from cdc_assets_tests.support.lake.ledger_records import Made, sent
from cdc_assets_tests.support.lake.topics import Broker
from spark.bronze import append_job as bronze
from spark.proof import ledger_job, ledger_small_slices
from spark.proof.ledger_contract import LedgerSpec, LedgerTable
from spark.proof.ledger_job import count_slice
from spark.silver import fold_job as silver
from spark.silver import small_tables
from spark.specs import BronzeSpec, SilverSpec, TopicRange
from spark.table.delta_table import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.all) for seed in range(1, 6))]
TABLES = ("first", "second", "third")


class Chain:
    """Three tables with their topics on a real broker, one bronze, and two ledgers of them."""

    def __init__(self, session: SparkSession, kafka: str, root: Path) -> None:
        self.session, self.root, self.kafka, self.broker = session, root, kafka, Broker(kafka)
        self.core = {name: self.broker.topic(partitions=2) for name in TABLES}
        self.mirror = {name: self.broker.topic(partitions=2) for name in TABLES}
        self.made: dict[str, list[Made]] = {name: [] for name in TABLES}
        self.epoch, self.end = 0, 1 << 62

    def silver(self, name: str) -> SilverSpec:
        return SilverSpec("source", name, str(self.root / "bronze"), str(self.root / name), ID_V, ("id",))

    def arrive(self, name: str, made: list[Made], chance: random.Random) -> None:
        """In both topics; the core one also has records that were aborted. A key keeps its partition."""
        for partition in (0, 1):
            own = [sent(m) for m in made if m.key % 2 == partition]
            if own and chance.random() < 0.5:
                self.broker.send(self.core[name], own, partition=partition, end="abort")
            for topic in (self.core, self.mirror):
                if own:
                    self.broker.send(topic[name], own, partition=partition)
        self.made[name] += made

    def range_of(self, name: str, topic: str) -> TopicRange:
        ranges = {p: (0, min(self.end, self.broker.last_stable(topic, p))) for p in (0, 1)}
        return TopicRange(name, topic, f"id-{topic}-{self.epoch}", self.epoch, ranges, "debezium-json", "postgresql")

    def fold(self, *names: str) -> None:
        topics = tuple(self.range_of(name, self.mirror[name]) for name in names)
        bronze.run(self.session, BronzeSpec(str(self.root / "bronze"), self.kafka, topics, uuid.uuid4().hex))
        for outcome in small_tables.run(self.session, small_tables.SmallTablesSpec(tuple(self.silver(name) for name in names))):
            if outcome.result is None:
                silver.run(self.session, outcome.spec)

    def ledger(self, path: str) -> LedgerSpec:
        tables = [
            LedgerTable(self.silver(n), self.range_of(n, self.core[n]), self.range_of(n, self.mirror[n]))
            for n in TABLES
            if self.made[n]
        ]
        return LedgerSpec("source", str(self.root / path), str(self.root / "bronze"), tuple(tables), self.kafka, self.kafka)


def booked(root: Path, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Panes summed by delta-rs's rows: what was booked of each table, window, op and pane."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows(str(root / name)):
        key = (row.pop("table"), row.pop("window_start"), row.pop("op"), row.pop("pane"), row["bronze"], row["topic"])
        row.pop("counted_at")
        assert key not in found
        found[key] = row
    return found


@pytest.fixture
def by_arrow_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a small table was counted by Spark")

    monkeypatch.setattr(ledger_job, "count_slice", refuse)


@pytest.mark.usefixtures("by_arrow_only")
@pytest.mark.parametrize("seed", SEEDS)
def test_they_are_counted_as_spark_counts_them(session: SparkSession, kafka: str, tmp_path: Path, seed: int) -> None:
    """Some tables have nothing new in a run, some several folds; every record has one fate, told from the list as well."""
    chance, chain, place = random.Random(seed), Chain(session, kafka, tmp_path), 100
    fates: dict[str, Counter[str]] = {name: Counter() for name in TABLES}
    for _ in range(3 if seed else 2):
        for name in chance.sample(TABLES, 2):
            for _ in range(chance.randint(1, 2)):
                made: list[Made] = []
                for _ in range(chance.randint(1, 25)):
                    place += 1
                    made.append(Made(chance.choice("crud"), chance.randint(1, 6), place, place // 9))
                    if made[-1].op == "d":
                        made.append(replace(made[-1], op="tombstone"))
                chain.arrive(name, made, chance)
                chain.fold(name)
                told = [m for m in made if m.op != "tombstone"]
                applied = len({m.key for m in told})
                fates[name] += Counter(applied=applied, superseded=len(told) - applied, ignored=len(made) - len(told))
        ledger_job.run(session, chain.ledger("arrow"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ledger_job, "count_small", lambda *_: {})
            patch.setattr(ledger_job, "count_slice", count_slice)
            ledger_job.run(session, chain.ledger("spark"))
    assert booked(tmp_path, "arrow") == booked(tmp_path, "spark")
    for name in TABLES:
        own = [row for row in rows(str(tmp_path / "arrow")) if row["table"] == name]
        for link in ("topic", "mirror", "bronze"):
            by_op = Counter({op: sum(r[link] for r in own if r["op"] == op) for op in {r["op"] for r in own}})
            assert by_op == Counter(m.op for m in chain.made[name])
        assert {fate: sum(r[fate] for r in own) for fate in fates[name]} == dict(fates[name])
    state, other = (table_of(str(tmp_path / n)).fold(ledger_job.fold_ledger) for n in ("arrow", "spark"))
    assert state.tables == other.tables


def test_tombstones_of_an_epoch_before_are_not_counted_again(session: SparkSession, kafka: str, tmp_path: Path) -> None:
    """As behind a restore into a new Kafka: its topics have the old ones' names, and their offsets begin again."""
    chain = Chain(session, kafka, tmp_path)
    for step in range(3):
        made = [Made("c", 2, 100 + step, 0), Made("d", 2, 110 + step, 0), Made("tombstone", 2, 110 + step, 0)]
        for topic in (chain.core, chain.mirror):
            chain.broker.send(topic["first"], [sent(each) for each in made])
        chain.made["first"] += made
    # The second time one transaction, and its marker, by each fold.
    for chain.epoch, ends in enumerate(([12], [4, 8, 12])):
        for chain.end in ends:
            chain.fold("first")
            ledger_job.run(session, chain.ledger("ledger"))
    found = rows(str(tmp_path / "ledger"))
    by_op = Counter({op: sum(row["bronze"] or 0 for row in found if row["op"] == op) for op in ("c", "d", "tombstone")})
    assert by_op == Counter(c=6, d=6, tombstone=6)


def test_what_is_not_plain_is_left_to_spark(session: SparkSession, kafka: str, tmp_path: Path) -> None:
    """A TRUNCATE in one table, a record that comes late in another: the third is counted here, and all are in one commit."""
    chance, chain = random.Random(1), Chain(session, kafka, tmp_path)
    for name in TABLES:
        chain.arrive(name, [Made("c", 2, 110, 0), Made("c", 4, 120, 0)], chance)
        chain.fold(name)
    chain.arrive("first", [Made("u", 2, 105, 0)], chance)
    chain.fold("first")
    taken = ledger_small_slices.count_small
    seen: list[set[str]] = []

    def watched(*given: Any) -> Any:
        found = taken(*given)
        seen.append(set(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_job, "count_small", watched)
        result = ledger_job.run(session, chain.ledger("ledger"))
    assert seen[0] == {"second", "third"}
    assert result.version == 0
    assert sum(row["older"] for row in rows(str(tmp_path / "ledger"))) == 1
