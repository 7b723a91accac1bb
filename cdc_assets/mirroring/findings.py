"""What can be wrong with a mirrored topic, from one look at it and what the look before saw. Pure: no cluster is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cdc_assets.mirroring.memory import SeenTopic
from cdc_assets.quantity import quantity
from cdc_assets.resources.kafka import TopicState

Kind = Literal["lost", "recreated", "truncated", "partitions", "absent", "expiring", "open", "halted"]
# The copy may have read a range before it was removed: (partition, next offset then, begin now) → records of it that were copied.
# At a first look nobody counts: whether there are any.
CopiedOf = Callable[[int, int, int], int]


@dataclass(frozen=True)
class MirrorFinding:
    """One thing that is wrong; `lost` is `[from, to]`, both included, in offsets of the core topic."""

    kind: Kind
    partition: int | None
    lost: tuple[int, int] | None
    message: str

    @property
    def red(self) -> bool:
        """Records are lost or in doubt; else they are only in danger."""
        return self.kind not in ("expiring", "open", "halted")

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the memory."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> MirrorFinding:
        """The finding that `to_json` wrote."""
        lost = document["lost"]
        return cls(document["kind"], document["partition"], None if lost is None else (lost[0], lost[1]), document["message"])


def losses(state: TopicState, copied: Mapping[int, int], seen: SeenTopic | None, copied_of: CopiedOf) -> list[MirrorFinding]:
    """What contradicts a whole copy; `copied` is the core offset of the last record copied, per partition."""
    if seen is not None and seen.id != state.topic_id:
        message = (
            f"topic {state.name} was deleted and made again (id {seen.id}, now {state.topic_id}): what the old one held "
            f"beyond offsets {seen.next} was never copied, and MirrorMaker's offsets are those of the old one"
        )
        return [MirrorFinding("recreated", None, None, message)]
    found = []
    for partition, (begin, end) in sorted(state.ranges.items()):
        before = seen.next.get(partition) if seen else None
        upto = copied.get(partition, -1) + 1
        at = max(upto, before or 0)
        if seen and before is None:
            message = (
                f"topic {state.name} has grown: partition {partition} is new. Keys may have moved to it, so their events "
                "have no order across the change"
            )
            found.append(MirrorFinding("partitions", partition, None, message))
        if end < at:
            message = (
                f"topic {state.name} partition {partition} ends at offset {end}, and was copied up to {at - 1}: it was truncated"
            )
            found.append(MirrorFinding("truncated", partition, (end, at - 1), message))
        # A first look cannot know that the one offset behind the last record held the marker of its transaction, as it always
        # does where the producer is exactly-once; the topic of a table that is idle for as long as the retention looks like that.
        elif begin > at and (seen or (upto and begin > at + 1)):
            found.append(_lost(state.name, partition, at, begin - 1))
        elif seen is None and begin > 0 and not copied_of(partition, 0, begin):
            found.append(_lost(state.name, partition, 0, begin - 1))
        elif before is not None and before < begin <= upto and not copied_of(partition, before, begin):
            found.append(_lost(state.name, partition, before, begin - 1))
    return found


def expiring(topic: str, partition: int, *, oldest_ms: int, records: int, retention_ms: int, now_ms: int) -> MirrorFinding | None:
    """Records that wait for their copy and have less than half of the retention left; `records` is an upper bound."""
    left = oldest_ms + retention_ms - now_ms
    if retention_ms < 0 or left > retention_ms / 2:
        return None
    message = (
        f"topic {topic} partition {partition}: the oldest of up to {quantity(records, 'record')} not copied yet expires in "
        f"{max(0, left) / 1000:.0f} s (retention {retention_ms / 1000:.0f} s)"
    )
    return MirrorFinding("expiring", partition, None, message)


def transaction_holds(topics: Mapping[str, TopicState], written: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """`"<topic> <partition>"` to the offset at which an open transaction holds readers back; `written` was asked for before."""
    return {
        f"{name} {partition}": end
        for name, state in topics.items()
        for partition, (_, end) in state.ranges.items()
        if written.get(name, {}).get(partition, 0) > end
    }


def still_open(held: Mapping[str, int], seen: SeenTopic | None) -> list[MirrorFinding]:
    """Those of the look before: a transaction that is open for as long is hanging, or its producer is.

    Kafka ends it after `transaction.timeout.ms` (15 minutes at most), except where it has lost sight of it (KIP-664).
    """
    found = []
    for place, offset in sorted(held.items()):
        if seen is not None and seen.held.get(place) == offset:
            topic, _, partition = place.rpartition(" ")
            message = (
                f"topic {topic} partition {partition}: a transaction that began at offset {offset} is open since the last look; "
                "no reader of committed records gets past it: kafka-transactions.sh find-hanging, then abort"
            )
            found.append(MirrorFinding("open", int(partition), None, message))
    return found


def finding_of_halt(connector: str, state: str) -> MirrorFinding:
    """Nothing is copied meanwhile, and nothing is lost yet."""
    then = f"cdc restart {connector}" if state == "FAILED" else f"cdc resume {connector}"
    return MirrorFinding(
        "halted", None, None, f"connector {connector} is {state}: nothing is copied; when that is mended or over: {then}"
    )


def _lost(topic: str, partition: int, start: int, last: int) -> MirrorFinding:
    message = f"topic {topic} partition {partition}: offsets {start} to {last} were removed before MirrorMaker copied them"
    return MirrorFinding("lost", partition, (start, last), message)
