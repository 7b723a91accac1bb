"""Opens a new epoch of a source: what its server is now, read whole, behind everything that it was before.

1. stop     the connector is stopped; what it has sent until now is of the epoch that ends
2. bound    all of that is in the lake's topics: where they end now, the old epoch ends
3. forget   slot (PostgreSQL) and offsets are gone, they are of another log
4. read     the connector runs again, and reads every table whole, then streams
5. append   bronze has the rest of the old epoch, and of the new one everything; silver drops what has no event in it
            (spark.silver.batch.SilverRun.floor)
6. adopt    this server is the one that is known

Killed anywhere, the next call goes on behind the reading, or begins anew before its end; until the last step nobody else reads
a topic beyond its bound (assets.bronze_append.look). Bronze keeps every event, the backup every object: an epoch is a
part of their names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Protocol

from cdc_assets import names
from cdc_assets.connectors.beginning import begin_anew, is_beginning
from cdc_assets.connectors.capture import capture_config
from cdc_assets.connectors.first_snapshot import resume_connector
from cdc_assets.connectors.owner import refuse_write
from cdc_assets.connectors.unchanged_value import settle
from cdc_assets.errors import IncarnationError
from cdc_assets.identity.memory import Memory, Opening
from cdc_assets.kinds import kind_of
from cdc_assets.onboarding.state import only_one
from cdc_assets.preflight.capturable import without_uncapturable
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.volumetry.log_position import carry_to_lake, topics_to_lake

STEPS = {
    "stop": "stop the connector",
    "bound": "wait until all that it has sent is in the lake's topics, and write down where they end",
    "forget": "drop its slot and forget its offsets: they are of another log",
    "read": "let it run: it reads every table whole",
    "append": "bring bronze to the end of the old epoch, and the new one into it",
    "adopt": "take this server for the one that is known",
}
Append = Callable[[Platform, CapturedSource, Mapping[str, int], Mapping[str, Mapping[int, int]]], None]
Say = Callable[[str], None]
_DEADLINE_SECONDS = 24 * 3600.0


class ServerEpoch(Protocol):
    """What a new epoch does at the server itself."""

    def forget(self) -> None:
        """What keeps the connector's place there is gone."""

    def facts(self) -> Any:
        """What the server is now."""

    def adopt(self, platform: Platform, memory: Memory, facts: Any) -> None:
        """Take it, as `facts` told it, for the one that is known; writes `memory`."""


def begin_epoch(platform: Platform, source: CapturedSource, reason: str, append: Append, say: Say) -> dict[str, int]:
    """The new epoch of each topic. `append(platform, source, epochs, bounds)` brings bronze there.

    Raises:
        IncarnationError: the source is declared without a reading of its tables.
        CdcAssetsError: a step failed; the next call goes on with it.
    """
    if source.capture.snapshot == "no_data":
        raise IncarnationError(
            f"source {source.name} is declared with capture.snapshot: no_data, and a new epoch begins with every table read "
            "whole; declare initial, or capture the server under another source name"
        )
    refuse_write(source, f"cdc repair source {source.name}")
    with only_one(source.name), ExitStack() as locks:
        for table in sorted(source.tables, key=lambda table: table.name):
            locks.enter_context(table_lock("bronze", source.name, names.table_name(table)))
        memory = Memory.of(source.name)
        if memory.opening is None or "read" not in memory.opening.done:
            # Rows of a reading that did not come to its end may be of rows deleted since: they belong to the old epoch.
            memory.opening = Opening(memory.opening.reason if memory.opening else reason)
            memory.save()
        for step, run in _RUN.items():
            if step not in memory.opening.done:
                say(STEPS[step])
                run(platform, source, memory.opening)
                memory.opening.done.append(step)
                memory.save()
        say(STEPS["append"])
        append(platform, source, memory.opening.epochs, memory.opening.bounds)
        return _adopt_server(platform, source, memory)


def _stop(platform: Platform, source: CapturedSource, opening: Opening) -> None:
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    if connect.config(name) is not None:
        connect.stop(name)


def _record_bounds(platform: Platform, source: CapturedSource, opening: Opening) -> None:
    ends = topics_to_lake(platform, source, time.monotonic() + _DEADLINE_SECONDS)
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    known = committed.topics if committed else {}
    opening.bounds = {topic: dict(at) for topic, at in ends.items()}
    opening.epochs = {topic: (known[topic].epoch if topic in known else 0) + 1 for topic in ends}


def _forget(platform: Platform, source: CapturedSource, opening: Opening) -> None:
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    at_server = _epoch_of(source)
    if at_server:
        at_server.forget()
    if connect.config(name) is not None:
        connect.stop(name)
        connect.reset_offsets(name)


def _read(platform: Platform, source: CapturedSource, opening: Opening) -> None:
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    found = connect.config(name)
    config = settle(capture_config(without_uncapturable(platform, source, found)), found)
    if found is None or is_beginning(found):
        begin_anew(connect, config)  # whoever has deleted it has left the offsets of the old log
    else:
        connect.put_config(config["name"], config)
        resume_connector(connect, config["name"])
    connect.wait_running(config["name"])
    # The marker lies behind the whole reading.
    carry_to_lake(platform, source, deadline=_DEADLINE_SECONDS, database=platform.database(source))


def _adopt_server(platform: Platform, source: CapturedSource, memory: Memory) -> dict[str, int]:
    assert memory.opening is not None
    epochs = memory.opening.epochs
    at_server = _epoch_of(source)
    facts = at_server.facts() if at_server else None
    memory.opening = None
    if at_server:
        at_server.adopt(platform, memory, facts)
    else:
        memory.save()
    return epochs


def _epoch_of(source: CapturedSource) -> ServerEpoch | None:
    part = kind_of(source).epoch
    found: ServerEpoch | None = part.load()(source) if part else None
    return found


_RUN: Mapping[str, Callable[[Platform, CapturedSource, Opening], None]] = {
    "stop": _stop,
    "bound": _record_bounds,
    "forget": _forget,
    "read": _read,
}
