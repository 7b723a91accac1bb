"""Records that are too large for Spark, found before Spark unpacks them; who reads Kafka reads around them.

A broker bounds what a batch is on the wire, and a few KB of zstd unpack to gigabytes. Spark's server holds each record several
times, and would end for all sources, again at each try. So a process of its own reads a range first (spark.events.record_skim),
which
keeps nothing and may die. What it dies of twice is looked for one batch at a time. In bronze such a record is its key, its place,
and a sentence with its size and digest (spark.record_formats): silver holds it in quarantine.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spark.errors import quantity
from spark.events import record_skim
from spark.events.kafka_messages import kafka_spans
from spark.record_formats import LARGE_HEADER, TOO_LARGE
from spark.specs import BronzeSpec, TopicRange

MOST_BYTES = 32 << 20
"""Of key and value. Spark's JSON has texts of 20 million characters at most: longer ones are in quarantine anyway."""
_SECONDS = 900.0
_TRIES = 2


@dataclass(frozen=True)
class LargeRecord:
    """At Kafka's `offset`; the record before it ends at `behind`. `size` and `digest` are None where nobody could unpack it."""

    topic: str
    partition: int
    offset: int
    behind: int
    size: int | None = None
    digest: str | None = None
    time: int | None = None
    """Milliseconds."""
    key: str | None = None
    """In base64; None where it is too large itself, too."""
    most: int = MOST_BYTES
    """Bytes of key and value that it may have had."""

    @property
    def sentence(self) -> str:
        """What bronze has as its value."""
        if self.size is None:
            most = record_skim.MOST_UNPACKED >> 20
            return f"{TOO_LARGE}: its batch does not unpack into {most} MiB, so size and digest are not known"
        most_text = f"{self.most >> 20} MiB" if self.most % (1 << 20) == 0 else quantity(self.most, "byte")
        return f"{TOO_LARGE}: {quantity(self.size, 'byte')}, above {most_text}; sha256 of its value {self.digest}"

    def row(self) -> tuple[Any, ...]:
        """In the columns of spark.specs.KAFKA_SCHEMA."""
        text = self.sentence.encode()
        key = base64.b64decode(self.key) if self.key else None
        when = datetime.fromtimestamp((self.time or 0) / 1000, timezone.utc)
        return (self.topic, self.partition, self.offset, when, [(LARGE_HEADER, text)], key, text)


def find_large_records(spec: BronzeSpec, topics: Sequence[TopicRange], most: int = MOST_BYTES) -> list[LargeRecord]:
    """Those of the ranges above so many bytes, by place and offset; none where this Python has no librdkafka, or Kafka does not
    hand the ranges out: then Spark says why."""
    if importlib.util.find_spec("confluent_kafka") is None:
        return []
    whole = [replace(t, ranges={p: r for (name, p), r in kafka_spans([t]).items() if name == t.topic}, moved={}) for t in topics]
    skimmer = _Skim(spec, most)
    told = skimmer.skim(whole)
    if told.is_done or told.is_refused:
        return told.large
    found = [each for t in whole for p, (start, end) in t.ranges.items() for each in _search(skimmer, t, p, (start, end))]
    return sorted(found, key=lambda each: (each.topic, each.partition, each.offset))


@dataclass(frozen=True)
class _Told:
    """What a skim has told until its end: `at` is behind its last step."""

    large: list[LargeRecord]
    at: int
    is_done: bool
    is_refused: bool


@dataclass(frozen=True)
class _Skim:
    spec: BronzeSpec
    most: int

    def skim(self, topics: Sequence[TopicRange], *, careful: bool = False, one: bool = False) -> _Told:
        spec = replace(self.spec, topics=tuple(topics))
        text = json.dumps({"spec": spec.to_json(), "most": self.most, "careful": careful, "one": one})
        root = Path(__file__).resolve().parents[len(__name__.split(".")) - 1]
        command = [sys.executable, "-m", record_skim.__name__]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=root)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
        large = [LargeRecord(**line["large"], most=self.most) for line in lines if "large" in line]
        steps = [line["at"] for line in lines if "at" in line]
        # Whatever else ends it, before it reads or by an error of ours, says nothing of a record.
        is_killed = done.returncode < 0 and {"begun": True} in lines
        is_refused = not is_killed and done.returncode not in (0, record_skim.UNPACKED_TOO_LARGE, record_skim.SLOW)
        return _Told(large, max(steps, default=-1), {"done": True} in lines, is_refused)


def _search(skimmer: _Skim, topic: TopicRange, partition: int, span: tuple[int, int]) -> Iterator[LargeRecord]:
    """Those of one partition, step by step, beyond what no process survives."""
    start, end = span

    def step_from(offset: int, *, one: bool = False) -> _Told:
        return skimmer.skim([replace(topic, ranges={partition: (offset, end)})], careful=True, one=one)

    at, tries = start, 0
    while at < end:
        told = step_from(at)
        yield from told.large
        if told.is_done or told.is_refused:
            return
        if told.at > at:
            at, tries = told.at, 0
            continue
        tries += 1
        if tries < _TRIES:
            continue
        behind, tries = _first_readable(at, end, lambda offset: step_from(offset, one=True)), 0
        yield from (LargeRecord(topic.topic, partition, offset, at) for offset in range(at, behind))
        at = behind


def _first_readable(bad: int, end: int, step_from: Any) -> int:
    """The first offset behind a batch that nobody unpacks: from each within it, the whole batch is read again."""

    def is_readable(offset: int) -> bool:
        told = step_from(offset)
        return bool(told.is_done or told.is_refused or told.at > offset)

    width = 1
    while bad + width < end and not is_readable(bad + width):
        width *= 2
    low, high = bad + width // 2, min(bad + width, end)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_readable(middle) else (middle, high)
    return high
