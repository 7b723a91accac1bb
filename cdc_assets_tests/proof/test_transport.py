"""Topic = mirror = bronze: equal streams are equal at any cut; every planted damage is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.proof.volumetry import BronzeCut, TopicAtCluster, TopicTally, TransportCount, count_transport
from cdc_assets.registry.errors import ServiceError
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic
from spark.errors import quantity

Entry = tuple[bytes | None, bytes | None]
records = st.lists(
    st.tuples(st.one_of(st.none(), st.binary(max_size=3)), st.one_of(st.none(), st.binary(max_size=5))), max_size=30
)


def with_control_records(entries: list[Entry], every: int) -> list[Entry | None]:
    log: list[Entry | None] = []
    for number, entry in enumerate(entries, 1):
        log.append(entry)
        if number % every == 0:
            log.append(None)
    return log


def compare(
    topic: list[Entry | None],
    mirror: list[Entry | None],
    *,
    cut: int | None = None,
    rows: int | None = None,
    previous: tuple[TopicTally, TopicTally] | None = None,
) -> TransportCount:
    core, lake = FakeKafka({"t": FakeTopic("T", {0: topic})}), FakeKafka({"core.t": FakeTopic("M", {0: mirror})})
    cut = len(mirror) if cut is None else cut
    rows = sum(1 for entry in mirror[:cut] if entry is not None) if rows is None else rows
    return count_transport(
        core=TopicAtCluster(core, core.states(["t"])["t"]),  # type: ignore[arg-type]
        lake=TopicAtCluster(lake, lake.states(["core.t"])["core.t"]),  # type: ignore[arg-type]
        bronze=BronzeCut({0: cut}, {0: rows}),
        previous=previous,
    )


@given(records, st.integers(1, 5), st.integers(1, 5), st.data())
def test_a_true_mirror_is_equal_at_every_cut_whatever_the_control_records(
    entries: list[Entry], core_every: int, lake_every: int, data: st.DataObject
) -> None:
    topic, mirror = with_control_records(entries, core_every), with_control_records(entries, lake_every)
    cut = data.draw(st.integers(0, len(mirror)))
    first = compare(topic, mirror, cut=cut)
    assert first.equal, first.differences
    again = compare(topic, mirror, previous=(first.topic, first.mirror))
    assert again.equal, again.differences
    assert again.topic_records == again.mirror_records == again.bronze_rows == len(entries)


@given(records.filter(lambda r: len(r) >= 2), st.data())
def test_a_record_lost_on_the_way_is_found_even_when_others_came_since(entries: list[Entry], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(entries) - 2))
    mirror = [*entries[:lost], *entries[lost + 1 :]]
    if mirror == entries[: len(mirror)]:
        return  # the neighbours are equal: nothing tells which one was lost, and nothing differs
    assert not compare(list(entries), list(mirror)).equal


@given(records.filter(lambda r: len(r) >= 1), st.data())
def test_a_doubled_record_is_found(entries: list[Entry], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(entries) - 1))
    assert not compare(list(entries), [*entries[: at + 1], *entries[at:]]).equal


def test_a_changed_value_is_found() -> None:
    measured = compare([(b"k", b"1"), (b"k", b"2")], [(b"k", b"1"), (b"k", b"3")])
    assert "lost, doubled or changed" in measured.differences[0]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_bronze_with_too_few_or_too_many_rows_is_found(rows: int) -> None:
    measured = compare([(b"k", b"1"), None, (b"k", b"2")], [(b"k", b"1"), (b"k", b"2"), None], rows=rows)
    assert measured.differences == (
        f"partition 0: 2 committed records in core.t below offset 3, {quantity(rows, 'row')} in bronze",
    )


def test_records_are_read_once_when_the_last_tally_is_known() -> None:
    entries: list[Entry | None] = [(b"k", b"%d" % n) for n in range(10)]
    first = compare(entries[:6], entries[:6])
    core, lake = FakeKafka({"t": FakeTopic("T", {0: entries})}), FakeKafka({"core.t": FakeTopic("M", {0: entries})})
    count_transport(
        core=TopicAtCluster(core, core.states(["t"])["t"]),  # type: ignore[arg-type]
        lake=TopicAtCluster(lake, lake.states(["core.t"])["core.t"]),  # type: ignore[arg-type]
        bronze=BronzeCut({0: 10}, {0: 10}),
        previous=(first.topic, first.mirror),
    )
    assert [offset for _, _, offset in core.read] == [6, 7, 8, 9]
    assert [offset for _, _, offset in lake.read] == [6, 7, 8, 9]


def test_a_recreated_topic_is_counted_anew() -> None:
    first = compare([(b"k", b"1")], [(b"k", b"1")])
    renamed = (TopicTally("t", "OTHER", first.topic.partitions), first.mirror)
    assert compare([(b"k", b"2")], [(b"k", b"2")], previous=renamed).equal


def test_retention_before_the_first_count_says_so() -> None:
    lake = FakeKafka({"core.t": FakeTopic("M", {0: [(b"k", b"1")] * 5}, begins={0: 3})})
    core = FakeKafka({"t": FakeTopic("T", {0: [(b"k", b"1")] * 5})})
    with pytest.raises(ServiceError, match=r"core\.t partition 0 begins at offset 3: retention has removed records"):
        count_transport(
            core=TopicAtCluster(core, core.states(["t"])["t"]),  # type: ignore[arg-type]
            lake=TopicAtCluster(lake, lake.states(["core.t"])["core.t"]),  # type: ignore[arg-type]
            bronze=BronzeCut({0: 5}, {0: 2}),
            previous=None,
        )


def test_tallies_survive_their_json() -> None:
    measured = compare([(b"k", b"1")], [(b"k", b"1"), None])
    assert TopicTally.from_json(measured.mirror.to_json()) == measured.mirror
