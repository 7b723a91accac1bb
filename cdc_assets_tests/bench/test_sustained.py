"""What a steady load holds, and when a rate counts as one that holds."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from typing_extensions import override

from benchmarks.bench.carry import Took
from benchmarks.bench.feed import Sender
from benchmarks.bench.mixed_feed import MixedFeed, send_steadily
from benchmarks.bench.steady_sender import Sent
from benchmarks.bench.sustained import SteadyLoad


class KeptRecords(Sender):
    """A sender that keeps what it is given, by topic."""

    def __init__(self) -> None:
        self.kept: dict[str, list[tuple[str, str]]] = {}

    @override
    def send(self, topic: str, records: Iterable[tuple[str, str]], *, flush: bool = True) -> None:
        self.kept.setdefault(topic, []).extend(records)

    @override
    def poll(self) -> None:
        return

    @override
    def flush(self) -> None:
        return


def table_of(records: Iterable[tuple[str, str]]) -> dict[int, int]:
    """The rows that events leave, one after the other."""
    rows: dict[int, int] = {}
    for key, value in records:
        event, aid = json.loads(value), json.loads(key)["aid"]
        if event["op"] == "d":
            del rows[aid]
        elif event["op"] == "c":
            assert aid not in rows
            rows[aid] = event["after"]["abalance"]
        else:
            assert aid in rows
            rows[aid] = event["after"]["abalance"]
    return rows


def test_a_mixed_feed_tells_what_a_table_of_it_holds() -> None:
    sender = KeptRecords()
    feed = MixedFeed(sender, "t-0", 50)
    sender.kept["t-0"] = [(f'{{"aid":{n}}}', json.dumps({"op": "c", "after": {"abalance": 0}})) for n in range(50)]
    for number in (1, 7, 93, 400):
        feed.mix(number)
        rows = table_of(sender.kept["t-0"])
        assert feed.expected == (len(rows), sum(rows.values()))
    ops = [json.loads(value)["op"] for _, value in sender.kept["t-0"][50:550]]
    assert {op: ops.count(op) for op in "cud"} == {"c": 100, "u": 300, "d": 100}


def test_a_steady_load_is_shared_by_all_topics() -> None:
    sender = KeptRecords()
    feeds = [MixedFeed(sender, f"t-{number}", 20) for number in range(3)]
    late = send_steadily(feeds, sender, rate=2_000, seconds=0.5)
    sent = [len(sender.kept[feed.topic]) for feed in feeds]
    assert sum(sent) == 1_000
    assert max(sent) - min(sent) <= 1
    assert late >= 0


@pytest.mark.parametrize(
    ("cycles", "late", "holds"),
    [
        ([(at, 2.0) for at in range(0, 60, 2)], 0.1, True),
        ([(at, 1.0 + at / 10) for at in range(0, 60, 2)], 0.1, False),
        ([(0.0, 10.0), (10.0, 49.0)], 0.1, False),
        ([(at, 2.0) for at in range(0, 60, 2)], 9.0, False),
    ],
    ids=["as long as before", "longer and longer", "none began in the last third", "the sender was late"],
)
def test_a_rate_holds_where_cycles_do_not_grow(cycles: list[tuple[float, float]], late: float, holds: bool) -> None:
    window = SteadyLoad(5_000, 60, [(at, Took(wall, 0.0)) for at, wall in cycles], Sent(late, []))
    assert window.holds is holds
