"""A start of a connector behind a hole, told by the events that follow; the events are as Debezium 3.7 writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.postgresql_connector import capture_config, temporary_config
from cdc_assets.capture.incarnations.postgresql_incarnation import Start, find_loss, hole, place
from cdc_assets.capture.incarnations.server_facts import Memory, SeenStarts
from cdc_assets.clients.kafka import Record, TopicState
from cdc_assets.registry.source_declaration import Source

SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "h", "port": 1, "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.t"}],
    }
)


def event(commit: int | None, lsn: int, op: str = "c", snapshot: str = "false") -> bytes:
    sequence = json.dumps([str(commit) if commit is not None else None, str(lsn)])
    return json.dumps({"op": op, "source": {"snapshot": snapshot, "lsn": lsn, "sequence": sequence}}).encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (event(100, 110), (100, 110)),
        (event(100, 110, op="m"), (100, 110)),
        (event(110, 110, op="m"), None),
        (event(None, 110), None),
        (event(100, 100, op="r"), None),
        (event(100, 110, op="r", snapshot="incremental"), None),
        (None, None),
        (b"\x00avro", None),
        (b"[]", None),
        (b'{"op": "c", "source": {"sequence": null}}', None),
    ],
)
def test_what_an_event_says(value: bytes | None, expected: tuple[int, int] | None) -> None:
    assert place(value) == expected


@pytest.mark.parametrize(
    ("slot", "places", "expected"),
    [
        (200, [(100, 110), (200, 210)], None),
        (200, [(100, 110), (150, 210), (215, 220)], 150),
        # The record right behind the slot begins where the slot is.
        (200, [(150, 200)], 150),
        # An open transaction from before the slot says nothing of it.
        (200, [(150, 160)], None),
        (200, [(200, 130), (210, 220)], None),
        (200, [], None),
    ],
)
def test_what_is_lost(slot: int, places: list[tuple[int, int]], expected: int | None) -> None:
    assert hole(Start(slot, ""), places) == expected


class Topics:
    """Topics of one partition, which grow by a record after each look."""

    def __init__(self, values: Mapping[str, Sequence[bytes]], later: Mapping[str, Sequence[bytes]] | None = None) -> None:
        self.values = {topic: list(each) for topic, each in values.items()}
        self.later = later or {}
        self.looks = 0

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        if self.looks:
            for topic, each in self.later.items():
                self.values[topic] = [*self.values[topic], *each]
        self.looks += 1
        return {name: TopicState(name, name, {0: (0, len(self.values[name]))}) for name in topics if name in self.values}

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Record]:
        for partition, (start, end) in ranges.items():
            for offset in range(start, end):
                yield Record(partition, offset, 0, None, self.values[topic][offset], ())


def test_answers_come_with_events() -> None:
    first, second = Start(200, "then"), Start(300, "now")
    topics = Topics({"t": [event(100, 110), event(200, 220)], "other": []})
    found = find_loss(topics, ["t", "other", "gone"], {"t": {0: 1}}, [first, second])  # type: ignore[arg-type]
    assert found == ("", (first,))
    assert find_loss(Topics({"t": []}), ["t"], {}, [first]) == ("", ())  # type: ignore[arg-type]


def test_what_was_there_before_says_nothing() -> None:
    """A restored server gives positions out again: what an earlier epoch has sent is not looked at."""
    topics = Topics({"t": [event(100, 990), event(300, 310)]})
    assert find_loss(topics, ["t"], {"t": {0: 1}}, [Start(200, "")]) == ("", (Start(200, ""),))  # type: ignore[arg-type]
    lost, _ = find_loss(topics, ["t"], {}, [Start(200, "")])  # type: ignore[arg-type]
    assert lost.endswith(
        "its replication slot was at 0/C8, and 0/64 was the last commit that it had read: the slot had been moved, and what "
        "was committed between the two is in no topic"
    )


def test_the_first_event_may_be_seen_last() -> None:
    """Ends of topics are not taken at one moment: what one shows is only believed when the others have been read until then."""
    topics = Topics({"t": [event(220, 230)], "other": []}, later={"other": [event(100, 210)]})
    lost, done = find_loss(topics, ["t", "other"], {}, [Start(200, "")])  # type: ignore[arg-type]
    assert ("0/64 was the last" in lost, done) == (True, ())


def test_a_topic_made_again_is_read_from_its_begin() -> None:
    lost, _ = find_loss(Topics({"t": [event(100, 210)]}), ["t"], {"t": {0: 9}}, [Start(200, "")])  # type: ignore[arg-type]
    assert lost


def test_the_note_is_the_second_of_two_statements_for_debezium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SECRET_S", "x")
    note = capture_config(SOURCE)["database.initial.statements"]
    assert [text.count("DO $cdc$") for text in note.replace(";;", "").split(";")] == [1, 1]
    assert 'INSERT INTO "cdc_assets"."starts_shop" SELECT confirmed_flush_lsn' in note
    assert "INSERT" not in temporary_config(SOURCE, SOURCE.tables, anchor=1)["database.initial.statements"]


def test_what_was_seen_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    memory = Memory.of("shop")
    assert memory.seen == SeenStarts()
    memory.seen = SeenStarts(7, {"t": {0: 3}}, "lost")
    memory.save()
    assert Memory.of("shop").seen == memory.seen
