"""The fold of commit metadata: any newest part of a history that is long enough says the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.errors import HistoryTooShortError, TableStopError
from spark.table.commit_metadata import (
    RESTORED,
    Committed,
    Folded,
    TopicCommit,
    bronze_metadata,
    fold,
    fold_silver,
    silver_metadata,
    surviving,
)
from spark.table.topic_commits import CommittedTopic, Past

TOPICS = ("a", "b", "c")


def share(topic: str, start: int, end: int, *, epoch: int = 0) -> TopicCommit:
    return TopicCommit(f"t_{topic}", f"id-{epoch}", epoch, {0: (start, end)}, records=end - start, by_op={"c": end - start})


def interleaved(moves: list[tuple[int, int, bool]]) -> tuple[list[tuple[int, str | None]], dict[str, int]]:
    """A log of appends; a job that `looks` late builds on what it saw before the others committed."""
    log: list[tuple[int, str | None]] = []
    ends = dict.fromkeys(TOPICS, 0)
    seen = {topic: fold([]) for topic in TOPICS}
    for number, size, looks in moves:
        topic = TOPICS[number]
        if looks:
            seen[topic] = fold(log)
        base = seen[topic]
        start = ends[topic]
        if base.position(topic, 0) not in (start, None) or (base.position(topic, 0) is None and start):
            base = fold(log)
        ends[topic] = start + size
        log.append((len(log), bronze_metadata(f"op{len(log)}", base, {topic: share(topic, start, start + size)})))
    return log, ends


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.booleans()), min_size=1, max_size=25))
def test_concurrent_appends_all_count(moves: list) -> None:
    log, ends = interleaved(moves)
    whole = fold(log)
    written = {t: s.positions[0] for t, s in whole.topics.items()}
    assert written == {t: e for t, e in ends.items() if t in whole.topics}
    assert {t: s.records for t, s in whole.topics.items()} == written
    for start in range(len(log)):
        try:
            part = fold(log[start:])
        except HistoryTooShortError:
            continue
        assert part.topics == whole.topics


STEPS = st.sampled_from(["look", "append", "optimize", "restore"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 2), st.integers(0, 9)), max_size=40))
def test_of_writers_that_saw_one_log_one_appends(steps: list[tuple[str, int, int]]) -> None:
    """Three writers of one topic, as Delta judges them: a number that is not above the last one is left out.

    None appends to what it has not seen, and one that looks again can always append: after foreign commits and a RESTORE too,
    which takes appends back and keeps their numbers.
    """
    log: list[dict[str, object]] = []
    last, views = -1, {n: fold([]) for n in range(3)}
    for what, writer, number in steps:
        now = fold(surviving(log))
        if what == "look":
            views[writer] = now
        elif what == "append" and views[writer].turn > last:
            start = views[writer].position("a", 0) or 0
            assert start == (now.position("a", 0) or 0)
            text = bronze_metadata("x", views[writer], {"a": share("a", start, start + 1)})
            last = views[writer].turn
            log.append({"version": len(log), "operation": "WRITE", "userMetadata": text})
        elif what == "optimize" and log:
            log.append({"version": len(log), "operation": "OPTIMIZE"})
        elif what == "restore" and log:
            said = {"version": str(number % len(log))}
            log.append({"version": len(log), "operation": "RESTORE", "operationParameters": said})
            # Who looked before a RESTORE is not refused for it: nobody may restore under running writers.
            views = {n: fold(surviving(log)) for n in range(3)}
        assert fold(surviving(log)).turn > last


def test_foreign_commits_do_not_disturb() -> None:
    log = [(0, None), (1, bronze_metadata("x", Committed(0, {}), {"a": share("a", 0, 5)})), (2, "optimize"), (3, '{"a": 1}')]
    assert fold(log).topics["a"].positions == {0: 5}
    assert fold(log).version == 3
    with pytest.raises(HistoryTooShortError):
        fold(log[2:])


def test_a_higher_epoch_starts_again() -> None:
    first = bronze_metadata("x", fold([]), {"a": share("a", 0, 50)})
    second = bronze_metadata("y", fold([(0, first)]), {"a": share("a", 0, 7, epoch=1)})
    state = fold([(0, first), (1, second)]).topics["a"]
    assert (state.epoch, state.topic_id, state.positions, state.records) == (1, "id-1", {0: 7}, 7)


def test_an_epoch_that_begins_where_the_last_one_ended_keeps_it() -> None:
    """The source became another one: the topic is the same, and its offsets go on."""
    first = bronze_metadata("x", fold([]), {"a": share("a", 0, 50)})
    known = fold([(0, first)])

    def then(start: int, topic_id: str) -> CommittedTopic:
        new = replace(share("a", start, 57, epoch=1), topic_id=topic_id)
        return fold([(0, first), (1, bronze_metadata("y", known, {"a": new}))]).topics["a"]

    state = then(50, "id-0")
    assert (state.earlier, state.topic_epoch, state.records, state.topic_records) == ((Past(0, {0: 50}, 50),), 0, 7, 57)
    assert CommittedTopic.from_dict(json.loads(json.dumps(state.to_dict()))) == state
    for begun in (then(50, "another"), then(52, "id-0")):
        assert (begun.earlier, begun.topic_epoch, begun.before) == ((), 1, (Past(0, {0: 50}, 50, "id-0"),))
        assert begun.all_records == begun.topic_records + 50
        assert CommittedTopic.from_dict(json.loads(json.dumps(begun.to_dict()))) == begun


@pytest.mark.parametrize(
    ("copy", "lacking"),
    [
        *[(None, 7), (Past(-1, {}, 0), 57), (Past(0, {}, 0), 57), (Past(0, {}, 48), 9), (Past(0, {}, 50), 7)],
        *[(Past(0, {}, 57), 7), (Past(1, {}, 0), 7), (Past(1, {}, 7), 0), (Past(2, {}, 3), 0)],
    ],
)
def test_what_a_copy_lacks(copy: Past | None, lacking: int) -> None:
    """Fifty records of an epoch that has ended, and seven of now. What was never folded begins with the epoch of now."""
    state = CommittedTopic("t_a", "id-1", 1, {0: 7}, records=7, before=(Past(0, {0: 50}, 50, "id-0"),))
    assert state.records_ahead_of(copy) == lacking


def test_silver_says_what_it_has_folded() -> None:
    state = fold([(4, bronze_metadata("x", Committed(3, {}), {"a": share("a", 0, 5)}))])
    text = silver_metadata("op", Folded(4, state.topics), {})
    assert json.loads(text)["folded"]["a"]["positions"] == {"0": 5}
    folded = fold_silver([(0, None), (1, text), (2, None)])
    assert folded is not None
    assert (folded.bronze_version, folded.version, folded.topics) == (4, 1, state.topics)


def test_a_restore_takes_back_what_was_said_after() -> None:
    log = [
        {"version": 0, "operation": "WRITE", "userMetadata": "zero"},
        {"version": 1, "operation": "WRITE", "userMetadata": "one"},
        {"version": 2, "operation": "RESTORE", "operationParameters": {"version": "0", "timestamp": None}},
        {"version": 3, "operation": "WRITE", "userMetadata": "three"},
    ]
    assert [(v, m) for v, m in surviving(log) if m] == [(3, "three"), (2, RESTORED), (0, "zero")]
    with pytest.raises(TableStopError, match="point in time"):
        surviving([{"version": 9, "operation": "RESTORE", "operationParameters": {"timestamp": "2026-01-01"}}])
