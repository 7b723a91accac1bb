"""What stands beside this product's figures, and that peers read exactly what they have not read yet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.events import event_text
from benchmarks.bench.figures import OURS
from benchmarks.bench.matched_runs import RATIO, Contest
from benchmarks.bench.peers.delta_rs import DeltaRs, newest
from benchmarks.bench.peers.peer import NewRecords, Peer, PeerTable
from benchmarks.bench.peers.spark_peers import ForeachBatch, IcebergMerge
from benchmarks.bench.scenarios import SCENARIOS, choose_scenarios
from cdc_assets.clients.kafka import KafkaCluster, TopicState

TABLE = PeerTable("accounts", "topic-a")


class OneTopic(KafkaCluster):
    """A cluster whose one topic ends where `ends` says; without a number it is gone."""

    def __init__(self, *ends: int | None) -> None:
        super().__init__("nowhere:1")
        self.left = list(ends)

    @override
    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        end = self.left.pop(0)
        return {} if end is None else {topic: TopicState(topic, "id", {0: (0, end)}) for topic in topics}


class Remembers(Peer):
    """Merges nothing, and fails where it is told to."""

    name = "remembers"

    def __init__(self, kafka: KafkaCluster) -> None:
        super().__init__(kafka)
        self.merged: list[dict[int, tuple[int, int]]] = []
        self.fails = False

    @override
    def merge(self, wanted: Sequence[NewRecords]) -> None:
        if self.fails:
            raise BenchError("no")
        self.merged += [dict(each.ranges) for each in wanted]

    @override
    def totals(self, table: PeerTable) -> tuple[int, int]:
        return 0, 0


def test_a_peer_reads_on_from_where_it_was_and_again_what_failed() -> None:
    peer = Remembers(OneTopic(5, 8, 9))
    peer.carry([TABLE])
    peer.fails = True
    with pytest.raises(BenchError):
        peer.carry([TABLE])
    peer.fails = False
    peer.carry([TABLE])
    assert peer.merged == [{0: (0, 5)}, {0: (5, 9)}]


def test_a_topic_that_is_gone_is_named() -> None:
    with pytest.raises(BenchError, match=r"remembers: topic topic-a is not there any more at nowhere:1"):
        Remembers(OneTopic(None)).carry([TABLE])


def test_beside_iceberg_each_run_is_compared_with_its_neighbour() -> None:
    kafka = OneTopic()
    peers = (IcebergMerge.__new__(IcebergMerge), Remembers(kafka))
    contest = Contest("any", 1, peers)
    for ours, theirs in ((9.0, 1.0), (1.0, 2.0), (8.0, 10.0), (3.0, 2.0)):
        contest.add(OURS, Took(ours, 0.5))
        contest.add(IcebergMerge.name, Took(theirs, 0.1))
        contest.add("remembers", Took(7.0, 0.1))
    ours = contest.ours(2.0)
    assert (ours.median, ours.target, ours.is_missed) == (3.0, 2.0, True)
    iceberg, other, ratio = contest.beside(is_trial=False)
    assert (iceberg.system, iceberg.scenario, iceberg.median, iceberg.target) == (IcebergMerge.name, "any", 2.0, None)
    assert (other.system, other.median) == ("remembers", 7.0)
    assert (ratio.system, ratio.median, ratio.unit, ratio.target, ratio.met) == (OURS, 0.8, RATIO, 1.0, True)
    assert [took.wall for took in ratio.warm_up] == [9.0]
    assert [figure.target for figure in contest.beside(is_trial=True)] == [None, None, None]


def test_without_peers_nothing_stands_beside() -> None:
    contest = Contest("any", 0)
    contest.add(OURS, Took(1.0, 1.0))
    assert list(contest.beside(is_trial=False)) == []


def test_what_would_take_a_peer_too_long_is_not_asked_of_it() -> None:
    stream, iceberg = ForeachBatch.__new__(ForeachBatch), IcebergMerge.__new__(IcebergMerge)
    assert stream.takes(1, 500_000)
    assert not stream.takes(20, 1_000)
    assert not stream.takes(1, 5_000_000)
    assert iceberg.takes(100, 1_000)
    assert not iceberg.takes(500, 1_000)


def test_without_long_peers_do_what_they_have_a_part_in() -> None:
    assert choose_scenarios((), long=False, peers=True) == ["first-load", "cycle-1k", "tables-20"]
    assert {"rest", "cli", "latency", "cycle-1k"} < set(choose_scenarios((), long=False))
    assert choose_scenarios((), long=True, peers=True) == list(SCENARIOS)
    assert choose_scenarios(["tick", "rest"], long=False, peers=True) == ["rest", "tick"]


def test_delta_rs_takes_the_last_event_of_each_key_of_all_batches() -> None:
    first = [event_text("r", aid, 10 + aid, 0).encode() for aid in range(4)]
    second = [event_text(op, aid, balance, 9).encode() for op, aid, balance in (("u", 1, 70), ("d", 2, 0), ("u", 1, 71))]
    rows = {row["aid"]: (row["op"], row["abalance"]) for row in newest(iter([first, [], second])).to_pylist()}
    assert rows == {0: ("r", 10), 1: ("u", 71), 2: ("d", None), 3: ("r", 13)}


def test_delta_rs_merges_what_it_reads(tmp_path: Path) -> None:
    class Given(DeltaRs):
        values: list[bytes]

        @override
        def _read_values(self, records: NewRecords):  # type: ignore[no-untyped-def]
            yield self.values

    peer = Given(OneTopic(3, 6), tmp_path)
    peer.values = [event_text("r", aid, 10, 0).encode() for aid in range(3)]
    peer.carry([TABLE])
    peer.values = [event_text(op, aid, b, 1).encode() for op, aid, b in (("u", 0, 5), ("d", 1, 0), ("c", 7, 100))]
    peer.carry([TABLE])
    assert peer.totals(TABLE) == (3, 115)


def test_the_peers_read_the_fields_that_an_event_has() -> None:
    from benchmarks.bench.peers.spark_driver import EVENT

    event = json.loads(event_text("u", 1, 2, 3))
    for name in ("op", "before", "after"):
        assert name in event
        assert f"{name} " in EVENT
    assert all(f"{column}: " in EVENT for column in event["after"])
