"""Whether a MySQL's connector may go on: it is the server that was read, and its binlog goes on from there.

    server_uuid     another one: a failover, with files and places of its own, also where GTIDs let a connector go on
    gtid_executed   lacks what was read: RESET, or a restore to an earlier moment
    binlog files    purged beyond what was read, or shorter

The uuid is remembered at the first look (memory.Known.system).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from cdc_assets import names
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.memory import Known, Memory
from cdc_assets.identity.purged_binlog import binlog_verdict
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.mysql import MySqlDatabase
from cdc_assets.resources.platform import Platform


@dataclass(frozen=True)
class MySqlFacts:
    """The server's identifier, the binlog's files and bytes, and whether it has executed what was read (None: not told)."""

    uuid: str
    files: Sequence[tuple[str, int]]
    has_read: bool | None = None


def verdict(
    platform: Platform,
    source: CapturedSource,
    offsets: Sequence[Mapping[str, Any]] | None = None,
    known: Known | None = None,
) -> Verdict:
    """Asks the server who it is and for its files, and Connect for the connector's place, unless `offsets` tell another one."""
    memory = Memory.of(source.name)
    if memory.opening is not None:
        return Verdict("other", memory.opening.reason)
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    is_asked_now = offsets is None
    offsets = connect.offsets(name) if offsets is None else offsets
    facts = facts_of(MySqlDatabase(expect(source.database, MySql)), _gtids(offsets))
    status = connect.status(name)
    # What reads has its file open, wherever the offset was stored last.
    found = judge(facts, offsets, known or memory.known, is_reading=status is not None and status.running)
    if is_asked_now and found.kind == "same" and memory.known is None:
        remember(memory, facts.uuid)
    return found


def judge(facts: MySqlFacts, offsets: Sequence[Mapping[str, Any]], known: Known | None, *, is_reading: bool) -> Verdict:
    """What the facts say; `is_reading`: the connector runs."""
    if known is not None and known.system != facts.uuid:
        return Verdict("other", f"its server_uuid is {facts.uuid}, and {known.system} was read: it failed over or was replaced")
    if facts.has_read is False:
        text = "it has not executed all transactions that were read (gtid_executed): it was reset, restored, or failed over"
        return Verdict("other", text)
    return Verdict("same") if is_reading else binlog_verdict(facts.files, offsets)


def facts_of(database: MySqlDatabase, gtids: str) -> MySqlFacts:
    """What the server says; `gtids` are those that were read, or empty."""
    with database.connection() as cursor:
        cursor.execute("SELECT @@server_uuid, GTID_SUBSET(%s, @@global.gtid_executed)", [gtids])
        uuid, has_read = cursor.fetchone()
    return MySqlFacts(str(uuid), database.binlog(), bool(has_read) if gtids else None)


def remember(memory: Memory, uuid: str) -> None:
    """Take this server for the one that is known."""
    memory.known = Known(uuid, 0, (), datetime.now(timezone.utc).isoformat(timespec="seconds"))
    memory.save()


def _gtids(offsets: Sequence[Mapping[str, Any]]) -> str:
    return next((str(found) for entry in offsets if (found := (entry.get("offset") or {}).get("gtids"))), "")
