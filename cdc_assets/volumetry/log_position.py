"""Carries a point of the source's log along the chain: from "committed before now" to offsets in the lake.

1. A marker is written into the source's log; everything committed before it lies before it.
2. Debezium delivers in commit order, so once the marker is a committed record of the marker topic, the last
   stable offsets of the table topics bound everything committed before it.
3. MirrorMaker 2 commits its source offsets in the same transaction as the records it copied: once no committed
   record lies between its offset and that bound, all of them are in the lake's cluster.
4. They are readable there when the last stable offset has passed what was written by then (high watermark).
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import CaughtUpTimeoutError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from cdc_assets.resources.databases.catalogue import SourceDatabase
from cdc_assets.resources.kafka import KafkaCluster, Offsets
from cdc_assets.volumetry.binlog import await_binlog

if TYPE_CHECKING:
    from cdc_assets.resources.platform_clients import PlatformClients

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class LogPosition:
    """A point of the source's log and the offsets (mirrored topic → partition → offset) that hold all before it."""

    marker: str
    lsn: str
    offsets: Offsets


def carry_to_lake(platform: PlatformClients, source: BaseSource, *, deadline: float) -> LogPosition:
    """Wait until everything committed in the source before the call is readable in the lake's cluster.

    Without a database, the source is what its topics hold at the call. The core's Connect is asked how far a MariaDB's
    connector is. `deadline` in seconds.

    Raises:
        CaughtUpTimeoutError: naming the link that did not follow in time.
    """
    until = time.monotonic() + deadline
    database = platform.database_if_any(source)
    marker = f"position-{uuid.uuid4()}"
    lsn = "none"
    if database is not None:
        lsn = _carry_to_core(source, marker, database, platform.core_kafka(), platform.core_connect(), until)
    return LogPosition(marker, lsn, topics_to_lake(platform, source, until))


def topics_to_lake(platform: PlatformClients, source: BaseSource, until: float) -> Offsets:
    """Wait until what the core's topics hold at the call is readable in the lake's cluster; where it ends there.

    Raises:
        CaughtUpTimeoutError: the mirror did not follow until then (time.monotonic).
    """
    lake = platform.lake_kafka()
    topics = {names.topic(source, table): names.mirrored_topic(source, table) for table in source.tables}
    if names.is_mirrored(source):
        core = platform.core_kafka()
        bounds = {topic: dict(state.ends) for topic, state in core.states(list(topics)).items()}
        _await_mirror(source, core, platform.lake_connect(), bounds, until)
        mirrored = [topics[topic] for topic in bounds]
    else:
        mirrored = list(lake.states(list(topics)))
    written = lake.high_watermarks(mirrored)
    _await(
        lambda: all(
            state.ends.get(p, 0) >= end for name, state in lake.states(mirrored).items() for p, end in written[name].items()
        ),
        until,
        f"{source.name}: a transaction stays open in the lake's cluster at {lake.bootstrap}",
    )
    return written


def await_in_core(
    source: BaseSource,
    *,
    database: SourceDatabase,
    core: KafkaCluster,
    core_connect: ConnectClient | None = None,
    deadline: float = 120.0,
) -> str:
    """Wait until everything committed in the source before the call is in the core cluster's topics; the log position.

    Raises:
        CaughtUpTimeoutError: when the connector did not follow in time.
    """
    return _carry_to_core(source, f"position-{uuid.uuid4()}", database, core, core_connect, time.monotonic() + deadline)


def _carry_to_core(
    source: BaseSource, marker: str, database: SourceDatabase, core: KafkaCluster, connect: ConnectClient | None, until: float
) -> str:
    if isinstance(database, BinlogDatabase):
        assert connect is not None, "a place of a binlog is told by the connector's offsets"
        return await_binlog(source, marker, database, connect, until)
    before = _ends(core, names.marker_topic(source))
    lsn = database.emit_marker(marker)
    _await_marker(core, source, marker, before, until)
    return lsn


def _await_marker(core: KafkaCluster, source: BaseSource, marker: str, before: Mapping[int, int], until: float) -> None:
    topic = names.marker_topic(source)
    read = dict(before)

    def seen() -> bool:
        ends = _ends(core, topic)
        ranges = {p: (read.get(p, 0), end) for p, end in ends.items()}
        found = any(_holds(record.value, marker) for record in core.records(topic, ranges))
        read.update(ends)
        return found

    _await(
        seen,
        until,
        f"{source.name}: the marker written to its log did not arrive in topic {topic}; is connector "
        f"{names.connector_name(source)} running? ./cdc status",
    )


def _await_mirror(source: BaseSource, core: KafkaCluster, connect: ConnectClient, bounds: Offsets, until: float) -> None:
    name = names.mirror_connector_name(source)

    def passed() -> bool:
        at = mirrored_up_to(connect, name)
        for topic, ends in bounds.items():
            ranges = {p: (at.get((topic, p), -1) + 1, end) for p, end in ends.items()}
            if next(core.records(topic, {p: r for p, r in ranges.items() if r[0] < r[1]}), None) is not None:
                return False
        return True

    _await(passed, until, f"{source.name}: the mirror connector {name} did not follow; ./cdc status")


def mirrored_up_to(connect: ConnectClient, name: str) -> dict[tuple[str, int], int]:
    """MirrorMaker 2's committed source offsets: (core topic, partition) → offset of the last record copied."""
    return {
        (entry["partition"]["topic"], int(entry["partition"]["partition"])): int(entry["offset"]["offset"])
        for entry in connect.offsets(name)
        if entry.get("offset")
    }


def _ends(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    state = cluster.states([topic]).get(topic)
    return state.ends if state else {}


def _holds(value: bytes | None, marker: str) -> bool:
    """Whether a record of the marker topic is this marker: its `message.content`, as any binary.handling.mode writes it."""
    if value is None:
        return False
    raw = marker.encode()
    forms = (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex())
    return json.loads(value).get("message", {}).get("content") in forms


def _await(condition: Callable[[], bool], until: float, failure: str) -> None:
    while not condition():
        if time.monotonic() > until:
            raise CaughtUpTimeoutError(failure)
        time.sleep(_POLL_SECONDS)
