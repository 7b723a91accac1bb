"""One Kafka cluster through librdkafka: topics, committed offset ranges, committed records; records written as they were.

Upper bounds are last stable offsets (`isolation.level=read_committed`), never high watermarks: a reader of
committed records cannot get past an open transaction. `end - begin` is no record count either, because
exactly-once producers leave control records behind (KIP-98), so records are counted by reading them.
A topic that is restored gets its records with their keys, values, headers and timestamps, in the order of each partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cdc_assets.clients.kafka_client import ClientMaker
from cdc_assets.registry.errors import ServiceError
from spark.errors import quantity
from spark.events.moved_offsets import Moves, kafka_offset, most_at_once, moves_within


@dataclass(frozen=True)
class TopicState:
    """A topic as it is now: its identity, and per partition `(begin, last stable offset)`.

    `moves`: by partition, where Kafka's own offsets are others (spark.events.moved_offsets); empty for nearly every topic.
    """

    name: str
    topic_id: str
    ranges: Mapping[int, tuple[int, int]]
    moves: Mapping[int, Moves] = field(default_factory=dict)

    @property
    def ends(self) -> dict[int, int]:
        """The last stable offset of each partition."""
        return {partition: end for partition, (_, end) in self.ranges.items()}

    @property
    def kafka_ends(self) -> dict[int, int]:
        """The same, by Kafka's own offsets."""
        return {partition: kafka_offset(self.moves.get(partition, ()), end) for partition, end in self.ends.items()}

    def moves_of(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, Moves]:
        """What a reader of these ranges must know of Kafka's own offsets."""
        return {p: moves_within(self.moves[p], *bounds) for p, bounds in ranges.items() if self.moves.get(p)}

    def cut(self, partition: int, start: int, end: int) -> int:
        """Where a batch that begins at `start` ends at the latest."""
        return most_at_once(self.moves.get(partition, ()), start, end)


class Record(NamedTuple):
    """One committed record, as it lies in the topic. A tuple, because millions are made."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Offsets = dict[str, dict[int, int]]


class KafkaCluster:
    """One cluster, by bootstrap address and the path of its login (spark.events.kafka_login). Clients are made on first use."""

    def __init__(self, bootstrap: str, *, login: str = "", timeout: float = 20.0) -> None:
        self.bootstrap, self.login = bootstrap, login
        self.clients = ClientMaker(bootstrap, login)
        self._timeout = timeout

    @property
    def tool_options(self) -> str:
        """By which Kafka's own tools reach it."""
        return f"--bootstrap-server {self.bootstrap}" + (f" --command-config {self.login}" if self.login else "")

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """The state of each topic that exists; one that does not, or that goes meanwhile, is left out."""
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        there = self._describe(topics)
        ends = self._list_offsets(there, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        begins = self._list_offsets({name: there[name] for name in ends}, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        return {
            name: TopicState(name, str(there[name].topic_id), {p: (begin, ends[name][p]) for p, begin in of.items()})
            for name, of in begins.items()
        }

    def await_state(self, topic: str, *, deadline: float) -> TopicState:
        """The state of a topic that is about to appear (a broker learns of a new topic a moment later).

        Raises:
            ServiceError: when it has not appeared within `deadline` seconds.
        """
        until = time.monotonic() + deadline
        while True:
            state = self.states([topic]).get(topic)
            if state is not None:
                return state
            if time.monotonic() > until:
                raise ServiceError(f"topic {topic} did not appear at {self.bootstrap} within {deadline:.0f} s")
            time.sleep(0.25)

    def high_watermarks(self, topics: Sequence[str]) -> Offsets:
        """Per partition the end of what is written and replicated, open transactions included."""
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        return self._list_offsets(self._describe(topics), OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    def cluster_id(self) -> str:
        """The cluster's id: two addresses with one id are one cluster."""
        return str(self._call(lambda: self.clients.metadata(self._timeout)).cluster_id)

    def existing(self, topics: Sequence[str]) -> set[str]:
        """Those of the topics that the cluster has; one that is being deleted may still be among them."""
        return set(self._describe(topics))

    def replicas(self, topics: Sequence[str]) -> dict[str, int]:
        """In how many copies each topic's worst partition is kept; a topic that does not exist is left out."""
        return {name: min(len(p.replicas) for p in d.partitions) for name, d in self._describe(topics).items()}

    def brokers(self) -> int:
        """How many there are now."""
        return len(self._call(lambda: self.clients.metadata(self._timeout)).brokers)

    def topic_config(self, name: str) -> dict[str, str]:
        """Every setting of the topic, defaults included."""
        return self.topic_configs([name])[name]

    def topic_configs(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Of each of these topics every setting, defaults included: one request for all of them.

        Raises:
            ServiceError: one of them does not exist.
        """
        entries = self._config_entries(names)
        return {name: {key: entry.value for key, entry in entries[name].items()} for name in names}

    def own_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Of each of these topics what was set for it alone."""
        from confluent_kafka.admin import ConfigSource

        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        entries = self._config_entries(names)
        return {name: {key: e.value for key, e in sorted(entries[name].items()) if e.source == own} for name in names}

    def ensure_topic(self, name: str, *, partitions: int, retention_ms: int, replication_factor: int | None) -> bool:
        """Create the topic, or bring its retention and cleanup policy to what is declared; True when created.

        Raises:
            ServiceError: when it has another number of partitions: adding some would break the order per key.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        config = {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
        description = self._describe([name]).get(name)
        if description is None:
            new = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor or -1, config=config)
            try:
                self.clients.answer(self.clients.admin().create_topics([new], request_timeout=self._timeout)[name])
                return True
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise self.clients.error(f"topic {name} at {self.bootstrap}", error.args[0]) from error
                description = self._await_description(name)
        if len(description.partitions) != partitions:
            raise ServiceError(
                f"topic {name} at {self.bootstrap} has {quantity(len(description.partitions), 'partition')}, declared are "
                f"{partitions}; changing the number breaks the order per key: declare what it has, or capture into a new topic"
            )
        self._apply_config(name, config)
        return False

    def _await_description(self, name: str) -> Any:
        """Of a topic that somebody has just made: the broker that is asked may learn of it a moment later."""
        until = time.monotonic() + self._timeout
        while (description := self._describe([name]).get(name)) is None:
            if time.monotonic() > until:
                raise ServiceError(
                    f"topic {name} at {self.bootstrap} was made by others, and is not shown: look at the brokers' logs"
                )
            time.sleep(0.25)
        return description

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]], *, deadline: float = 120.0) -> Iterator[Record]:
        """Every committed record of the offset ranges `{partition: (from, to)}`, in order within a partition.

        Raises:
            ServiceError: when a range begins before what the topic still holds, or the deadline passes.
        """
        yield from (record for _, record in self.records_of({topic: ranges}, deadline=deadline))

    def records_of(
        self, topics: Mapping[str, Mapping[int, tuple[int, int]]], *, deadline: float = 120.0
    ) -> Iterator[tuple[str, Record]]:
        """The same of several topics in one read, each record with the name of its topic.

        Raises:
            ServiceError: as for one; of a `topic`, the login may not read that one.
        """
        from confluent_kafka import KafkaError as Code
        from confluent_kafka import TopicPartition

        open_ranges = {(name, p): r for name, ranges in topics.items() for p, r in ranges.items() if r[1] > r[0]}
        if not open_ranges:
            return
        until, topic_names = time.monotonic() + deadline, ", ".join(topics)
        with self.clients.lend_reader() as consumer:
            # Without it librdkafka asks for the leaders of a topic that is new to it only when a timer of 1 s fires.
            for topic in dict.fromkeys(name for name, _ in open_ranges):
                self._await_metadata(consumer, topic)
            consumer.assign([TopicPartition(*at, start) for at, (start, _) in open_ranges.items()])
            while open_ranges:
                if time.monotonic() > until:
                    raise ServiceError(
                        f"reading {topic_names} at {self.bootstrap}: {open_ranges} not read within {deadline:.0f} s"
                    )
                self.clients.refuse()
                for message in _next_messages(consumer):
                    error = message.error()
                    if error is not None and error.code() == Code._PARTITION_EOF:
                        continue
                    if error is not None and error.name() == _NOT_ALLOWED and message.topic():
                        raise ServiceError.of_topic(message.topic(), self.bootstrap)
                    if error is not None:
                        raise ServiceError(f"reading {topic_names} at {self.bootstrap}: {error.str()}")
                    bounds = open_ranges.get((message.topic(), message.partition()))
                    if bounds is not None and message.offset() < bounds[1]:
                        yield message.topic(), to_record(message)
                # A range may end in control records, which are never delivered: the position tells that it is done.
                for at in consumer.position([TopicPartition(*key) for key in open_ranges]):
                    if at.offset >= open_ranges[at.topic, at.partition][1]:
                        del open_ranges[at.topic, at.partition]

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its records."""
        self._ask(lambda admin: admin.delete_topics([name], request_timeout=self._timeout)[name])

    def create_topic(self, name: str, *, partitions: int, replication_factor: int | None, settings: Mapping[str, str]) -> None:
        """Make a topic that is not there.

        Raises:
            ServiceError: it is, or the cluster refuses.
        """
        from confluent_kafka.admin import NewTopic

        new = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor or -1, config=dict(settings))
        self._ask(lambda admin: admin.create_topics([new], request_timeout=self._timeout)[name])

    def rights_lacking(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        """By topic the operations of those wanted that the login may not do; topics that lack none are left out.

        The broker says it (KIP-430, https://cwiki.apache.org/confluence/x/gBB4BQ). Of a topic that is not there it is asked
        whether the topic might be made, and nothing is made: what comes after that shows itself once the topic is there.

        Raises:
            ServiceError: the cluster refuses the login, or does not answer.
        """
        from confluent_kafka import TopicCollection

        request = TopicCollection(list(wanted))
        futures = self.clients.admin().describe_topics(request, include_authorized_operations=True, request_timeout=self._timeout)
        answers = {topic: self._refusal(future) for topic, future in futures.items()}
        refused = {topic: refusal for topic, (refusal, _) in answers.items() if refusal}
        allowed: dict[str, frozenset[str] | None] = {}
        for topic, (_, description) in answers.items():
            if description:
                may_do = {operation.name.replace("_", "").lower() for operation in description.authorized_operations or ()}
                # None: all that can be asked of it may be done. A broker from before Kafka 2.3 does not tell.
                allowed[topic] = frozenset({"create", *may_do}) if may_do else None
        allowed |= {topic: frozenset() if refusal == _NOT_ALLOWED else None for topic, refusal in refused.items()}
        allowed |= self._may_make({topic: refusal for topic, refusal in refused.items() if "Create" in wanted[topic]})
        lacking = {
            topic: tuple(
                operation for operation in operations if (may := allowed[topic]) is not None and operation.lower() not in may
            )
            for topic, operations in wanted.items()
        }
        return {topic: operations for topic, operations in lacking.items() if operations}

    def _may_make(self, refusals: Mapping[str, str]) -> dict[str, frozenset[str] | None]:
        """Of topics that are not there, or not shown: only looked at, none is made.

        https://kafka.apache.org/protocol (CreateTopics, validate_only)
        """
        from confluent_kafka.admin import NewTopic

        if not refusals:
            return {}
        new = [NewTopic(topic, num_partitions=1, replication_factor=-1) for topic in refusals]
        futures = self.clients.admin().create_topics(new, validate_only=True, request_timeout=self._timeout)
        allowed: dict[str, frozenset[str] | None] = {}
        for topic, future in futures.items():
            may_make = self._refusal(future)[0] != _NOT_ALLOWED
            shown = refusals[topic] != _NOT_ALLOWED  # every other right has Describe with it
            may = {"describe"} if shown else {"create"} if may_make else set[str]()
            allowed[topic] = None if may_make and shown else frozenset(may)
        return allowed

    def _refusal(self, future: Any) -> tuple[str, Any]:
        """The error's name of an answer that is one about the topic itself, and the answer.

        Raises:
            ServiceError: it is about something else.
        """
        from confluent_kafka import KafkaException

        try:
            return "", self.clients.answer(future)
        except KafkaException as error:
            if error.args[0].name() not in (_NOT_ALLOWED, "UNKNOWN_TOPIC_OR_PART", "TOPIC_ALREADY_EXISTS"):
                raise self.clients.error(f"Kafka at {self.bootstrap}", error.args[0]) from error
            return error.args[0].name(), None

    def _config_entries(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        from confluent_kafka.admin import ConfigResource

        if not names:
            return {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        answers = {r.name: answer for r, answer in self.clients.admin().describe_configs(resources).items()}
        return self._call(lambda: {name: self.clients.answer(answer) for name, answer in answers.items()})

    def _apply_config(self, name: str, wanted: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        current = self.topic_config(name)
        changes = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in wanted.items()
            if current[key] != value
        ]
        if changes:
            change = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
            self._ask(lambda admin: admin.incremental_alter_configs([change])[change])

    def _describe(self, topics: Sequence[str]) -> dict[str, Any]:
        from confluent_kafka import KafkaException, TopicCollection

        if not topics:
            return {}
        descriptions: dict[str, Any] = {}
        futures = self.clients.admin().describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout)
        for name, future in futures.items():
            try:
                descriptions[name] = self.clients.answer(future)
            except KafkaException as error:
                if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise self.clients.error(f"topic {name} at {self.bootstrap}", error.args[0]) from error
        return descriptions

    def _list_offsets(self, there: Mapping[str, Any], spec: Any, isolation: Any) -> Offsets:
        """Of each of these topics; one that is deleted after it was described, or made anew, is left out."""
        from confluent_kafka import KafkaException, TopicPartition

        until = time.monotonic() + self._timeout
        while there:
            request = {TopicPartition(name, p.id): spec for name, d in there.items() for p in d.partitions}
            offsets: Offsets = {name: {} for name in there}
            try:
                for topic_partition, future in self._request_offsets(request, isolation).items():
                    offsets[topic_partition.topic][topic_partition.partition] = self.clients.answer(future).offset
                return offsets
            except KafkaException as error:
                # A partition that was just made, or moves, has its leader a moment later.
                if error.args[0].name() not in _LEADER_SOON or time.monotonic() > until:
                    raise self.clients.error(f"Kafka at {self.bootstrap}", error.args[0]) from error
            time.sleep(0.1)
            now = self._describe(list(there))
            there = {name: d for name, d in now.items() if str(d.topic_id) == str(there[name].topic_id)}
        return {}

    def _request_offsets(self, request: Mapping[Any, Any], isolation: Any) -> Mapping[Any, Any]:
        return self.clients.admin().list_offsets(request, isolation_level=isolation, request_timeout=self._timeout)

    def _ask(self, request: Callable[[Any], Any]) -> Any:
        return self._call(lambda: self.clients.answer(request(self.clients.admin())))

    def _call(self, action: Callable[[], Any]) -> Any:
        from confluent_kafka import KafkaException

        try:
            return action()
        except KafkaException as error:
            raise self.clients.error(f"Kafka at {self.bootstrap}", error.args[0]) from error

    def _await_metadata(self, consumer: Any, topic: str) -> None:
        from confluent_kafka import KafkaException

        until = time.monotonic() + self._timeout
        while True:
            try:
                consumer.list_topics(topic, timeout=1.0)
                return
            except KafkaException as error:
                consumer.poll(0.1)
                self.clients.refuse()
                if not self.clients.is_timeout(error.args[0]) or time.monotonic() > until:
                    raise self.clients.error(f"reading {topic} at {self.bootstrap}", error.args[0]) from error


# Retriable by Kafka's protocol (https://kafka.apache.org/protocol#protocol_error_codes): 3, 5, 6, 74, 75.
_OF_LEADER = ("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")
_NOT_ALLOWED = "TOPIC_AUTHORIZATION_FAILED"
_LEADER_SOON = ("UNKNOWN_TOPIC_OR_PART", *_OF_LEADER)


def _next_messages(consumer: Any) -> list[Any]:
    """Whatever is there, as soon as something is: `consume(n, timeout)` alone waits for n messages or the timeout."""
    first = consumer.poll(0.1)
    return [] if first is None else [first, *consumer.consume(num_messages=5000, timeout=0)]


def to_record(message: Any) -> Record:
    """A message of librdkafka's as it lies in its topic."""
    headers = tuple(message.headers() or ())
    return Record(message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(), headers)


_SETTINGS = {
    # Each once and in their order, whatever has to be sent again.
    "enable.idempotence": True,
    "linger.ms": 20,
    "compression.type": "lz4",
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.kbytes": 128 << 10,
}
_FLUSH_SECONDS = 120.0


class TopicWriter:
    """One producer for several topics of a cluster."""

    def __init__(self, cluster: KafkaCluster) -> None:
        from confluent_kafka import Producer

        self._cluster, self._failed = cluster, list[str]()
        self._producer: Any = cluster.clients.make(Producer, **_SETTINGS)

    def write(self, topic: str, records: Iterable[Record]) -> None:
        """All of them, acknowledged by every replica in sync.

        Raises:
            ServiceError: one was not.
        """
        for record in records:
            self._send(topic, record)
        left = self._producer.flush(_FLUSH_SECONDS)
        self._refuse(topic)
        if left:
            raise ServiceError(f"{topic} at {self._cluster.bootstrap}: {quantity(left, 'record')} not acknowledged in time")

    def _send(self, topic: str, record: Record) -> None:
        headers = list(record.headers) or None
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=headers,
                    on_delivery=self._tell,
                )
                self._producer.poll(0)
                break
            except BufferError:
                self._producer.poll(0.5)
            self._refuse(topic)

    def _tell(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(str(error.str()))

    def _refuse(self, topic: str) -> None:
        self._cluster.clients.refuse()
        if self._failed:
            raise ServiceError(f"{topic} at {self._cluster.bootstrap} does not take a record: {self._failed[0]}")
