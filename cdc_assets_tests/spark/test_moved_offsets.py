"""Offsets of a topic that was made again: each record keeps its own, and nothing behind them is read twice or left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark.events.moved_offsets import Moves, kafka_offset, kafka_ranges, most_at_once, moves_within, our_offset
from spark.specs import BronzeSpec, TopicRange


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[int], int]:
    """Offsets of the records that a backup has of a partition, with holes, and where it ended."""
    offsets = sorted(draw(st.sets(st.integers(0, 60), max_size=40)))
    return offsets, draw(st.integers((offsets[-1] + 1) if offsets else 0, 80))


def moves_of(offsets: list[int], end: int) -> Moves:
    """By their definition: Kafka numbers the records from 0, and behind the last one goes on where the backup ended."""
    pairs = [*enumerate(offsets), (len(offsets), end)]
    kept = [pair for at, pair in enumerate(pairs) if at == 0 or pair[1] != pairs[at - 1][1] + 1]
    return tuple(kept)


@given(topics())
def test_each_record_has_the_offset_it_had(topic: tuple[list[int], int]) -> None:
    offsets, end = topic
    moves = moves_of(offsets, end)
    assert [our_offset(moves, at) for at in range(len(offsets))] == offsets
    assert [our_offset(moves, len(offsets) + more) for more in range(5)] == [end + more for more in range(5)]


@given(topics(), st.integers(0, 90))
def test_reading_from_an_offset_begins_with_the_first_record_at_or_behind_it(topic: tuple[list[int], int], start: int) -> None:
    offsets, end = topic
    moves = moves_of(offsets, end)
    behind = [*offsets, *range(end, 100)]
    first = next(offset for offset in behind if offset >= start)
    assert our_offset(moves, kafka_offset(moves, start)) == first


@given(topics(), st.integers(0, 90), st.integers(0, 30))
def test_a_part_of_the_moves_answers_as_all_of_them(topic: tuple[list[int], int], start: int, width: int) -> None:
    offsets, end = topic
    moves = moves_of(offsets, end)
    part = moves_within(moves, start, start + width)
    for at in range(start, start + width + 1):
        assert kafka_offset(part, at) == kafka_offset(moves, at)
    for at in range(kafka_offset(moves, start), kafka_offset(moves, start + width)):
        assert our_offset(part, at) == our_offset(moves, at)


def test_a_batch_has_a_bounded_number_of_moves() -> None:
    moves = tuple((at, 2 * at) for at in range(2000))
    end = most_at_once(moves, 100, 10**9)
    assert len(moves_within(moves, 100, end)) <= 503
    assert most_at_once((), 100, 200) == 200
    assert most_at_once(moves, 3990, 10**9) == 10**9


def test_a_topic_as_it_was_has_no_moves() -> None:
    assert (our_offset((), 7), kafka_offset((), 7), moves_within((), 3, 9)) == (7, 7, ())


def test_a_spec_keeps_them() -> None:
    topic = TopicRange("t", "core.s.t", "id", 0, {0: (5, 12)}, moved={0: ((0, 3), (4, 9))})
    spec = BronzeSpec("/lake/bronze/s", "localhost:9092", (topic,), "op")
    assert BronzeSpec.from_json(spec.to_json()) == spec
    assert kafka_ranges(topic) == {0: (2, 7)}
