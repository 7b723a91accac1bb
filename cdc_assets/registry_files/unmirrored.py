"""Topics that MirrorMaker 2 never copies, whatever its filter says, or copies under another name: refused where declared.

As its connector decides (4.3.1, `MirrorSourceConnector.shouldReplicateTopic`, `ReplicationPolicy.isInternalTopic`,
`IdentityReplicationPolicy.looksLikeHeartbeat`). It says nothing of what it leaves out: whoever awaits the copy waits for good.
https://github.com/apache/kafka/tree/4.3.1/connect/mirror
"""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.registry.models import BaseSource

_HEARTBEATS = "heartbeats"


def find_unmirrored(source: BaseSource) -> Iterator[tuple[int, str]]:
    """The index of each table whose topic has no copy of its name, and why."""
    if not names.is_mirrored(source):
        return
    for index, table in enumerate(source.tables):
        topic = names.topic(source, table)
        if why := _refusal(source, topic):
            yield index, f"MirrorMaker 2 {why}, got topic {topic!r}; give it another name, or take it out of this file"


def _refusal(source: BaseSource, topic: str) -> str:
    alias, is_identity = source.mirror.alias_of(source.cluster), source.topics.replication == "identity"
    if topic.startswith(("__", ".")):
        return "takes a topic whose name begins with '__' or '.' for Kafka's own, and never copies it"
    if topic.endswith(".checkpoints.internal") or (topic.startswith("mm2") and topic.endswith(".internal")):
        return "takes 'mm2….internal' and '….checkpoints.internal' for its own topics, and never copies them"
    if is_identity and topic.endswith(_HEARTBEATS):
        return f"calls the copy {alias}.{topic} although replication is identity: a name that ends in '{_HEARTBEATS}' is its own"
    if is_identity and alias == names.LAKE:
        return f"takes every topic for one that came from the lake where mirror.alias is {alias!r} and replication identity"
    if not is_identity and _is_cycle(topic):
        return (
            f"takes a topic with the part {names.LAKE!r} before its last dot for one that came from the lake, and never copies it"
        )
    return ""


def _is_cycle(topic: str) -> bool:
    """Whether one of the clusters that a name tells, each before a dot, is the lake's. Java's `split` leaves out empty ends."""
    while "." in topic.rstrip("."):
        cluster, _, topic = topic.partition(".")
        if cluster == names.LAKE:
            return True
    return False
