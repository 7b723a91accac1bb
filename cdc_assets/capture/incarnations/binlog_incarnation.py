"""Whether a MariaDB's or MySQL's connector may go on: it is the server that was read, and its binlog still holds what has
not been read.

Files of a binlog are purged, by age or by hand. Nothing is kept at the server for the connector, so a new epoch only makes
its uuid the known one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from cdc_assets.capture.incarnations.server_facts import Known, Memory
from cdc_assets.capture.incarnations.server_verdict import Verdict
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.mysql import MySqlDatabase
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import CapturedSource, Source


def binlog_verdict(files: Sequence[tuple[str, int]], offsets: Sequence[Mapping[str, Any]]) -> Verdict:
    """`files`: name and bytes, oldest first. `offsets` as Connect tells them: without one, or within a first snapshot, nothing
    has been read yet.

    Debezium asks the server for its place only when it starts, and fails then: its task is restarted in vain, and nothing says
    what mends it. A file that was read to its end and then purged counts as a loss: the offset behind its last transaction is
    stored with the next one (ADR 44).
    """
    offset = next((entry["offset"] for entry in offsets if (entry.get("offset") or {}).get("file")), None)
    if offset is None or offset.get("snapshot"):
        return Verdict("same")
    at, sizes = BinlogPosition.of(str(offset["file"]), int(offset["pos"])), dict(files)
    if not sizes:
        return Verdict("other", f"it writes no binlog, and {at.text} is the last that was read")
    first, last = next(iter(sizes)), next(reversed(sizes))
    if at.file in sizes and at.position <= sizes[at.file]:
        return Verdict("same")
    if at.file in sizes or at.number > BinlogPosition.of(last, 0).number:
        text = (
            f"{at.text} has been read, and its binlog ends at {last}:{sizes[last]}: it was reset or restored, or is another one"
        )
        return Verdict("other", text)
    text = f"its binlog begins with {first}, and {at.text} is the last that was read: what was committed between them was purged"
    return Verdict("other", text)


def mariadb_verdict(
    chain: Chain[Source], offsets: Sequence[Mapping[str, Any]] | None = None, known: Known | None = None
) -> Verdict:
    """Asks the server for its files, and Connect for the connector's place, unless `offsets` tell another one.

    Which server it is does not matter (`known`): its files have names of their own.
    """
    opening = Memory.of(chain.source.name).opening
    if opening is not None:
        return Verdict("other", opening.reason)
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    offsets = connect.offsets(name) if offsets is None else offsets
    judged = binlog_verdict(MariaDbDatabase(expect(chain.source.database, MariaDb)).binlog(), offsets)
    if judged.kind == "other" and (status := connect.status(name)) is not None and status.running:
        # What reads has its file open, wherever the offset was stored last.
        return Verdict("same")
    return judged


@dataclass(frozen=True)
class MySqlFacts:
    """The server's identifier, the binlog's files and bytes, and whether it has executed what was read (None: not told).

        server_uuid     another one: a failover, with files and places of its own, also where GTIDs let a connector go on
        gtid_executed   lacks what was read: RESET, or a restore to an earlier moment
        binlog files    purged beyond what was read, or shorter

    The uuid is remembered at the first look (`server_facts.Known.system`).
    """

    uuid: str
    files: Sequence[tuple[str, int]]
    has_read: bool | None = None


def mysql_verdict(
    chain: Chain[CapturedSource],
    offsets: Sequence[Mapping[str, Any]] | None = None,
    known: Known | None = None,
) -> Verdict:
    """Asks the server who it is and for its files, and Connect for the connector's place, unless `offsets` tell another one."""
    memory = Memory.of(chain.source.name)
    if memory.opening is not None:
        return Verdict("other", memory.opening.reason)
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    is_asked_now = offsets is None
    offsets = connect.offsets(name) if offsets is None else offsets
    gtids = next(filter(None, ((entry.get("offset") or {}).get("gtids") for entry in offsets)), "")
    facts = facts_of(MySqlDatabase(expect(chain.source.database, MySql)), str(gtids))
    status = connect.status(name)
    # What reads has its file open, wherever the offset was stored last.
    judged = judge_mysql(facts, offsets, known or memory.known, is_reading=status is not None and status.running)
    if is_asked_now and judged.kind == "same" and memory.known is None:
        remember_uuid(memory, facts.uuid)
    return judged


def judge_mysql(facts: MySqlFacts, offsets: Sequence[Mapping[str, Any]], known: Known | None, *, is_reading: bool) -> Verdict:
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


def remember_uuid(memory: Memory, uuid: str) -> None:
    """Take this server for the one that is known."""
    memory.known = Known(uuid, 0, datetime.now(timezone.utc).isoformat(timespec="seconds"))
    memory.save()


class MySqlEpoch:
    """A new epoch at a MySQL server (server_verdict.ServerEpoch)."""

    def __init__(self, source: CapturedSource) -> None:
        self._database = MySqlDatabase(expect(source.database, MySql))

    def forget(self) -> None:
        """Nothing keeps the connector's place there."""

    def facts(self) -> MySqlFacts:
        """Its uuid and its binlog's files."""
        return facts_of(self._database, "")

    def adopt(self, platform: Platform, memory: Memory, facts: MySqlFacts) -> None:
        """Remember its uuid as the known one."""
        remember_uuid(memory, facts.uuid)
