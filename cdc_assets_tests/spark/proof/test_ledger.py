"""The ledger against a list: every record that the test made, its fate told by plain Python from the list alone."""

from __future__ import annotations

import random
import shutil
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.lake import ID_V, Lake, rows
from cdc_assets_tests.support.lake.ledger_records import BEGIN, Fates, Made, Window, ledger_spec, sent, told
from cdc_assets_tests.support.lake.topics import Broker
from spark.bronze import append_job as bronze
from spark.proof import ledger_job
from spark.proof.ledger_contract import LedgerSpec, LedgerTable
from spark.silver import fold_job as silver
from spark.specs import BronzeSpec, RowCondition, SilverSpec, TopicRange
from spark.table.delta_table import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By seed how many times the history is cut.
SEEDS = [(0, 1), *(pytest.param(seed, 2, marks=pytest.mark.all) for seed in range(6))]


def window_of(made: Made, offset: int) -> Window:
    # Without an event time, Kafka's counts: Lake gives one second per offset.
    minute = offset // 60 if made.op in ("tombstone", "poison") else made.minute
    return BEGIN // 1000 + minute * 60, "unknown" if made.op == "poison" else made.op


def expected(batches: Sequence[Sequence[Made]]) -> Fates:
    """The fates when silver folds these batches one after the other."""
    fates: Fates = defaultdict(Counter)
    decided: dict[int, tuple[int, int]] = {}
    offset = 0
    for batch in batches:
        placed = [(made, offset + i) for i, made in enumerate(batch)]
        offset += len(batch)
        newest: dict[int, tuple[int, int]] = {}
        for made, at in placed:
            if made.op not in ("tombstone", "poison"):
                newest[made.key] = max(newest.get(made.key, (-1, -1)), (made.place, at))
        for made, at in placed:
            if made.op in ("tombstone", "poison"):
                fate = "ignored" if made.op == "tombstone" else "quarantined"
            elif (made.place, at) <= decided.get(made.key, (-1, -1)):
                fate = "older"
            else:
                fate = "applied" if newest[made.key] == (made.place, at) else "superseded"
            fates[window_of(made, at)][fate] += 1
        for key, place in newest.items():
            decided[key] = max(decided.get(key, (-1, -1)), place)
    return fates


def history(seed: int, size: int) -> list[Made]:
    """Events of a few keys; some are delivered again later, some deletes have their tombstone, some records are no events."""
    chance = random.Random(seed)
    made: list[Made] = []
    for number in range(size):
        roll = chance.random()
        if made and roll < 0.2:
            made += made[-chance.randint(1, min(6, len(made))) :]
        elif roll < 0.25:
            made.append(Made("poison", 0, 0, 0))
        else:
            op = chance.choice("cuud")
            made.append(Made(op, chance.randint(1, 5), 100 + number, number // 7))
            if op == "d":
                made.append(replace(made[-1], op="tombstone"))
    return made


@pytest.mark.parametrize(("seed", "times"), SEEDS)
def test_every_record_has_the_fate_that_the_list_says(session: SparkSession, tmp_path: Path, seed: int, times: int) -> None:
    """Counted after every fold or at once at the end: the same, whatever the batches, replays and poison."""
    chance = random.Random(seed)
    made = history(seed, 60)
    cuts = [*sorted(chance.sample(range(1, len(made)), times)), len(made)]
    batches = [made[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    lake = Lake(session, tmp_path)
    # A row that `where` leaves out is gone, and its events decide that as a delete does.
    spec = replace(lake.spec("t"), where=(RowCondition("v", tuple(f"v{n}" for n in range(100, 160, 3)), excluded=True),))
    lake.put("t", *[m.record(i) for i, m in enumerate(made)])
    often = ledger_spec(lake, spec)
    for cut in cuts:
        lake.append(lake.ranges("t", {0: cut}))
        lake.fold(spec)
        ledger_job.run(session, often)
    once = replace(often, path=str(tmp_path / "once"))
    ledger_job.run(session, once)
    truth = expected(batches)
    for path in (often.path, once.path):
        fates, bronze = told(path)
        assert fates == truth
        assert bronze == Counter({w: c.total() for w, c in truth.items()})
    assert ledger_job.run(session, often).version is None


@pytest.mark.all
def test_both_topics_are_counted_at_the_same_cut(session: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Two partitions, aborted transactions, markers and tombstones on one side, other markers on the other, a topic ahead.

    At the end retention, or another topic of the same name: said, and bronze and the fates go on.
    """
    broker = Broker(kafka)
    core, mirror = (broker.topic(partitions=2) for _ in range(2))
    first = [Made("c", k, 10 + k, k // 2) for k in range(3)]
    gone = [Made("c", 7, 19, 0), Made("d", 7, 20, 0), Made("tombstone", 7, 0, 0)]
    second, third = [Made("u", 0, 30, 2), Made("c", 5, 31, 0)], [Made("u", 2, 40, 3)]
    broker.send(core, [sent(Made("c", 9, 9, 0))] * 4, end="abort")
    broker.send(core, [sent(m) for m in first[:2]])
    broker.send(core, [sent(m) for m in first[2:]])
    broker.send(core, [sent(m) for m in gone], partition=1)
    broker.send(mirror, [sent(m) for m in first])
    broker.send(mirror, [sent(m) for m in gone], partition=1)
    form = ("debezium-json", "postgresql")
    bronze_path, silver_path = str(tmp_path / "bronze"), str(tmp_path / "silver")
    spec = SilverSpec("source", "t", bronze_path, silver_path, ID_V, ("id",))

    def whole(topic: str, begin: int = 0) -> TopicRange:
        ranges = {0: (begin, broker.last_stable(topic)), 1: (0, broker.last_stable(topic, 1))}
        return TopicRange("t", topic, f"id-{topic}", 0, ranges, *form)

    def fold() -> None:
        bronze.run(session, BronzeSpec(bronze_path, kafka, (whole(mirror),), uuid.uuid4().hex))
        silver.run(session, spec)

    def count(of_core: TopicRange, of_mirror: TopicRange, name: str = "ledger") -> None:
        table = LedgerTable(spec, of_core, of_mirror)
        ledger_job.run(session, LedgerSpec("source", str(tmp_path / name), bronze_path, (table,), kafka, kafka))

    broker.send(core, [sent(m) for m in second])  # The mirror is behind.
    fold()
    count(whole(core), whole(mirror))
    expect = Counter(m.op for m in [*first, *gone])
    for link in ("topic", "mirror", "bronze"):
        assert by_op(tmp_path, link) == expect
    broker.send(mirror, [sent(Made("u", 0, 99, 0))], end="abort")
    broker.send(mirror, [sent(m) for m in second])
    fold()
    count(whole(core), whole(mirror))
    for link in ("topic", "mirror", "bronze"):
        assert by_op(tmp_path, link) == Counter(m.op for m in [*first, *gone, *second])
    seen = {(row["op"], row["window_start"].minute, row["pane"]): row["bronze"] for row in rows(str(tmp_path / "ledger"))}
    # The first run closed minute 0, so that the second one's insert came late; nothing is newer than its update.
    assert seen["c", 0, "late"] == 1
    assert seen["u", 2, "early"] == 1

    shutil.copytree(tmp_path / "ledger", tmp_path / "recreated")
    broker.send(core, [sent(m) for m in third * 2])
    broker.send(mirror, [sent(m) for m in third])
    removed = broker.last_stable(core)
    broker.delete_before(core, removed)
    fold()
    count(whole(core, removed), whole(mirror))
    count(whole(core), replace(whole(mirror), topic_id="another"), "recreated")
    squeezed = LedgerTable(spec, whole(core, removed), whole(mirror), core)
    ledger_job.run(session, LedgerSpec("source", str(tmp_path / "compacted"), bronze_path, (squeezed,), kafka, kafka))
    reasons = {
        "ledger": "retention removed offsets",
        "recreated": "the mirrored topic was recreated",
        "compacted": "is compacted",
    }
    for name, why in reasons.items():
        told = table_of(str(tmp_path / name)).fold(ledger_job.fold_ledger).tables["t"]
        assert why in told.uncounted
        assert by_op(tmp_path, "bronze", name)["u"] == 2
    assert by_op(tmp_path, "topic")["u"] == 1


def by_op(root: Path, link: str, name: str = "ledger") -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows(str(root / name)):
        found[row["op"]] += row[link] or 0
    return +found
