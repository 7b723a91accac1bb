"""A source whose server is another incarnation: refused, or read again in a new epoch, as the registry says (`on_gap`).

The new epoch holds what the server is now, read whole, behind everything that it was before. Killed anywhere, the next call
goes on behind the reading, or begins anew before its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from cdc_assets.capture.connectors.connector_inventory import refuse_write
from cdc_assets.capture.connectors.connector_restart import resume_connector
from cdc_assets.capture.connectors.connector_start import begin_anew, is_beginning
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.setting_overrides import settle
from cdc_assets.capture.incarnations.server_facts import Memory, Opening
from cdc_assets.capture.incarnations.server_verdict import ServerEpoch, refusal, stop_connector, verdict
from cdc_assets.capture.kind_capture import capture_of
from cdc_assets.capture.log_position import carry_to_lake, topics_to_lake
from cdc_assets.capture.onboarding.onboarding_state import only_one
from cdc_assets.capture.preflight.capturable_tables import without_uncapturable
from cdc_assets.chain.bronze_append import append_epochs
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import CapturedSource

STEPS = {
    "stop": "stop the connector",
    "bound": "wait until all that it has sent is in the lake's topics, and write down where they end",
    "forget": "drop its slot and forget its offsets: they are of another log",
    "read": "let it run: it reads every table whole",
    "append": "bring bronze to the end of the old epoch, and the new one into it",
    "adopt": "take this server for the one that is known",
}
AppendEpochs = Callable[[Chain[CapturedSource], Mapping[str, int], Mapping[str, Mapping[int, int]]], None]
_DEADLINE_SECONDS = 24 * 3600.0


def begin_epoch(chain: Chain[CapturedSource], reason: str, append: AppendEpochs, say: Say) -> dict[str, int]:
    """The new epoch of each topic. `append(chain, epochs, bounds)` brings bronze there.
    Raises RefusalError: the source is declared without a reading of its tables; CdcAssetsError: a step failed; the next call goes
    on with it."""
    if chain.source.capture.snapshot == "no_data":
        raise RefusalError(
            f"source {chain.source.name} is declared with capture.snapshot: no_data, and a new epoch begins with every "
            "table read whole; declare initial, or capture the server under another source name"
        )
    refuse_write(chain.source, f"cdc repair source {chain.source.name}")
    with only_one(chain.source.name), ExitStack() as locks:
        for table in sorted(chain.source.tables, key=lambda table: table.name):
            locks.enter_context(table_lock("bronze", chain.source.name, names.table_name(table)))
        memory = Memory.of(chain.source.name)
        if memory.opening is None or "read" not in memory.opening.done:
            # Rows of a reading that did not come to its end may be of rows deleted since: they belong to the old epoch.
            memory.opening = Opening(memory.opening.reason if memory.opening else reason)
            memory.save()
        for step, run in _RUN.items():
            if step not in memory.opening.done:
                say(STEPS[step])
                run(chain, memory.opening)
                memory.opening.done.append(step)
                memory.save()
        say(STEPS["append"])
        append(chain, memory.opening.epochs, memory.opening.bounds)
        return _adopt_server(chain, memory)


def _stop(chain: Chain[CapturedSource], opening: Opening) -> None:
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    if connect.config(name) is not None:
        connect.stop(name)


def _record_bounds(chain: Chain[CapturedSource], opening: Opening) -> None:
    ends = topics_to_lake(chain, time.monotonic() + _DEADLINE_SECONDS)
    committed = bronze_committed(chain.bronze_path)
    topics_known = committed.topics if committed else {}
    opening.bounds = {topic: dict(at) for topic, at in ends.items()}
    opening.epochs = {topic: (topics_known[topic].epoch if topic in topics_known else 0) + 1 for topic in ends}


def _forget(chain: Chain[CapturedSource], opening: Opening) -> None:
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    at_server = _epoch_of(chain.source)
    if at_server:
        at_server.forget()
    if connect.config(name) is not None:
        connect.stop(name)
        connect.reset_offsets(name)


def _read(chain: Chain[CapturedSource], opening: Opening) -> None:
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    running = connect.config(name)
    config = settle(capture_config(without_uncapturable(chain, running)), running)
    if running is None or is_beginning(running):
        begin_anew(connect, config)  # whoever has deleted it has left the offsets of the old log
    else:
        connect.put_config(config["name"], config)
        resume_connector(connect, config["name"])
    connect.wait_running(config["name"])
    # The marker lies behind the whole reading.
    carry_to_lake(chain, deadline=_DEADLINE_SECONDS, database=chain.platform.database(chain.source))


def _adopt_server(chain: Chain[CapturedSource], memory: Memory) -> dict[str, int]:
    assert memory.opening is not None
    epochs = memory.opening.epochs
    at_server = _epoch_of(chain.source)
    facts = at_server.facts() if at_server else None
    memory.opening = None
    if at_server:
        at_server.adopt(chain.platform, memory, facts)
    else:
        memory.save()
    return epochs


def _epoch_of(source: CapturedSource) -> ServerEpoch | None:
    epoch = capture_of(source).epoch
    return None if epoch is None else epoch(source)


_RUN: Mapping[str, Callable[[Chain[CapturedSource], Opening], None]] = {
    "stop": _stop,
    "bound": _record_bounds,
    "forget": _forget,
    "read": _read,
}


def apply_on_gap(chain: Chain[CapturedSource], say: Say) -> Mapping[str, int]:
    """The epochs that were opened by topic; empty where the server is the one that was read.
    Raises RefusalError: it is another one, and the source is declared to wait for a person; its connector is stopped by now."""
    judged = verdict(chain)
    if judged.kind != "other":
        return {}
    stop_connector(chain)
    if chain.source.topics.on_gap == "fail":
        raise RefusalError(refusal(chain.source, judged))
    say(refusal(chain.source, judged))
    return open_epoch(chain, judged.reason, say)


def open_epoch(chain: Chain[CapturedSource], reason: str, say: Say) -> Mapping[str, int]:
    """Open it, with bronze in it.

    1. stop     the connector is stopped; what it has sent until now is of the epoch that ends
    2. bound    all of that is in the lake's topics: where they end now, the old epoch ends
    3. forget   slot (PostgreSQL) and offsets are gone, they are of another log
    4. read     the connector runs again, and reads every table whole, then streams
    5. append   bronze has the rest of the old epoch, and of the new one everything; silver drops what has no event in it
       `(spark.silver.keyed_batch.SilverRun.floor)`
    6. adopt    this server is the one that is known

    Killed anywhere, the next call goes on behind the reading, or begins anew before its end; until the last step nobody else
    reads a topic beyond its bound (chain.bronze_append.look). Bronze keeps every event, the backup every object: an epoch is a
    part of their names.
    """
    return begin_epoch(chain, reason, partial(append_epochs, say=say), say)
