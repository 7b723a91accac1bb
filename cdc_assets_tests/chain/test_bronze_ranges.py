"""Ranges that bronze reads: complete, bounded, and an error where topic and log contradict each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.chain.offset_ranges import batches, pending_ranges, width
from cdc_assets.clients.kafka import TopicState
from cdc_assets.registry.errors import TopicGapError

ranges = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 500), st.integers(0, 500)).map(lambda pair: (min(pair), max(pair))), min_size=1
)


@given(ranges, st.integers(1, 200))
def test_batches_cover_every_offset_once_in_order_and_are_bounded(wanted: dict[int, tuple[int, int]], max_records: int) -> None:
    at = {partition: start for partition, (start, _) in wanted.items()}
    for batch in batches(wanted, max_records=max_records):
        assert width(batch) <= max(max_records, len(wanted))
        for partition, (start, end) in batch.items():
            assert start == at[partition]
            assert end > start
            at[partition] = end
    assert at == {partition: end for partition, (_, end) in wanted.items()}


def state(begin: int, end: int, topic_id: str = "id1") -> TopicState:
    return TopicState("core.shop.public.orders", topic_id, {0: (begin, end)})


def test_the_first_read_starts_at_the_beginning() -> None:
    assert pending_ranges(state(5, 9), positions=None, topic_id=None) == {0: (5, 9)}


def test_reading_goes_on_where_bronze_stopped() -> None:
    assert pending_ranges(state(0, 9), positions={0: 4}, topic_id="id1") == {0: (4, 9)}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    grown = TopicState("t", "id1", {0: (0, 9), 1: (0, 3)})
    assert pending_ranges(grown, positions={0: 9}, topic_id="id1") == {0: (9, 9), 1: (0, 3)}


def test_retention_that_outran_bronze_names_the_lost_range() -> None:
    with pytest.raises(TopicGapError, match=r"core\.shop\.public\.orders partition 0: offsets 4 to 6 are gone"):
        pending_ranges(state(7, 9), positions={0: 4}, topic_id="id1")


def test_a_truncated_topic_is_an_error() -> None:
    with pytest.raises(TopicGapError, match="ends at offset 3, bronze has read up to 4"):
        pending_ranges(state(0, 3), positions={0: 4}, topic_id="id1")


def test_a_recreated_topic_is_an_error_even_when_offsets_fit() -> None:
    with pytest.raises(TopicGapError, match="was recreated: its id is id2, bronze has read id1"):
        pending_ranges(state(0, 9, "id2"), positions={0: 4}, topic_id="id1")
