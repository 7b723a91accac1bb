"""Carries a point of the source's log along the chain: from "committed before now" to offsets in the lake.

1. A marker is written into the source's log; everything committed before it lies before it.
2. Debezium delivers in commit order, so once the marker is a committed record of the marker topic, what is written to the
   table topics by then (high watermark) holds everything committed before it.
3. MirrorMaker 2 commits its source offsets in the same transaction as the records it copied: once no committed
   record lies between its offset and that bound, all of them are in the lake's cluster.
4. They are readable there when the last stable offset has passed what was written by then (high watermark).
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.capture.connectors.debezium_settings import prefix_of
from cdc_assets.clients.connect import ConnectClient, connector_trouble
from cdc_assets.clients.connector_events import event_reader
from cdc_assets.clients.databases.catalogue import SourceDatabase
from cdc_assets.clients.kafka import KafkaCluster, Offsets
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, ServiceError
from cdc_assets.registry.source_declaration import BaseSource
from spark.record_formats import CommitPlace, behind_commit

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.2, 1.0
# MirrorMaker 2 tells its places with each transaction, some seconds; a snapshot of any size goes on meanwhile.
_TOLD_SECONDS, _STANDS_SECONDS = 60.0, 180.0
LOOK_SECONDS = 5.0
Look = Callable[[], str]


@dataclass(frozen=True)
class WaitLimit:
    """Until when to wait (time.monotonic), and who is told what stands in the way."""

    until: float
    say: Say = lambda _: None


@dataclass(frozen=True)
class LogMarker:
    """A marker for the source's log, the database that writes it, and whom to ask whether it has come to the core cluster."""

    source: BaseSource
    name: str
    database: SourceDatabase
    core: KafkaCluster
    connect: ConnectClient | None
    limit: WaitLimit


@dataclass(frozen=True)
class CarriedPlace:
    """A place of the log, for people, and between which commits it lies; None: its first event does not say."""

    lsn: str
    between: CommitPlace | None


@dataclass(frozen=True)
class LogPosition:
    """A point of the source's log and the offsets (mirrored topic → partition → offset) that hold all before it.

    `between` as in CarriedPlace.
    """

    marker: str
    lsn: str
    offsets: Offsets
    between: CommitPlace | None = None


class CaughtUpTimeoutError(CdcAssetsError):
    """The chain did not reach a log position in time.

    Where all has come into the lake but what some core `topics` hold, `reached` is the position of the others.
    """

    def __init__(self, message: str, *, topics: Collection[str] = (), reached: LogPosition | None = None) -> None:
        super().__init__(message)
        self.topics, self.reached = frozenset(topics), reached


def carry_to_lake(
    chain: Chain[BaseSource],
    *,
    deadline: float,
    say: Say = lambda _: None,
    database: SourceDatabase | None = None,
) -> LogPosition:
    """Wait until everything committed in the source before the call is readable in the lake's cluster.

    Without a database, the source is what its topics hold at the call. The core's Connect is asked how far a MariaDB's
    connector is. `deadline` in seconds. `database`: of a source that is not asked elsewhere. `say` is told now and then what
    stands in the way: a connector that does not run.

    Raises CaughtUpTimeoutError: naming the link that did not follow in time; or some topics have not gone on for minutes, and all
    others have come: `reached` is their position.
    """
    until = time.monotonic() + deadline
    database = database or chain.platform.database_if_any(chain.source)
    marker = f"position-{uuid.uuid4()}"
    at = CarriedPlace("none", None)
    if database is not None:
        clients = (chain.platform.core_kafka(chain.source.cluster), chain.platform.core_connect(chain.source.cluster))
        at = _carry_to_core(LogMarker(chain.source, marker, database, *clients, WaitLimit(until, say)))
    return position_in_lake(chain, LogPosition(marker, at.lsn, {}, at.between), WaitLimit(until, say))


def position_in_lake(chain: Chain[BaseSource], place: LogPosition, limit: WaitLimit) -> LogPosition:
    """A place that has come to the core's topics, with the offsets that hold all before it in the lake.
    Raises CaughtUpTimeoutError: as `topics_to_lake`."""
    try:
        return replace(place, offsets=topics_to_lake(chain, limit.until, limit.say))
    except CaughtUpTimeoutError as error:
        if error.reached is not None:
            error.reached = replace(place, offsets=error.reached.offsets)
        raise


def topics_to_lake(chain: Chain[BaseSource], until: float, say: Say = lambda _: None) -> Offsets:
    """Wait until what the core's topics hold at the call is readable in the lake's cluster; where it ends there.
    Raises CaughtUpTimeoutError: the mirror did not follow until then (time.monotonic); or some topics have not gone on for
    minutes, and all others are there: `reached` has their offsets alone."""
    lake = chain.platform.lake_kafka()
    topics = {names.topic(chain.source, table): names.lake_topic(chain.source, table) for table in chain.source.tables}
    if names.is_mirrored(chain.source):
        core = chain.platform.core_kafka(chain.source.cluster)
        bounds = _await_written(chain.source, core, list(core.states(list(topics))), until)
        standing = _await_mirror(chain.source, core, chain.platform.lake_connect(), bounds, WaitLimit(until, say))
        mirrored = [topics[topic] for topic in bounds if topic not in standing]
    else:
        standing, mirrored = frozenset(), list(lake.states(list(topics)))
    offsets = _await_written(chain.source, lake, mirrored, until)
    if standing:
        reached = LogPosition("", "", offsets)
        raise CaughtUpTimeoutError(_not_in_the_lake(chain.source, standing), topics=standing, reached=reached)
    return offsets


def _await_written(source: BaseSource, cluster: KafkaCluster, topics: list[str], until: float) -> Offsets:
    """Where the topics end by what is written to them by now, once all of it is committed.

    Kafka ends a transaction in one partition after another. So a record may be readable while an earlier one of the same
    transaction is not yet, in another partition, and the last stable offsets of that moment do not bound what lies before it.
    """
    written = cluster.high_watermarks(topics)
    _await(
        lambda: all(
            state.ends.get(p, 0) >= end for name, state in cluster.states(topics).items() for p, end in written[name].items()
        ),
        until,
        f"{source.name}: a transaction stays open in the cluster at {cluster.bootstrap}",
    )
    return written


def await_in_core(
    source: BaseSource,
    *,
    database: SourceDatabase,
    core: KafkaCluster,
    core_connect: ConnectClient | None = None,
    deadline: float = 120.0,
    say: Say = lambda _: None,
) -> str:
    """Wait until everything committed in the source before the call is in the core cluster's topics; the log position.
    Raises CaughtUpTimeoutError: when the connector did not follow in time."""
    limit = WaitLimit(time.monotonic() + deadline, say)
    return _carry_to_core(LogMarker(source, f"position-{uuid.uuid4()}", database, core, core_connect, limit)).lsn


def _carry_to_core(marker: LogMarker) -> CarriedPlace:
    from cdc_assets.capture.kind_capture import capture_of

    carry = capture_of(marker.source).carry
    assert carry is not None, marker.source.kind_name
    return carry(marker)


def carry_by_marker(marker: LogMarker) -> CarriedPlace:
    """Write a marker into the log and wait until it is in its topic; its place.
    Raises CaughtUpTimeoutError: it did not come in time."""
    topic = names.marker_topic(marker.source)
    read = _ends(marker.core, topic)
    lsn = marker.database.emit_marker(marker.name, _prefix(marker))
    markers: list[Mapping[str, Any]] = []
    event = event_reader(marker.source)

    def has_come() -> bool:
        ends = _ends(marker.core, topic)
        ranges = {p: (read.get(p, 0), end) for p, end in ends.items()}
        events = (event(record.value) for record in marker.core.records(topic, ranges))
        markers.extend(event for event in events if _holds(event, marker.name))
        read.update(ends)
        return bool(markers)

    _await(
        has_come,
        marker.limit.until,
        f"{marker.source.name}: the marker written to its log did not arrive in topic {topic}; ./cdc status",
        connector_look(marker.limit.say, marker.connect, names.connector_name(marker.source)),
    )
    return CarriedPlace(lsn, _commit_before(markers[0]))


def _prefix(marker: LogMarker) -> str:
    if marker.connect is None:
        return names.MARKER_PREFIX
    return prefix_of(marker.connect.config(names.connector_name(marker.source)))


def _await_mirror(
    source: BaseSource, core: KafkaCluster, connect: ConnectClient, bounds: Offsets, limit: WaitLimit
) -> frozenset[str]:
    """Wait until the mirror has copied up to these bounds; topics that stand, once all others are copied."""
    name = names.mirror_connector_name(source)
    look, rest, denied = connector_look(limit.say, connect, name), _Rest(), set[str]()

    def has_passed() -> bool:
        at = mirror_offsets(connect, name)
        # One read of all topics: one of each takes 0.1 s to find that there is nothing, which is 8 s for 76 topics.
        left = {t: {p: (at.get((t, p), -1) + 1, end) for p, end in ends.items()} for t, ends in bounds.items() if t not in denied}
        try:
            if next(core.records_of(left), None) is None:
                return True
        except ServiceError as error:
            if not error.topic:
                raise
            # Whether the mirror has copied it cannot be told, and nobody waits for what may never come.
            denied.add(error.topic)
            limit.say(f"{source.name}: {error}")
            return False
        if rest.look({t: tuple(first for first, _ in ends.values()) for t, ends in left.items()}):
            if look():
                # One that does not run has told why, and its topics stand for that.
                rest.begin()
                return False
            rest.topics = frozenset(t for t, ends in left.items() if next(core.records_of({t: ends}), None) is not None)
            limit.say(_not_in_the_lake(source, rest.topics))
        return rest.is_over

    _await(has_passed, limit.until, f"{source.name}: the mirror connector {name} did not follow; ./cdc status", look)
    return (rest.topics if rest.is_over else frozenset()) | denied


@dataclass
class _Rest:
    """For how long no topic's place has changed; `topics`: those with records that are not copied, as of the last full minute."""

    topics: frozenset[str] = frozenset()
    _places: Mapping[str, object] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)
    _told: int = 0

    def begin(self) -> None:
        """The time counts from now on."""
        self._since, self._told = time.monotonic(), 0

    def look(self, places: Mapping[str, object]) -> bool:
        """Whether another minute is full."""
        if places != self._places:
            self._places = places
            self.begin()
        minutes = int((time.monotonic() - self._since) // _TOLD_SECONDS)
        is_due, self._told = minutes > self._told, minutes
        return is_due

    @property
    def is_over(self) -> bool:
        return bool(self.topics) and self._told * _TOLD_SECONDS >= _STANDS_SECONDS


def _not_in_the_lake(source: BaseSource, topics: Collection[str]) -> str:
    """What is told of topics that the mirror's connector does not go on with, while it runs."""
    name = names.mirror_connector_name(source)
    copies = ", ".join(names.lake_topic(source, table) for table in source.tables if names.topic(source, table) in topics)
    return (
        f"{source.name}: {name} runs, and nothing new of {', '.join(sorted(topics))} has come to the lake. "
        f"May its login read there, and create and write {copies} here? "
        "The log of the lake's Connect has its last error (cdc logs lake-connect)"
    )


def mirror_offsets(connect: ConnectClient, name: str) -> dict[tuple[str, int], int]:
    """MirrorMaker 2's committed source offsets: (core topic, partition) → offset of the last record copied."""
    return {
        (entry["partition"]["topic"], int(entry["partition"]["partition"])): int(entry["offset"]["offset"])
        for entry in connect.offsets(name)
        if entry.get("offset")
    }


def _ends(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    state = cluster.states([topic]).get(topic)
    return state.ends if state else {}


def _holds(event: Mapping[str, Any], marker: str) -> bool:
    """Whether a record of the marker topic is this marker: its `message.content`, as any binary.handling.mode writes it."""
    raw = marker.encode()
    forms = (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex())
    return (event.get("message") or {}).get("content") in forms


def _commit_before(event: Mapping[str, Any]) -> CommitPlace | None:
    """The marker is a transaction of its own, and its event tells the commit that was streamed before it."""
    try:
        last = json.loads(event["source"]["sequence"])[0]
    except (KeyError, TypeError, ValueError):
        return None
    return None if last is None else behind_commit(int(last))


def connector_look(say: Say, connect: ConnectClient | None, name: str) -> Look:
    """Asks Connect why nothing comes, and tells it at once: a stopped connector does not go on by being waited for."""

    def look() -> str:
        try:
            trouble = connector_trouble(connect, name) if connect is not None else ""
        except CdcAssetsError as error:
            trouble = str(error)
        if trouble:
            say(trouble)
        return trouble

    return look


def _await(condition: Callable[[], bool], until: float, failure: str, look: Look = lambda: "") -> None:
    pause, looked = _FIRST_POLL_SECONDS, time.monotonic()
    while not condition():
        if time.monotonic() > until:
            raise CaughtUpTimeoutError("; ".join(filter(None, (failure, look()))))
        if time.monotonic() > looked + LOOK_SECONDS:
            look()
            looked = time.monotonic()
        time.sleep(pause)
        # What has not come within a second may take minutes: each question costs the clusters as much as us.
        pause = min(_LONGEST_POLL_SECONDS, 1.3 * pause)
