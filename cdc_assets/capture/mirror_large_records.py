"""Records of a core topic that MirrorMaker cannot carry: too large for its producer, or for the memory of its worker.

Into the copy goes the record's key, with a sentence of its size and digest in place of its value: silver holds it in quarantine
(spark.events.large_records). MirrorMaker goes on behind it. What lies between MirrorMaker's place and the record is carried from
here: MirrorMaker reads both in one batch, and ends before it has written any. Where a step fails, the records that were
written come again with the next try, and are folded once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from cdc_assets.capture.log_position import mirror_offsets
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import SourceOffset
from cdc_assets.clients.kafka import KafkaCluster, Record, TopicWriter, to_record
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from cdc_assets.stack.components.kafka_broker import MAX_MESSAGE_BYTES
from spark.errors import LeftToSparkError
from spark.events.kafka_messages import assign, client_settings, read_messages
from spark.events.large_records import MOST_BYTES, LargeRecord, find_large_records
from spark.events.record_skim import MOST_UNPACKED, ONE_BY_ONE
from spark.record_formats import LARGE_HEADER
from spark.specs import BronzeSpec, TopicRange

_OVERRIDE = "producer.override.max.request.size"
_OVERHEAD = 4096
"""Bytes that a producer counts beside key and value, headers included."""
_WORKER_SECONDS, _READ_SECONDS = 180.0, 120.0


def find_uncarried(chain: Chain[BaseSource], table: Table) -> list[LargeRecord]:
    """Those that wait for MirrorMaker in the table's topic, by partition and offset.
    Raises ServiceError: the clusters do not answer."""
    core, topic = chain.platform.core_kafka(chain.source.cluster), names.topic(chain.source, table)
    state = core.states([topic]).get(topic)
    if state is None:
        return []
    copied = mirror_offsets(chain.platform.lake_connect(), names.mirror_connector_name(chain.source))
    ranges = {p: (max(begin, copied.get((topic, p), -1) + 1), end) for p, (begin, end) in state.ranges.items()}
    waiting = {p: (start, end) for p, (start, end) in ranges.items() if end > start}
    if not waiting:
        return []
    spec = _spec(core, TopicRange(names.table_name(table), topic, state.topic_id, 0, waiting))
    return find_large_records(spec, spec.topics, most=_most_bytes(chain))


def pass_large_records(chain: Chain[BaseSource], table: Table, say: Say) -> None:
    """Stop the mirror, carry the table's topic up to and over its large records, and let the mirror go on behind them.
    Raises ServiceError: a step failed; it may be asked for again."""
    connect, name = chain.platform.lake_connect(), names.mirror_connector_name(chain.source)
    _stop(connect, name, say)
    try:
        # MirrorMaker may have got further since somebody looked.
        large = find_uncarried(chain, table)
        topic, copied = names.topic(chain.source, table), mirror_offsets(connect, name)
        writer = TopicWriter(chain.platform.lake_kafka())
        alias = chain.source.mirror.alias_of(chain.source.cluster)
        core = chain.platform.core_kafka(chain.source.cluster)
        for partition in sorted({record.partition for record in large}):
            mine = [record for record in large if record.partition == partition]
            start = max(copied.get((topic, partition), -1) + 1, core.states([topic])[topic].ranges[partition][0])
            writer.write(names.lake_topic(chain.source, table), _records(core, start, mine))
            source_partition = {"cluster": alias, "partition": partition, "topic": topic}
            connect.patch_offsets(name, [SourceOffset(source_partition, {"offset": mine[-1].offset})])
            for record in mine:
                say(f"{topic} partition {partition} offset {record.offset}: {record.sentence}")
    finally:
        connect.resume(name)
    connect.wait_running(name)


def _stop(connect: ConnectClient, name: str, say: Say) -> None:
    # A worker that dies of the record listens for some seconds at each start.
    until = time.monotonic() + _WORKER_SECONDS
    while True:
        try:
            connect.stop(name)
        except ServiceError as error:
            if time.monotonic() > until:
                raise
            say(f"{error}: asked again")
        else:
            return


def _most_bytes(chain: Chain[BaseSource]) -> int:
    """Of key and value; what is larger waits in quarantine by another name, where nobody knows what the worker sends."""
    if declared := chain.source.mirror.settings.get(_OVERRIDE):
        return int(str(declared)) - _OVERHEAD
    if settings.is_of_stack(settings.lookup("CDC_LAKE_CONNECT") or ""):
        return MAX_MESSAGE_BYTES - _OVERHEAD
    status = chain.platform.lake_connect().status(names.mirror_connector_name(chain.source))
    bound = status.sends_at_most if status is not None else None
    return MOST_BYTES if bound is None else bound - _OVERHEAD


def _spec(core: KafkaCluster, topic_range: TopicRange) -> BronzeSpec:
    return BronzeSpec("", core.bootstrap, (topic_range,), "", login=core.login)


def _records(core: KafkaCluster, start: int, large: Sequence[LargeRecord]) -> Iterator[Record]:
    """From `start` to the last large record: as they are, and a sentence for each large one."""
    from confluent_kafka import Consumer

    topic, partition = large[0].topic, large[0].partition
    spec = _spec(core, TopicRange("", topic, "", 0, {partition: (start, large[-1].offset)}))
    consumer = Consumer({**client_settings(spec), **ONE_BY_ONE, "receive.message.max.bytes": MOST_UNPACKED})
    try:
        for record in large:
            yield from _between(consumer, topic, partition, (start, record.behind))
            _, _, offset, _, _, key, text = record.row()
            yield Record(partition, offset, record.time or int(time.time() * 1000), key, text, ((LARGE_HEADER, text),))
            start = record.offset + 1
    finally:
        consumer.close()


def _between(consumer: object, topic: str, partition: int, span: tuple[int, int]) -> Iterable[Record]:
    if span[1] <= span[0]:
        return
    ranges = {(topic, partition): span}
    assign(consumer, ranges)
    try:
        for messages in read_messages(consumer, ranges, 1, patience=_READ_SECONDS):
            yield from (to_record(message) for message in messages if message.offset() < span[1])
    except LeftToSparkError as error:
        raise ServiceError(f"{topic} partition {partition} from offset {span[0]}: {error}") from error
