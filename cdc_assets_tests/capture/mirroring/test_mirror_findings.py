"""What a look at a mirrored topic concludes, figure by figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.capture import mirror_losses
from cdc_assets.capture.mirror_losses import MirrorFinding, SeenTopic, expiring, losses
from cdc_assets.clients.kafka import TopicState


def found(
    ranges: dict[int, tuple[int, int]], copied: dict[int, int], seen: SeenTopic | None, *, records: int = 0
) -> list[tuple[str, int | None, tuple[int, int] | None]]:
    state = TopicState("t", "one", ranges)
    return [(f.kind, f.partition, f.lost) for f in losses(state, copied, seen, lambda *_: records)]


@pytest.mark.parametrize(
    ("ranges", "copied", "seen", "records", "expected"),
    [
        pytest.param({0: (0, 9)}, {}, None, 0, [], id="nothing copied yet"),
        pytest.param({0: (5, 9)}, {}, None, 1, [], id="others' topic: what expired before the mirror was made is not its loss"),
        pytest.param({0: (5, 9)}, {}, None, 0, [("lost", 0, (0, 4))], id="our topic has lost its begin before it was mirrored"),
        pytest.param({0: (5, 9)}, {0: 8}, None, 0, [("lost", 0, (0, 4))], id="and its copy begins there"),
        pytest.param({0: (4, 9)}, {0: 3}, None, 1, [], id="all before the begin is copied"),
        pytest.param(
            {0: (5, 5)}, {0: 3}, None, 1, [], id="an idle topic has expired with its last marker, before the first look"
        ),
        pytest.param({0: (6, 9)}, {0: 3}, None, 0, [("lost", 0, (4, 5))], id="more than a marker, before the first look"),
        pytest.param({0: (5, 9)}, {0: 3}, SeenTopic("one", {0: 4}), 0, [("lost", 0, (4, 4))], id="one offset"),
        pytest.param({0: (5, 9)}, {0: 3}, SeenTopic("one", {0: 5}), 0, [], id="only a transaction's marker is gone"),
        pytest.param({0: (7, 9)}, {0: 3}, SeenTopic("one", {0: 5}), 0, [("lost", 0, (5, 6))], id="and records behind it"),
        pytest.param({0: (7, 9)}, {0: 8}, SeenTopic("one", {0: 5}), 0, [("lost", 0, (5, 6))], id="jumped between two looks"),
        pytest.param({0: (7, 9)}, {0: 8}, SeenTopic("one", {0: 5}), 2, [], id="copied first, then expired"),
        pytest.param({0: (0, 2)}, {0: 8}, SeenTopic("one", {0: 9}), 0, [("truncated", 0, (2, 8))], id="shorter than its copy"),
        pytest.param(
            {0: (0, 2), 1: (0, 0)}, {0: 1}, SeenTopic("one", {0: 2}), 0, [("partitions", 1, None)], id="a partition more"
        ),
        pytest.param({0: (0, 99)}, {0: 8}, SeenTopic("other", {0: 9}), 0, [("recreated", None, None)], id="another id"),
    ],
)
def test_losses(
    ranges: dict[int, tuple[int, int]], copied: dict[int, int], seen: SeenTopic | None, records: int, expected: list[object]
) -> None:
    assert found(ranges, copied, seen, records=records) == expected


@pytest.mark.parametrize(
    ("age_s", "retention_s", "left"),
    [(100, 1000, None), (499, 1000, None), (501, 1000, "499 s"), (2000, 1000, "0 s"), (9, -1, None)],
)
def test_expiring_in_the_second_half_of_the_retention(age_s: int, retention_s: int, left: str | None) -> None:
    now = 1_700_000_000_000
    warning = expiring(
        "t", 0, oldest_ms=now - age_s * 1000, records=3, retention_ms=retention_s * 1000 if retention_s > 0 else -1, now_ms=now
    )
    assert (warning is None) == (left is None)
    assert warning is None or ("up to 3 records" in warning.message and f"expires in {left}" in warning.message)


def test_the_memory_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    assert mirror_losses.load_seen_topics("web") == {}
    loss = MirrorFinding("lost", 0, (3, 4), "gone")
    seen = {"t": SeenTopic("id", {0: 5}, {0: 7}, [loss.to_json()])}
    mirror_losses.save("web", seen)
    (kept,) = mirror_losses.load_seen_topics("web")["t"].losses
    assert MirrorFinding.of(kept) == loss
    assert mirror_losses.load_seen_topics("web")["t"].next == {0: 5}
