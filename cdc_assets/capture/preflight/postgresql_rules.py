"""Asks a PostgreSQL and judges its answers: server, replication slot, and whether it is the one that was read; of the tables
their columns, their replica identity, the rows that the role is shown, and the publication that sends every change under the
table's own name. Evidence: docs/how-to/preflight.md.

The slot is what keeps the log for us: a lost one is lost changes, and a forgotten one fills the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cdc_assets.capture.connectors.setting_overrides import is_listed
from cdc_assets.capture.incarnations.postgresql_incarnation import IdentityLook, look
from cdc_assets.capture.incarnations.server_verdict import Verdict
from cdc_assets.capture.preflight import kafka_topics
from cdc_assets.capture.preflight.capturable_tables import column_refusals, signal_finding
from cdc_assets.capture.preflight.inspection import (
    Finding,
    Level,
    Report,
    ask_connect,
    incarnation,
    patterns_taken_in,
    report_unreachable,
    sort_findings,
    tables_to_read,
)
from cdc_assets.capture.preflight.postgresql_catalogue import END_TRANSACTION, PostgresFacts, read_facts
from cdc_assets.clients.databases.postgresql import PostgresDatabase, foreign_hands
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.identifiers import double_quote

if TYPE_CHECKING:
    from cdc_assets.clients.platform import Platform

# From here on a person should look: an ordinary lag of our own chain stays below some 16-MB segments.
WARN_RETAINED_BYTES = 1 << 30
# Of max_slot_wal_keep_size: what is left when the warning comes.
WARN_SAFE_PART = 0.2


def slot_findings(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    """Missing, taken by others, invalidated and why, near its limit, holding back too much, not on a standby."""
    name, slot = names.slot_name(source), facts.slot
    again = f"cdc repair source {source.name}: a new epoch, with every table read again"
    if slot is None:
        if facts.captured:
            message = (
                "is gone, and with it every change since the connector's last offset (it was dropped, or a failover lost it)"
            )
            yield Finding("slot", "fail", name, message, again)
        else:
            yield Finding("slot", "ok", name, "does not exist yet; the connector makes it at its first start")
            yield from _creation(name, facts)
            yield from _failover(name, facts, failover=False)
        return
    ours = {"slot_type": "logical", "plugin": "pgoutput", "database": facts.server["database"]}
    if foreign := ", ".join(f"{key} is {slot.get(key)}, not {value}" for key, value in ours.items() if slot.get(key) != value):
        mend = f"name another one in the registry (capture.slot), or SELECT pg_drop_replication_slot('{name}')"
        yield Finding("slot", "fail", name, f"is not one for us: {foreign}", mend)
        return
    reason = slot.get("invalidation_reason")
    if reason or slot.get("wal_status") == "lost":
        message = f"is invalidated ({reason or 'wal_removed'}): changes since its position are lost"
        yield Finding("slot", "fail", name, message, again if facts.captured else f"SELECT pg_drop_replication_slot('{name}')")
        return
    yield _health(name, slot, facts)
    yield from _retention_findings(name, slot)
    yield from _failover(name, facts, failover=bool(slot.get("failover")))


def _creation(name: str, facts: PostgresFacts) -> Iterator[Finding]:
    if facts.open:
        message = f"is made only when these are over, and the connector has no task until then: {', '.join(facts.open)}"
        yield Finding("slot_creation", "warn", name, message, END_TRANSACTION)


def _health(name: str, slot: dict[str, object], facts: PostgresFacts) -> Finding:
    safe, keep = slot.get("safe_wal_size"), facts.server["keep_bytes"]
    raise_it = "start the connector, or ALTER SYSTEM SET max_slot_wal_keep_size = …; SELECT pg_reload_conf()"
    if slot.get("wal_status") == "unreserved" or (safe is not None and int(str(safe)) <= 0):
        message = "is about to be invalidated: it needs log beyond max_slot_wal_keep_size, gone at the next checkpoint"
        return Finding("slot", "fail", name, message, raise_it)
    if safe is not None and keep and int(str(safe)) < WARN_SAFE_PART * keep:
        message = f"has {int(str(safe)) / 2**20:.0f} MB of log left of {keep / 2**20:.0f} before it is invalidated"
        return Finding("slot", "warn", name, message, raise_it)
    state = "in use" if slot["active"] else "idle"
    return Finding("slot", "ok", name, f"{state}, {slot.get('wal_status') or 'reserved'}, at {slot.get('confirmed_flush_lsn')}")


def _retention_findings(name: str, slot: dict[str, object]) -> Iterator[Finding]:
    retained = int(float(str(slot.get("retained_bytes") or 0)))
    if retained > WARN_RETAINED_BYTES:
        message = f"holds back {retained / 2**30:.1f} GB of the source's log" + (
            "" if slot["active"] else ", and nobody reads it"
        )
        yield Finding(
            "slot_retained", "warn", name, message, "cdc get connectors: is it running? a long transaction at the source?"
        )


def _failover(name: str, facts: PostgresFacts, *, failover: bool) -> Iterator[Finding]:
    server = facts.server
    if not server["standbys"] or failover:
        return
    if server["version"] < 170000:
        message = f"the server has {quantity(server['standbys'], 'standby')}: slots survive a failover only from version 17 on"
        yield Finding("slot_failover", "warn", name, message, "after a failover: a new snapshot")
        return
    mend = (
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', false, false, true) before the first start of the "
        "connector (an existing one: ALTER_REPLICATION_SLOT over a replication connection), and sync_replication_slots = on"
    )
    message = f"the server has {quantity(server['standbys'], 'standby')}, and the slot is not for them: a failover loses it"
    yield Finding("slot_failover", "warn", name, message, mend)


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
    # https://www.postgresql.org/docs/16/release-16.html: "Allow logical decoding on standbys".
    if server["standby"] and server["version"] < 160000:
        message = "this server is a standby, and decodes only from version 16 on"
        yield Finding("standby", "fail", "server", message, "point the source's host at the primary")
    yield _messages(server)
    yield _limit(facts, "slots", "max_replication_slots", needed=facts.slot is None)
    busy = facts.slot is not None and facts.slot["active"]
    yield _limit(facts, "senders", "max_wal_senders", needed=not busy)


def _messages(server: dict[str, Any]) -> Finding:
    """Who may write into the log: a message of 200 MB of anybody ends the worker that reads it, and all its sources."""
    messages, role = server["messages"], double_quote(server["user"])
    if messages["own"]:
        message = f"role {server['user']} may not call pg_logical_emit_message: no heartbeat and no marker is written"
        mend = f"GRANT EXECUTE ON FUNCTION {', '.join(messages['own'])} TO {role}"
        return Finding("messages", "fail", "server", message, mend)
    if messages["public"]:
        message = (
            "everybody may call pg_logical_emit_message: a message of 200 MB of any role ends the worker with all its sources"
        )
        functions = ", ".join(messages["public"])
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


def inspect(chain: Chain[Source]) -> Report:
    """All findings; a database that cannot be reached is one."""
    database = cast(PostgresDatabase, chain.platform.database(chain.source))
    offsets, away = ask_connect(chain)
    try:
        return _inspect(chain.platform, database, chain.source, offsets, away)
    except CdcAssetsError as error:
        return report_unreachable(chain.source, lambda: database.place, error)


def _inspect(platform: Platform, database: PostgresDatabase, source: Source, offsets: list[Any], away: list[Finding]) -> Report:
    with database.connection() as connection:
        facts = read_facts(
            connection,
            slot=names.slot_name(source),
            publication=names.publication_name(source),
            tables=[table.id for table in source.tables],
            offsets=offsets,
        )
        own = own_table_findings(connection, source)
    facts = replace(facts, taken_in=patterns_taken_in(Chain(platform, source)))
    retained = int(float((facts.slot or {}).get("retained_bytes") or 0))
    figures = {"slot_retained_bytes": retained} if facts.slot else {}
    if facts.slot and facts.slot.get("safe_wal_size") is not None:
        figures["slot_safe_wal_bytes"] = int(facts.slot["safe_wal_size"])

    def examine() -> tuple[Verdict, Finding]:
        looked = look(Chain(platform, source))
        return looked.verdict, _witness_finding(source, looked)

    running = away or [incarnation(source, examine), *kafka_topics.platform_topic_findings(Chain(platform, source))]
    signals = signal_finding(source, database, may_create=bool(facts.server["create"]))
    catalogue = database.tables([table.id for table in source.tables])
    columns = column_refusals(database, source, catalogue, to_read=tables_to_read(Chain(platform, source)))
    all_findings = [*findings(source, facts), *own, *columns, signals, *running]
    return Report(source.name, database.place, sort_findings(all_findings), figures)


def own_table_findings(connection: Any, source: Source) -> list[Finding]:
    """Whether what we write to is ours alone."""
    findings = list[Finding]()
    for table in (names.witness_table(source), names.starts_table(source), names.signal_table(source)):
        hands = connection.execute(foreign_hands(table).encode()).fetchall()
        findings += [Finding("own_tables", "fail", str(table), f"is not ours alone: {what}", mend) for what, mend in hands]
    return findings or [Finding("own_tables", "ok", "server", "the tables that we write to are our role's, or are to be made")]


def _witness_finding(source: Source, looked: IdentityLook) -> Finding:
    if not looked.witnessed:
        message = "takes no witness from us: once restored and written to for long enough, it cannot be told from what it was"
        database = expect(source.database, Database).dbname
        mend = f"GRANT CREATE ON DATABASE {double_quote(database)} TO the role of the connector"
        return Finding("incarnation", "warn", "server", message, mend)
    sentence = looked.verdict.reason or f"is the one that was read: {looked.facts.system}, timeline {looked.facts.timeline}"
    return Finding("incarnation", "ok", "server", sentence)


def column_findings(declared: Table, found: Mapping[str, Any], user: str) -> Iterator[Finding]:
    """Keys that hold no rows apart, and rows that a snapshot would not read."""
    name = str(declared.id)
    yield from _keys(declared, found)
    if found["hidden"]:
        message = f"row level security hides rows from role {user}: a snapshot would not read them, changes of them would come"
        yield Finding("row_security", "fail", name, message, f"ALTER ROLE {double_quote(user)} BYPASSRLS")


def _keys(declared: Table, about: Mapping[str, Any]) -> Iterator[Finding]:
    if not declared.keys:
        return
    name, listed = str(declared.id), ", ".join(declared.keys)
    if absent := [key for key in declared.keys if key not in about["columns"]]:
        message = f"keys name {', '.join(absent)}, and it has no such column; it has: {', '.join(about['columns'])}"
        yield Finding("keys", "fail", name, message)
    elif not any(set(index) <= set(declared.keys) for index in about["unique"]):
        message = f"no unique index holds its keys ({listed}) apart, NULLs too: rows that share them would be one row in silver"
        table, keys = double_quote(*declared.id), [double_quote(key) for key in declared.keys]
        # PostgreSQL 14 has no NULLS NOT DISTINCT.
        filled = ", ".join(f"ALTER COLUMN {key} SET NOT NULL" for key in keys)
        mend = f"ALTER TABLE {table} {filled}; CREATE UNIQUE INDEX ON {table} ({', '.join(keys)})"
        yield Finding("keys", "warn", name, message, mend)


def table_findings(declared: Table, facts: PostgresFacts) -> Iterator[Finding]:
    """Of one declared table."""
    table = declared.id
    about, name, user = facts.tables.get(table), str(table), facts.server["user"]
    if about is None:
        yield Finding("table", "fail", name, "does not exist, or is no table", "correct its name in the registry, or create it")
        return
    if not about["usage"]:
        mend = f"GRANT USAGE ON SCHEMA {double_quote(table.schema)} TO {double_quote(user)}"
        yield Finding("privileges", "fail", name, f"role {user} may not look into schema {table.schema}", mend)
    if not about["select"]:
        mend = f"GRANT SELECT ON {double_quote(*table)} TO {double_quote(user)}"
        yield Finding("privileges", "fail", name, f"role {user} may not read it, so there is no snapshot", mend)
    if about["persistence"] != "p":
        kind = "unlogged" if about["persistence"] == "u" else "temporary"
        yield Finding(
            "logged", "fail", name, f"is {kind}: its changes are not in the log", f"ALTER TABLE {double_quote(*table)} SET LOGGED"
        )
    yield from _holders(name, facts.locked.get(table, ()))
    yield from _partitions(name, about)
    yield from column_findings(declared, about, user)
    published = facts.publication is not None and [*table] in facts.publication["tables"]
    identity = _identity(table, about, published=published)
    yield identity
    if identity.level == "ok":
        yield from _other_identity(declared, about)
    if about["children"]:
        listed = ", ".join(str(TableId(*child["table"])) for child in about["children"])
        message = (
            f"has tables that inherit from it ({listed}), and a snapshot would read their rows as its own, without their changes "
            "later. Declare only: true for it; and those tables as well, if their rows are wanted"
        )
        own_rows = f"its own rows are captured, not those of {listed}"
        yield Finding("inheritance", "ok", name, own_rows) if declared.only else Finding("inheritance", "fail", name, message)
    if declared.without_key == "multiset" and any(leaf["identity"] != "f" for leaf in about["leaves"]):
        message = "is applied as a multiset, and its updates and deletes do not say by the whole row which one they take away"
        mend = f"ALTER TABLE {double_quote(*table)} REPLICA IDENTITY FULL"
        yield Finding("whole_rows", "fail", name, message, mend, safe=bool(about["owned"]))


def _holders(name: str, holders: Sequence[str]) -> Iterator[Finding]:
    if holders:
        message = (
            f"is held exclusively by {', '.join(holders)}: who reads it waits, and so does the connector whenever it starts: it "
            "says RUNNING and sends nothing"
        )
        yield Finding("table_lock", "warn", name, message, END_TRANSACTION)


def _partitions(name: str, about: Mapping[str, Any]) -> Iterator[Finding]:
    """Those whose rows a snapshot reads, and whose changes are in no log of this server."""
    if not about["partitioned"]:
        return
    for leaf in about["leaves"]:
        if leaf["persistence"] != "p":
            partition = TableId(*leaf["table"])
            message = f"partition {partition} is unlogged: its changes are not in the log"
            yield Finding("logged", "fail", name, message, f"ALTER TABLE {double_quote(*partition)} SET LOGGED")
    for parts in about["foreign"]:
        message = f"partition {TableId(*parts)} is a foreign table: a snapshot reads its rows, and no change of them comes"
        yield Finding("logged", "fail", name, message, "declare the partitions that lie here, or detach that one")


def _identity(table: TableId, about: Mapping[str, Any], *, published: bool) -> Finding:
    """Whether the application may change rows of the table, and of each of its partitions."""
    # A publication takes in what inherits from a table, so the application's changes of that fail as well: the server refuses an
    # UPDATE or DELETE of a published row that it could not identify to a subscriber.
    # https://www.postgresql.org/docs/current/logical-replication-publication.html
    parts = [*about["leaves"], *about["children"]]
    name, worst = str(table), next((leaf for leaf in parts if not _tells(leaf)), None)
    if worst is None:
        kinds = {"d": "its primary key", "f": "the full row", "i": "an index"}
        identities = sorted({kinds[leaf["identity"]] for leaf in about["leaves"]})
        return Finding(
            "replica_identity", "ok", name, f"replica identity is {' or '.join(identities) or 'that of its partitions'}"
        )
    leaf_id = TableId(*worst["table"])
    of = "" if leaf_id == table else f"{'partition' if about['partitioned'] else 'its child'} {leaf_id} "
    fails = "once published, the application's UPDATE and DELETE on it fail"
    if worst["identity"] == "i" or (worst["identity"] == "n" and about["key"] and worst in about["leaves"]):
        default = about["key"] and worst in about["leaves"]
        mend = f"ALTER TABLE {double_quote(*leaf_id)} REPLICA IDENTITY {'DEFAULT' if default else 'FULL'}"
        what = "has REPLICA IDENTITY NOTHING" if worst["identity"] == "n" else "has lost the index of its replica identity"
        message = f"{of}{what}: {fails}"
        return Finding("replica_identity", "fail", name, message, mend, safe=bool(about["owned"]))
    changes = int(str(about["changed"]))
    message = f"{of}has no key and no replica identity: {fails}"
    mend = f"ALTER TABLE {double_quote(*leaf_id)} REPLICA IDENTITY FULL"
    if changes:
        seen = f"; it had {changes} of them since the statistics began"
        return Finding("replica_identity", "fail", name, message + seen, mend, safe=bool(about["owned"]))
    # Published and not complained of: what was a question before is answered.
    level: Level = "ok" if published else "warn"
    message += "; it has only had INSERTs so far"
    return Finding("replica_identity", level, name, message, mend, safe=bool(about["owned"]))


def _other_identity(declared: Table, about: Mapping[str, Any]) -> Iterator[Finding]:
    """A DELETE tells the columns of the identity only: where the key is not among them, nobody knows which row went."""
    key = list(declared.keys or about["key"] or ())
    for leaf in about["leaves"]:
        identity = leaf["columns"] or []
        if leaf["identity"] == "f" or set(key) <= set(identity) or (leaf["identity"] == "i" and not identity):
            continue  # an index that was dropped is told as no identity at all
        leaf_id, by = TableId(*leaf["table"]), ", ".join(identity)
        what = "an index" if leaf["identity"] == "i" else "the primary key"
        default = not declared.keys and about["key"]
        message = (
            f"replica identity is {what} ({by}), and a DELETE does not tell the key ({', '.join(key)}): deleted rows would "
            f"stay in silver; or declare keys: [{by}] for the table, before it is captured"
        )
        mend = f"ALTER TABLE {double_quote(*leaf_id)} REPLICA IDENTITY {'DEFAULT' if default else 'FULL'}"
        yield Finding("identity_columns", "fail", str(declared.id), message, mend, safe=bool(about["owned"]))
        return


def _tells(leaf: Mapping[str, Any]) -> bool:
    return leaf["identity"] == "f" or bool(leaf["columns"])


def publication_findings(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    """Of the publication as it is; or whether the connector can make it, where there is none."""
    name, row = names.publication_name(source), facts.publication
    captured = [table.id for table in source.tables if table.id in facts.tables]
    if row is None:
        yield from _no_publication(name, captured, facts)
        return
    published = {TableId(schema, table) for schema, table in row["tables"]}
    leaves = {table: _leaves(facts, table) for table in captured}
    missing = [table for table in captured if table not in published and not (leaves[table] and leaves[table] <= published)]
    if missing and not row["puballtables"]:
        # The application cannot UPDATE or DELETE a published table without identity.
        members = [member for table in missing for key in ("leaves", "children") for member in facts.tables[table][key]]
        safe = all(map(_tells, members)) and row["owned"]
        yield _missing_tables(source, missing, safe=safe)
    else:
        yield Finding("publication", "ok", name, f"has all {quantity(len(captured), 'table')}")
    if not row["pubviaroot"] and (roots := _partition_parents(captured, facts)):
        yield _partition_names(source, roots, safe=bool(row["owned"]))
    # FOR TABLE takes in what inherits from a table, and what it is parted into.
    within = {TableId(*child["table"]) for table in captured for child in facts.tables[table]["children"]}.union(*leaves.values())
    extra = published - set(captured) - within - {names.signal_table(source)}
    if extra := {table for table in extra if not is_listed(".".join(table), facts.taken_in)}:
        yield _extra_tables(source, sorted(extra), is_of_all=row["puballtables"])
    yield from _publication_gaps(source, name, row["narrowed"], {*captured}.union(*leaves.values()))
    lost = [op for op in ("insert", "update", "delete", "truncate") if not row[f"pub{op}"]]
    if lost:
        mend = f"ALTER PUBLICATION {double_quote(name)} SET (publish = 'insert, update, delete, truncate')"
        yield Finding("publication_operations", "fail", name, f"leaves out {', '.join(lost)}", mend, safe=row["owned"])


def _no_publication(name: str, captured: Sequence[TableId], facts: PostgresFacts) -> Iterator[Finding]:
    listed = ", ".join(double_quote(*table) for table in captured)
    unowned = [str(t) for t in captured if not facts.tables[t]["owned"]]
    if facts.server["create"] and not unowned:
        yield Finding("publication", "ok", name, "does not exist yet; the connector makes it at its first start")
    elif listed:
        by_root = " WITH (publish_via_partition_root = true)" if _partition_parents(captured, facts) else ""
        why = f"does not own {', '.join(unowned)}" if unowned else f"may not create in database {facts.server['database']}"
        message = f"does not exist, and role {facts.server['user']} cannot make it: it {why}"
        mend = f"CREATE PUBLICATION {double_quote(name)} FOR TABLE {listed}{by_root}"
        yield Finding("publication", "fail", name, message, mend)


def _missing_tables(source: Source, missing: Sequence[TableId], *, safe: bool) -> Finding:
    name = names.publication_name(source)
    message = (
        f"lacks {', '.join(map(str, missing))}: their changes are not decoded, and are in no event later; once it has them: "
        f"cdc onboard {source.name} {' '.join(map(str, missing))} --again"
    )
    mend = f"ALTER PUBLICATION {double_quote(name)} ADD TABLE {', '.join(double_quote(*t) for t in missing)}"
    return Finding("publication", "fail", name, message, mend, safe=safe)


def _extra_tables(source: Source, extra: Sequence[TableId], *, is_of_all: bool) -> Finding:
    """Without a DROP TABLE: where another home is about to take one of them in, its changes would be lost by that."""
    shown = ", ".join(map(str, extra[:10]))
    message = f"has tables that neither the registry nor a connector of it has: {shown}; their changes are decoded for nothing"
    mend = None if is_of_all else f"take them in: cdc onboard {source.name} {' '.join(map(str, extra))}"
    return Finding("publication_extra", "warn", names.publication_name(source), message, mend)


def _partition_names(source: Source, roots: Sequence[TableId], *, safe: bool) -> Finding:
    name = names.publication_name(source)
    message = (
        f"sends changes of {', '.join(map(str, roots))} under the names of their partitions, which are not captured: all are "
        f"lost; once that is mended: cdc reconcile {source.name} --heal, or cdc onboard {source.name} "
        f"{' '.join(map(str, roots))} --again"
    )
    mend = f"ALTER PUBLICATION {double_quote(name)} SET (publish_via_partition_root = true)"
    return Finding("publication_root", "fail", name, message, mend, safe=safe)


def _publication_gaps(
    source: Source, name: str, narrowed: Sequence[Mapping[str, Any]], captured: set[TableId]
) -> Iterator[Finding]:
    """Row filters and column lists: what they leave out is in no event."""
    unwanted = {table.id: set(table.except_column_list) for table in source.tables}
    for entry in narrowed:
        table = TableId(*entry["table"])
        absent = [column for column in entry["left_out"] if column not in unwanted.get(table, ())]
        if table not in captured or not (absent or entry["filtered"]):
            continue
        left_out = ["rows, by a filter"] if entry["filtered"] else []
        left_out += [f"columns ({', '.join(absent)})"] if absent else []
        alter, of = f"ALTER PUBLICATION {double_quote(name)}", double_quote(*table)
        message = f"leaves out {' and '.join(left_out)} of {table}: their changes are lost"
        yield Finding("publication_filter", "fail", name, message, f"{alter} DROP TABLE {of}; {alter} ADD TABLE {of}")


def _partition_parents(tables: Sequence[TableId], facts: PostgresFacts) -> list[TableId]:
    return [table for table in tables if facts.tables[table]["partitioned"]]


def _leaves(facts: PostgresFacts, table: TableId) -> set[TableId]:
    """The partitions that hold a partitioned table's rows; none of any other table."""
    about = facts.tables[table]
    return {TableId(*leaf["table"]) for leaf in about["leaves"]} if about["partitioned"] else set()
