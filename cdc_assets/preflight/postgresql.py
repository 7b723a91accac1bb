"""The rules of a PostgreSQL source: pure, from facts to findings. Evidence: docs/preflight.md."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.preflight.finding import Finding, Level
from cdc_assets.preflight.postgresql_facts import PostgresFacts
from cdc_assets.preflight.postgresql_slot import slot_findings
from cdc_assets.preflight.sql_text import identifier, table_name
from cdc_assets.quantity import quantity
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import Source, Table


def findings(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    """Every rule, those that hold included."""
    yield from _server(source, facts)
    yield from slot_findings(source, facts)
    yield from _publication(source, facts)
    for table in source.tables:
        yield from _table(table, facts)


def _server(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    server = facts.server
    if server["wal_level"] != "logical":
        message = f"wal_level is {server['wal_level']}: the log does not hold what logical decoding needs"
        yield Finding("wal_level", "fail", "server", message, "ALTER SYSTEM SET wal_level = 'logical'; then restart the server")
    else:
        yield Finding("wal_level", "ok", "server", "wal_level is logical")
    if not (server["replication"] or server["superuser"]):
        mend = f"ALTER ROLE {identifier(server['user'])} REPLICATION"
        yield Finding("role", "fail", "server", f"role {server['user']} may not open a replication connection", mend)
    else:
        yield Finding("role", "ok", "server", f"role {server['user']} may replicate")
    if server["standby"] and server["version"] < 160000:
        message = "this server is a standby, and decodes only from version 16 on"
        yield Finding("standby", "fail", "server", message, "point the source's host at the primary")
    yield _limit(facts, "slots", "max_replication_slots", needed=facts.slot is None)
    busy = facts.slot is not None and facts.slot["active"]
    yield _limit(facts, "senders", "max_wal_senders", needed=not busy)


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


def _publication(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    name, found = names.publication_name(source), facts.publication
    wanted = [table.id for table in source.tables if table.id in facts.tables]
    listed = ", ".join(table_name(table) for table in wanted)
    if found is None:
        unowned = [str(t) for t in wanted if not facts.tables[t]["owned"]]
        if facts.server["create"] and not unowned:
            yield Finding("publication", "ok", name, "does not exist yet; the connector makes it at its first start")
        elif listed:
            why = f"does not own {', '.join(unowned)}" if unowned else f"may not create in database {facts.server['database']}"
            yield Finding(
                "publication",
                "fail",
                name,
                f"does not exist, and role {facts.server['user']} cannot make it: it {why}",
                f"CREATE PUBLICATION {identifier(name)} FOR TABLE {listed}",
            )
        return
    published = {TableId(schema, table) for schema, table in found["tables"]}
    missing = [table for table in wanted if table not in published]
    if missing and not found["puballtables"]:
        keyed = all(_identified(facts.tables[table]) for table in missing)
        yield Finding(
            "publication",
            "fail",
            name,
            f"lacks {', '.join(map(str, missing))}: their changes are not decoded, and are in no event later; once it has them: "
            f"cdc onboard {source.name} {' '.join(map(str, missing))} --again",
            f"ALTER PUBLICATION {identifier(name)} ADD TABLE {', '.join(map(table_name, missing))}",
            # The application cannot UPDATE or DELETE a published table without identity.
            safe=keyed and found["owned"],
        )
    else:
        yield Finding("publication", "ok", name, f"has all {quantity(len(wanted), 'table')}")
    extra = published - set(wanted) - {names.signal_table(source)}
    if extra:
        shown = ", ".join(sorted(map(str, extra))[:10])
        mend = (
            None
            if found["puballtables"]
            else f"ALTER PUBLICATION {identifier(name)} DROP TABLE {', '.join(map(table_name, extra))}"
        )
        yield Finding("publication_extra", "warn", name, f"has tables that the registry does not: {shown}", mend)
    lost = [op for op in ("insert", "update", "delete", "truncate") if not found[f"pub{op}"]]
    if lost:
        mend = f"ALTER PUBLICATION {identifier(name)} SET (publish = 'insert, update, delete, truncate')"
        yield Finding("publication_operations", "fail", name, f"leaves out {', '.join(lost)}", mend, safe=found["owned"])


def _table(declared: Table, facts: PostgresFacts) -> Iterator[Finding]:
    table = declared.id
    found, name, user = facts.tables.get(table), str(table), facts.server["user"]
    if found is None:
        yield Finding("table", "fail", name, "does not exist, or is no table", "correct its name in the registry, or create it")
        return
    if not found["usage"]:
        mend = f"GRANT USAGE ON SCHEMA {identifier(table.schema)} TO {identifier(user)}"
        yield Finding("privileges", "fail", name, f"role {user} may not look into schema {table.schema}", mend)
    if not found["select"]:
        mend = f"GRANT SELECT ON {table_name(table)} TO {identifier(user)}"
        yield Finding("privileges", "fail", name, f"role {user} may not read it, so there is no snapshot", mend)
    if found["persistence"] != "p":
        kind = "unlogged" if found["persistence"] == "u" else "temporary"
        yield Finding(
            "logged", "fail", name, f"is {kind}: its changes are not in the log", f"ALTER TABLE {table_name(table)} SET LOGGED"
        )
    published = facts.publication is not None and [*table] in facts.publication["tables"]
    yield _identity(table, found, published=published)
    if declared.without_key == "multiset" and found["identity"] != "f":
        message = "is applied as a multiset, and its updates and deletes do not say by the whole row which one they take away"
        mend = f"ALTER TABLE {table_name(table)} REPLICA IDENTITY FULL"
        yield Finding("whole_rows", "fail", name, message, mend, safe=bool(found["owned"]))


def _identity(table: TableId, found: dict[str, object], *, published: bool) -> Finding:
    name = str(table)
    if _identified(found):
        kind = {"d": "its primary key", "f": "the full row", "i": "an index"}[str(found["identity"])]
        return Finding("replica_identity", "ok", name, f"replica identity is {kind}")
    if found["identity"] == "n" and found["key"]:
        mend = f"ALTER TABLE {table_name(table)} REPLICA IDENTITY DEFAULT"
        message = "has REPLICA IDENTITY NOTHING: once published, the application's UPDATE and DELETE on it fail"
        return Finding("replica_identity", "fail", name, message, mend, safe=bool(found["owned"]))
    changes = int(str(found["changed"]))
    message = "has no key and no replica identity: once published, the application's UPDATE and DELETE on it fail"
    mend = f"ALTER TABLE {table_name(table)} REPLICA IDENTITY FULL"
    if changes:
        seen = f"; it had {changes} of them since the statistics began"
        return Finding("replica_identity", "fail", name, message + seen, mend, safe=bool(found["owned"]))
    # Published and not complained of: what was a question before is answered.
    level: Level = "ok" if published else "warn"
    message += "; it has only had INSERTs so far"
    return Finding("replica_identity", level, name, message, mend, safe=bool(found["owned"]))


def _identified(found: dict[str, object]) -> bool:
    return found["identity"] in ("f", "i") or (found["identity"] == "d" and bool(found["key"]))
