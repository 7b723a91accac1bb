"""Where a mirror goes on, told by records alone: equal times, equal records, control records and topics that end early."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.recovery.lost_topics import last_copied
from cdc_assets.registry.errors import RefusalError

Sent = tuple[str, int]
# Of now, or retention would remove them.
BEGUN = int(time.time() * 1000) - 60_000


@pytest.fixture(scope="module")
def cluster(kafka: str) -> KafkaCluster:
    return KafkaCluster(kafka)


def filled(cluster: KafkaCluster, records: Sequence[Sent], *, of_transactions: int = 0) -> str:
    """A topic with these values and times; with `of_transactions` so many in each, behind which lies a control record."""
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    own = {"transactional.id": topic} if of_transactions else {}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **own})
    if of_transactions:
        producer.init_transactions(60)
    for at, (value, timestamp) in enumerate(records):
        if of_transactions and at % of_transactions == 0:
            producer.begin_transaction()
        producer.produce(topic, value, "k", partition=0, timestamp=BEGUN + timestamp, headers=[("h", b"1")])
        if of_transactions and (at % of_transactions == of_transactions - 1 or at == len(records) - 1):
            producer.commit_transaction(60)
    assert producer.flush(60) == 0
    _await_markers(cluster, topic)
    return topic


def _await_markers(cluster: KafkaCluster, topic: str) -> None:
    """A commit is answered before its markers are in the partitions: until then the last stable offset is before it."""
    until = time.monotonic() + 30
    while cluster.await_state(topic, deadline=30).ends != cluster.high_watermarks([topic])[topic]:
        assert time.monotonic() < until, f"a transaction of {topic} does not end"
        time.sleep(0.05)


def place(cluster: KafkaCluster, original: str, copy: str) -> int | None:
    states = {name: cluster.await_state(name, deadline=30) for name in (original, copy)}
    return last_copied(cluster, states[original], cluster, states[copy])[0]


# Twelve of one millisecond, some of them alike, and a time that goes back.
RECORDS: list[Sent] = [*((f"v{n % 3}", 1000) for n in range(12)), ("late", 900), ("x", 1001), ("x", 1001), ("y", 5000)]


@pytest.mark.parametrize("copied", [1, 5, 12, 13, 14, 15, 16])
def test_the_copy_says_how_far_it_is(cluster: KafkaCluster, copied: int) -> None:
    original = filled(cluster, RECORDS, of_transactions=4)
    copy = filled(cluster, RECORDS[:copied], of_transactions=3)
    # Four records and a control record each.
    assert place(cluster, original, copy) == copied - 1 + (copied - 1) // 4


def test_of_an_empty_copy_nothing_is_copied(cluster: KafkaCluster) -> None:
    assert place(cluster, filled(cluster, RECORDS), filled(cluster, [])) is None
    assert place(cluster, filled(cluster, []), filled(cluster, RECORDS)) is None


def test_an_original_that_ends_before_its_copy_is_copied_to_its_end(cluster: KafkaCluster) -> None:
    assert place(cluster, filled(cluster, RECORDS[:14]), filled(cluster, RECORDS)) == 13


def test_topics_of_other_records_are_refused(cluster: KafkaCluster) -> None:
    other = [("other", 1000), ("other", 6000)]
    with pytest.raises(RefusalError, match="does not hold the last records of its copy"):
        place(cluster, filled(cluster, RECORDS), filled(cluster, other))
