"""Notes of a topic that is filled: where its records' offsets go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.clients.kafka import Record
from cdc_assets.recovery.lost_topics import MoveNotes
from spark.events.moved_offsets import our_offset


@given(st.dictionaries(st.integers(0, 2), st.sets(st.integers(0, 50), min_size=1), max_size=3), st.integers(0, 5))
def test_notes_give_back_every_offset(offsets: dict[int, set[int]], behind: int) -> None:
    notes = MoveNotes()
    records = [Record(p, offset, 0, None, None, ()) for p, found in offsets.items() for offset in sorted(found)]
    assert list(notes.follow(records)) == records
    ends = {p: max(found) + 1 + behind for p, found in offsets.items()}
    moves = notes.moves({**ends, 9: 33})
    for partition, found in offsets.items():
        assert [our_offset(moves[partition], at) for at in range(len(found))] == sorted(found)
        assert our_offset(moves[partition], len(found)) == ends[partition]
    assert moves[9] == ((0, 33),)
    assert notes.written == {p: len(found) for p, found in offsets.items()}
