"""A process that reads ranges and keeps nothing: which of their records are too large, told before somebody holds them.

    stdin    {"spec": BronzeSpec, "most": bytes, "careful": whether each step is told, "one": whether a first step is enough}
    stdout   {"begun": true}, {"large": {…}} for such a record, {"at": offset} for a step, {"done": true} at the ranges' end
    exit     0, REFUSED where Kafka does not hand the ranges out, UNPACKED_TOO_LARGE at a batch that it does not unpack, SLOW at
             one that takes longer than records do

A few KB unpack to gigabytes. librdkafka ends unpacking zstd at `receive.message.max.bytes`, and the process has a bound for all
other codecs: it dies, and nobody else does. https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
"""

from __future__ import annotations

import base64
import hashlib
import json
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

from spark.errors import LeftToSparkError, SparkJobError
from spark.events.kafka_messages import Place, assign, client_settings, kafka_spans, limit_memory, read_messages
from spark.specs import BronzeSpec

REFUSED, UNPACKED_TOO_LARGE, SLOW = 4, 5, 6
MOST_UNPACKED = 512 << 20
"""Bytes of one batch of zstd."""
MEMORY = 2 << 30
"""Bytes of addresses that the process may take to read."""
PATIENCE = 120.0
"""Seconds: a core unpacks a gigabyte of gzip in ten to thirty."""
_MOST_KEY = 1 << 20
_MOST_MESSAGES = 1000
# One batch at a time, and none before the one before it is taken: what the process dies of is what comes next.
ONE_BY_ONE = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1, "max.partition.fetch.bytes": 1}


def main() -> int:
    """Read what stdin asks for."""
    asked = json.load(sys.stdin)
    spec = BronzeSpec.from_json(asked["spec"])
    # A process that dies by its bound leaves no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with limit_memory(MEMORY):
        return _read(asked, spec)


def _read(asked: Mapping[str, Any], spec: BronzeSpec) -> int:
    from confluent_kafka import Consumer, KafkaException

    own = {"receive.message.max.bytes": MOST_UNPACKED, "queued.max.messages.kbytes": 64 << 10}
    own |= ONE_BY_ONE if asked["careful"] else {}
    ranges, refusals = kafka_spans(spec.topics), (KafkaException, SparkJobError)
    try:
        consumer = Consumer({**client_settings(spec), **own})
        assign(consumer, ranges)
        _say(begun=True)
        return _skim(consumer, _Teller(ranges, asked["most"]), ranges, asked)
    except MemoryError:
        return UNPACKED_TOO_LARGE
    except refusals as error:
        print(error, file=sys.stderr)
        return UNPACKED_TOO_LARGE if _is_packed(error.__cause__) else REFUSED


def _skim(consumer: Any, teller: _Teller, ranges: Mapping[Place, tuple[int, int]], asked: Mapping[str, Any]) -> int:
    if asked["careful"]:
        return _read_step_by_step(consumer, teller, only_one=asked["one"])
    try:
        for messages in read_messages(consumer, ranges, _MOST_MESSAGES):
            for message in messages:
                teller.look(message)
    except LeftToSparkError as error:
        if error.__cause__ is None and _are_committed(consumer, ranges):
            return SLOW
        raise
    return _say(done=True)


class _Teller:
    """Looks at messages in their order, and tells of those with more than `most` bytes."""

    def __init__(self, ranges: Mapping[Place, tuple[int, int]], most: int) -> None:
        self._ranges, self._most = ranges, most
        self._behind = {place: start for place, (start, _) in ranges.items()}

    @property
    def end(self) -> int:
        """Of the only range."""
        [(_, end)] = self._ranges.values()
        return end

    def look(self, message: Any) -> None:
        place, offset = (message.topic(), message.partition()), message.offset()
        if offset >= self._ranges[place][1]:
            return
        key, value = message.key() or b"", message.value() or b""
        if len(key) + len(value) > self._most:
            told = {"topic": place[0], "partition": place[1], "offset": offset, "behind": self._behind[place]}
            told |= {"size": len(key) + len(value), "digest": hashlib.sha256(value).hexdigest(), "time": message.timestamp()[1]}
            _say(large={**told, "key": base64.b64encode(key).decode() if 0 < len(key) <= _MOST_KEY else None})
        self._behind[place] = offset + 1


def _read_step_by_step(consumer: Any, teller: _Teller, *, only_one: bool) -> int:
    """Of one partition, telling each step before the next one is taken."""
    from confluent_kafka import KafkaException

    until = time.monotonic() + PATIENCE
    [place] = consumer.assignment()
    while time.monotonic() < until:
        message = consumer.poll(0.05)
        if message is None:
            [at] = consumer.position([place])
            if at.offset >= teller.end:
                return _say(done=True)
            continue
        if (error := message.error()) is not None:
            if _is_packed(cause := KafkaException(error)):
                _say(at=max(message.offset(), 0))
            raise SparkJobError(error.str()) from cause
        if message.offset() >= teller.end:
            return _say(done=True)
        teller.look(message)
        _say(at=message.offset() + 1)
        if only_one:
            return 0
        until = time.monotonic() + PATIENCE
    return REFUSED


def _are_committed(consumer: Any, ranges: Mapping[Place, tuple[int, int]]) -> bool:
    """Whether no range ends behind the last stable offset, up to which records are handed out."""
    from confluent_kafka import TopicPartition

    asked = {TopicPartition(*place): end for place, (_, end) in ranges.items()}
    return all(consumer.get_watermark_offsets(at, timeout=PATIENCE)[1] >= end for at, end in asked.items())


def _is_packed(cause: BaseException | None) -> bool:
    """Whether librdkafka does not unpack a batch, so that it has more bytes than it may have, or they are no compressed ones."""
    from confluent_kafka import KafkaError, KafkaException

    return isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError._BAD_COMPRESSION


def _say(**what: Any) -> int:
    print(json.dumps(what), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
