"""The rules of a PostgreSQL source: pure, from facts to findings. Evidence: docs/how-to/preflight.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdc_assets.preflight.finding import Finding
from cdc_assets.preflight.postgresql_facts import PostgresFacts
from cdc_assets.preflight.postgresql_publication import publication_findings
from cdc_assets.preflight.postgresql_slot import slot_findings
from cdc_assets.preflight.postgresql_tables import table_findings
from cdc_assets.registry.models import Source
from spark.delta.identifiers import double_quote


def findings(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    """Every rule, those that hold included."""
    yield from _server(source, facts)
    yield from slot_findings(source, facts)
    yield from publication_findings(source, facts)
    for table in source.tables:
        yield from table_findings(table, facts)


def _server(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    server = facts.server
    if server["wal_level"] != "logical":
        message = f"wal_level is {server['wal_level']}: the log does not hold what logical decoding needs"
        yield Finding("wal_level", "fail", "server", message, "ALTER SYSTEM SET wal_level = 'logical'; then restart the server")
    else:
        yield Finding("wal_level", "ok", "server", "wal_level is logical")
    if not (server["replication"] or server["superuser"]):
        mend = f"ALTER ROLE {double_quote(server['user'])} REPLICATION"
        yield Finding("role", "fail", "server", f"role {server['user']} may not open a replication connection", mend)
    else:
        yield Finding("role", "ok", "server", f"role {server['user']} may replicate")
    if server["standby"] and server["version"] < 160000:
        message = "this server is a standby, and decodes only from version 16 on"
        yield Finding("standby", "fail", "server", message, "point the source's host at the primary")
    yield _messages(server)
    yield _limit(facts, "slots", "max_replication_slots", needed=facts.slot is None)
    busy = facts.slot is not None and facts.slot["active"]
    yield _limit(facts, "senders", "max_wal_senders", needed=not busy)


def _messages(server: dict[str, Any]) -> Finding:
    """Who may write into the log: a message of 200 MB of anybody ends the worker that reads it, and all its sources."""
    found, role = server["messages"], double_quote(server["user"])
    if found["own"]:
        message = f"role {server['user']} may not call pg_logical_emit_message: no heartbeat and no marker is written"
        mend = f"GRANT EXECUTE ON FUNCTION {', '.join(found['own'])} TO {role}"
        return Finding("messages", "fail", "server", message, mend)
    if found["public"]:
        message = (
            "everybody may call pg_logical_emit_message: a message of 200 MB of any role ends the worker with all its sources"
        )
        functions = ", ".join(found["public"])
        mend = f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC; GRANT EXECUTE ON FUNCTION {functions} TO {role}"
        return Finding("messages", "warn", "server", message, mend)
    return Finding("messages", "ok", "server", f"role {server['user']} may write messages into the log, and not everybody")


def _limit(facts: PostgresFacts, used: str, setting: str, *, needed: bool) -> Finding:
    server = facts.server
    free = server[setting] - server[used]
    message = f"{server[used]} of {server[setting]} {used} are used"
    if not needed or free >= 1:
        return Finding(setting, "ok", "server", message)
    idle = server["idle_slots"] if used == "slots" else {}
    message += ", and the connector needs one" + (f"; idle: {', '.join(sorted(idle))}" if idle else "")
    mend = f"ALTER SYSTEM SET {setting} = {server[setting] + 4}; then restart the server"
    return Finding(setting, "fail", "server", message, mend)
