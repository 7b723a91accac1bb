"""MySQL and MariaDB: the binlog and the grants as Debezium needs them, and what changes rows without an event that it
reads. Queries, what their answers mean, and who asks them.

Such a change is in the source and in no topic: every count agrees, and only a comparison of rows finds it.

https://debezium.io/documentation/reference/3.6/connectors/mysql.html#setting-up-mysql
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cdc_assets.capture.incarnations.binlog_incarnation import mariadb_verdict
from cdc_assets.capture.incarnations.server_verdict import Verdict
from cdc_assets.capture.preflight import driver_inspection, kafka_topics, table_models
from cdc_assets.capture.preflight.capturable_tables import column_refusals, signal_finding
from cdc_assets.capture.preflight.inspection import (
    NOT_SEEN,
    Finding,
    Report,
    ask_connect,
    incarnation,
    report_unreachable,
    sort_findings,
    tables_to_read,
)
from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.field_types import TableId, parse_table
from cdc_assets.registry.source_declaration import Source, UnaskedSource
from spark.table.identifiers import quote

if TYPE_CHECKING:
    from cdc_assets.clients.platform import Platform

Grants = Mapping[str, Mapping[str, frozenset[str]]]
"""GRANT and REVOKE (MySQL's partial revokes): privileges by `*.*`, `` `db`.* `` or `` `db`.`table` ``."""

_LINE = re.compile(r"^(GRANT|REVOKE) (.+?) ON (?:TABLE )?(\S.*?) (?:TO|FROM) ", re.IGNORECASE)
_NAME = re.compile(r"`((?:[^`]|``)+)`|(\*)")


def parse_grants(rows: Sequence[Sequence[Any]]) -> Grants:
    """Of the role and of the roles that are active; privileges of single columns are none of a table."""
    rights: dict[str, dict[str, frozenset[str]]] = {"GRANT": defaultdict(frozenset), "REVOKE": defaultdict(frozenset)}
    for row in rows:
        line = _LINE.match(str(row[0]))
        if line:
            privileges = {one.strip().upper() for one in re.split(r",(?![^(]*\))", line[2])}
            rights[line[1].upper()][line[3]] |= privileges
    return rights


def may(rights: Grants, privilege: str | tuple[str, ...], table: TableId | None = None) -> bool:
    """Everywhere, or with one table; of several names of a privilege one is enough."""
    names = {privilege} if isinstance(privilege, str) else {*privilege}
    names |= {"ALL PRIVILEGES", "ALL"}
    scopes = [scope for scope, privileges in rights["GRANT"].items() if privileges & names]
    if table is None:
        return "*.*" in scopes
    revoked = any(privileges & names and _covers(scope, table, literal=True) for scope, privileges in rights["REVOKE"].items())
    # A partial revoke takes from what is granted everywhere, and from nothing else.
    return any(scope != "*.*" or not revoked for scope in scopes if _covers(scope, table))


def account(answer: Sequence[Sequence[Any]] | None, user: str) -> str:
    """`'cdc'@'10.%'` as the server knows the role, else the name with any host."""
    name, _, host = str(answer[0][0]).rpartition("@") if answer else (user, "@", "%")
    return "@".join("'" + name_part.replace("'", "''") + "'" for name_part in (name, host))


def _covers(scope: str, table: TableId, *, literal: bool = False) -> bool:
    parts = [match[1].replace("``", "`") if match[1] else None for match in _NAME.finditer(scope)]
    if len(parts) != 2:
        return False
    schema, name = parts
    if name is not None:
        return (schema, name) == (table.schema, table.table)
    if schema is None:
        return True
    return schema == table.schema or (not literal and re.fullmatch(_pattern(schema), table.schema) is not None)


def _pattern(schema: str) -> str:
    r"""A database's name in a grant: `%` and `_` stand for others unless they are escaped."""
    kinds = {"%": ".*", "_": "."}
    return "".join(re.escape(one[1]) if len(one) == 2 else kinds.get(one, re.escape(one)) for one in re.findall(r"\\.|.", schema))


GAP_VARIABLES = (
    *("log_bin_compress", "binlog_alter_two_phase", "binlog_legacy_event_pos", "binlog_transaction_compression", "init_connect"),
)
GAP_QUERIES = {
    # A table that is not captured is enough; a role sees those that it may read. MariaDB alone writes the type so.
    "compressed": "SELECT table_schema, table_name, column_name FROM information_schema.columns "
    "WHERE column_type LIKE '%/*M!100301 COMPRESSED*/%'",
}
_BY_SESSION = re.compile(r"\b(binlog_format|binlog_row_image|binlog_row_value_options|sql_log_bin)\b", re.IGNORECASE)


def gap_settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Of the server: the settings under which events are passed over or are not written."""
    if variables.get("log_bin_compress", "OFF").upper() in ("ON", "1"):
        # Event types 165 to 171 of https://mariadb.com/kb/en/2-binlog-event-header/, which its client (0.40) passes over.
        message = "log_bin_compress is ON: Debezium passes over compressed events, and their changes are in no topic"
        yield Finding("log_bin_compress", "fail", "server", message, "SET GLOBAL log_bin_compress = OFF")
    if variables.get("binlog_alter_two_phase", "OFF").upper() in ("ON", "1"):
        # START ALTER and COMMIT ALTER, each with the statement: https://mariadb.com/kb/en/replication-and-binary-log-system-variables/
        message = (
            "binlog_alter_two_phase is ON: each ALTER TABLE is in the binlog twice, and Debezium stops at the second of a RENAME"
        )
        yield Finding("binlog_alter_two_phase", "warn", "server", message, "SET GLOBAL binlog_alter_two_phase = OFF")
    if named := sorted({name.lower() for name in _BY_SESSION.findall(variables.get("init_connect", ""))}):
        message = f"init_connect sets {', '.join(named)}: sessions change rows that are not in the log, or not whole"
        yield Finding("init_connect", "fail", "server", message, "take it out of init_connect: SET GLOBAL init_connect = '…'")


def one_place(variables: Mapping[str, str]) -> tuple[str, str]:
    """The setting by which all row events of a transaction have one place, and the statement that ends it; empty: they do not.

    Then the order of its topic tells what a key's last change is. Of a table without a key nothing tells a second statement of a
    transaction from a replay of the first (spark.events.source_positions).
    """
    if variables.get("binlog_legacy_event_pos", "ON").upper() in ("OFF", "0"):
        # A variable of MariaDB from 11.4 on, OFF by default: MDEV-33664.
        return "binlog_legacy_event_pos is OFF", "SET GLOBAL binlog_legacy_event_pos = ON"
    if variables.get("binlog_transaction_compression", "OFF").upper() in ("ON", "1"):
        return "binlog_transaction_compression is ON", "SET PERSIST binlog_transaction_compression = OFF"
    return "", ""


def gap_tables(
    captured: Collection[TableId], there: Sequence[Sequence[Any]], compressed: Sequence[Sequence[Any]]
) -> Iterator[Finding]:
    """Of tables: `there` are those of the captured databases (schema, name, kind, engine, options)."""
    for schema, name, kind, engine, options in there:
        table = TableId(schema, name)
        if str(kind).upper() == "SYSTEM VERSIONED":
            yield _version_finding(table, is_captured=table in captured)
        elif table in captured:
            yield from _table_findings(table, str(engine or "").upper(), str(options or "").lower())
    columns_of: dict[TableId, list[str]] = {}
    for schema, name, column in compressed:
        columns_of.setdefault(TableId(schema, name), []).append(str(column))
    for table, columns in columns_of.items():
        message = (
            f"has columns with COMPRESSED ({', '.join(columns)}): Debezium's client stops at the first row of such a table, "
            "captured or not, and with it every table of the server"
        )
        changed = ", ".join(f"MODIFY {quote(column)} … (without COMPRESSED)" for column in columns)
        mend = f"ALTER TABLE {quote(*table)} {changed}"
        yield Finding("compressed_columns", "fail", str(table), message, mend, stops_others=True)


def _version_finding(table: TableId, *, is_captured: bool) -> Finding:
    if is_captured:
        message = "is system-versioned: its row events have columns that Debezium does not know of, and old versions as rows"
        mend = f"ALTER TABLE {quote(*table)} DROP SYSTEM VERSIONING, or take it out of the registry"
        return Finding("versioned", "fail", str(table), message, mend)
    message = "is system-versioned: a statement that alters it stops the connector, which does not read that syntax"
    mend = "pass what alters it with SET sql_log_bin = 0 where no replica needs it, or keep it in another database"
    return Finding("versioned", "warn", str(table), message, mend)


def _table_findings(table: TableId, engine: str, options: str) -> Iterator[Finding]:
    if engine == "MEMORY":
        message = "its engine is MEMORY: a restart of the server empties it, and no row event says so"
        yield Finding("engine", "warn", str(table), message, f"ALTER TABLE {quote(*table)} ENGINE = InnoDB")
    if "partitioned" in options:
        message = "is partitioned: DROP, TRUNCATE and EXCHANGE PARTITION change its rows, and no row event says so"
        mend = f"cdc reconcile --heal after each of them ({table})"
        yield Finding("partitions", "warn", str(table), message, mend)


# {name: query}; `tables` and `keys` take the databases' names.
QUERIES = {
    **GAP_QUERIES,
    "variables": f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(map(repr, GAP_VARIABLES))}, "
    "'log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_value_options', 'server_id', 'version', "
    "'binlog_expire_logs_seconds', 'expire_logs_days', 'gtid_mode', 'enforce_gtid_consistency', 'gtid_domain_id')",
    "grants": "SHOW GRANTS",
    # Whom the server took the role for: a grant to another host's is of no use.
    "account": "SELECT CURRENT_USER()",
    "tables": "SELECT table_schema, table_name, table_type, engine, create_options FROM information_schema.tables "
    "WHERE table_schema IN ({schemas})",
    # A user who may only read does not see table_constraints.
    "keys": "SELECT DISTINCT table_schema, table_name FROM information_schema.statistics "
    "WHERE index_name = 'PRIMARY' AND table_schema IN ({schemas})",
    "xa": "SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'",
    "cascades": "SELECT constraint_schema, table_name, constraint_name, delete_rule, update_rule "
    "FROM information_schema.referential_constraints WHERE constraint_schema IN ({schemas}) "
    "AND NOT (delete_rule IN ('RESTRICT', 'NO ACTION') AND update_rule IN ('RESTRICT', 'NO ACTION'))",
}
# Not asked of every server: what the one statement is called there.
FILTERS = {"filters": "SHOW BINARY LOG STATUS", "filters_before_8_2": "SHOW MASTER STATUS"}
# A connector that was down for a weekend must find its position again.
LEAST_RETENTION_SECONDS = 3 * 86400
_FOR_ALL = ("RELOAD", "REPLICATION SLAVE", ("REPLICATION CLIENT", "BINLOG MONITOR"))


def is_answerable(name: str, answers: Mapping[str, driver_inspection.Rows]) -> bool:
    """Whether this server knows the query."""
    return name not in FILTERS or ("variables" in answers and (name == "filters") == (_version(_variables(answers)) >= (8, 2)))


def allowing(name: str, user: str) -> str:
    """What lets the role ask the query."""
    return f"GRANT {'REPLICATION CLIENT' if name in FILTERS else 'SELECT'} ON *.* TO '{user}'@'%'"


def findings(
    tables: Sequence[TableId],
    answers: Mapping[str, driver_inspection.Rows],
    *,
    user: str = "cdc",
    keyed: Collection[TableId] = (),
    written: Mapping[TableId, Sequence[str]] | None = None,
    later: Collection[TableId] = (),
) -> Iterator[Finding]:
    """Answers of the queries by their names; `keyed`: the registry declares what their rows are known by.

    `written`: what the role does to tables of ours besides reading them. `later`: these need not be there.
    """
    variables, role = _variables(answers), account(answers.get("account"), user)
    yield from _settings(variables)
    yield from gap_settings(variables)
    rights = parse_grants(answers["grants"])
    missing = [one for one in _FOR_ALL if not may(rights, one)]
    if missing:
        names = ", ".join(one if isinstance(one, str) else one[0] for one in missing)
        yield Finding("privileges", "fail", "server", f"lacks {names}", f"GRANT {names} ON *.* TO {role}")
    yield from _filters(tables, answers)
    yield from _cascades(tables, answers, variables)
    yield from gap_tables(tables, answers["tables"], answers.get("compressed", ()))
    if prepared := sum(int(count) for _, count in answers.get("xa", ())):
        message = (
            f"applications prepare transactions ({prepared} XA PREPARE since the server started), which are in the binlog from "
            "then on: Debezium sends their rows, and no XA ROLLBACK takes them back; cdc reconcile names such rows"
        )
        yield Finding("xa", "warn", "server", message, "commit what writes to captured tables without XA PREPARE")
    there = tables_there(answers)
    with_key = {TableId(schema, table) for schema, table in answers["keys"]} | {*keyed}
    for table in tables:
        if table in later and table not in there:
            continue
        lacking = ", ".join(one for one in ("SELECT", *(written or {}).get(table, ())) if not may(rights, one, table))
        if lacking or table in with_key or table not in there:
            yield _table_finding(table, role, is_seen=table in there, lacking=lacking)
        else:
            yield _keyless_finding(table, variables)


def tables_there(answers: Mapping[str, driver_inspection.Rows]) -> set[TableId]:
    """Those that the role sees."""
    return {TableId(schema, table) for schema, table, *_ in answers["tables"]}


def _table_finding(table: TableId, role: str, *, is_seen: bool, lacking: str) -> Finding:
    """`lacking`: the rights that the role does not have on it."""
    named = quote(*table)
    if not is_seen:
        mend = f"correct its name in the registry, create it, or GRANT SELECT ON {named} TO {role}"
        return Finding("table", "fail", str(table), NOT_SEEN, mend)
    if lacking:
        return Finding("privileges", "fail", str(table), f"lacks {lacking}", f"GRANT {lacking} ON {named} TO {role}")
    return Finding("table", "ok", str(table), "exists and has a key")


def _keyless_finding(table: TableId, variables: Mapping[str, str]) -> Finding:
    mend = f"ALTER TABLE {quote(*table)} ADD PRIMARY KEY (…), or declare keys in the registry"
    setting, statement = one_place(variables)
    if setting:
        message = f"has no primary key, and {setting}: rows of a transaction's second statement would be taken for a replay"
        return Finding("key", "fail", str(table), message, f"{mend}, or {statement}")
    return Finding("key", "warn", str(table), "has no primary key: its rows are appended", mend)


def _settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    expected = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
    for name, value in expected.items():
        current = variables.get(name, "not set").upper()
        if current == value:
            yield Finding(name, "ok", "server", f"{name} is {value}")
        elif name == "log_bin":
            mend = "log_bin = mysql-bin in my.cnf, without skip-log-bin; then restart the server"
            yield Finding(name, "fail", "server", "there is no binlog", mend)
        else:
            message = f"{name} is {current}: rows are not in the log whole; sessions that are open keep it until they reconnect"
            yield Finding(name, "fail", "server", message, _set(variables, name, f"'{value}'"))
    if partial := variables.get("binlog_row_value_options"):
        message = f"binlog_row_value_options is {partial}: only parts of JSON values are in the log"
        mend = _set(variables, "binlog_row_value_options", "''")
        yield Finding("binlog_row_value_options", "fail", "server", message, mend)
    if variables.get("server_id") == "0":
        message = "server_id is 0: the server sends its binlog to nobody"
        yield Finding("server_id", "fail", "server", message, _set(variables, "server_id", "1"))
    yield _retention(variables)
    if "gtid_mode" in variables and variables["gtid_mode"].upper() != "ON":
        mode = variables["gtid_mode"]
        message = f"gtid_mode is {mode}: after a failover the connector cannot find its position on another server"
        # From OFF to ON by one step at a time, each taken by all servers of the topology.
        steps = [("enforce_gtid_consistency", "ON"), *(("gtid_mode", mode) for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"))]
        yield Finding("gtid", "warn", "server", message, "; ".join(_set(variables, *step) for step in steps))


def _filters(tables: Sequence[TableId], answers: Mapping[str, driver_inspection.Rows]) -> Iterator[Finding]:
    """Databases whose changes the server leaves out of its binlog: nobody else would notice."""
    for _, _, logged, ignored, *_ in (row for name in FILTERS for row in answers.get(name, ())):
        only, left_out = ([one for one in str(listed or "").split(",") if one] for listed in (logged, ignored))
        for schema in sorted({table.schema for table in tables}):
            if schema in left_out or (only and schema not in only):
                option = "binlog-ignore-db" if schema in left_out else "binlog-do-db"
                message = f"its changes are not in the binlog ({option})"
                yield Finding("binlog_filter", "fail", schema, message, f"correct {option} in my.cnf; then restart the server")


_FOREIGN_KEY = re.compile(
    r"^  CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .*?( ON DELETE (CASCADE|SET NULL))?( ON UPDATE (CASCADE|SET NULL))?,?$", re.M
)


def cascades_of(table: TableId, definition: str) -> list[tuple[str, str, str, str, str]]:
    """The answer to `cascades` of one table, from its SHOW CREATE TABLE."""
    keys = (match.group(1, 3, 5) for match in _FOREIGN_KEY.finditer(definition))
    return [(*table, name.replace("``", "`"), d or "RESTRICT", u or "RESTRICT") for name, d, u in keys if d or u]


def _cascades(
    tables: Sequence[TableId], answers: Mapping[str, driver_inspection.Rows], variables: Mapping[str, str]
) -> Iterator[Finding]:
    """InnoDB changes the rows that a foreign key takes along beneath the binlog; MySQL 9.6 was the first to log them.

    https://bugs.mysql.com/bug.php?id=32506, MDEV-38243
    """
    if _version(variables) >= (9, 6):
        return
    for schema, table, name, on_delete, on_update in answers.get("cascades", ()):
        changed = TableId(schema, table)
        if changed in tables:
            rules = " ".join(
                f"ON {act} {rule}"
                for act, rule in (("DELETE", on_delete), ("UPDATE", on_update))
                if rule not in ("RESTRICT", "NO ACTION")
            )
            message = (
                f"foreign key {name} ({rules}) changes its rows without a word in the binlog: silver would keep the old ones"
            )
            key = quote(str(name))
            mend = (
                f"ALTER TABLE {quote(*changed)} DROP FOREIGN KEY {key}; then add it again with ON DELETE RESTRICT "
                "ON UPDATE RESTRICT, and let the application change these rows"
            )
            yield Finding("cascades", "fail", str(changed), message, mend)


def _variables(answers: Mapping[str, driver_inspection.Rows]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in answers["variables"]}


def _version(variables: Mapping[str, str]) -> tuple[int, ...]:
    """MySQL's; (0,) of a MariaDB."""
    match = re.match(r"(\d+)\.(\d+)", variables.get("version", ""))
    return tuple(map(int, match.groups())) if match and "gtid_mode" in variables else (0,)


def _set(variables: Mapping[str, str], name: str, value: str) -> str:
    """MySQL keeps it over a restart from 8.0 on."""
    return f"SET {'PERSIST' if _version(variables) >= (8,) else 'GLOBAL'} {name} = {value}"


def _retention(variables: Mapping[str, str]) -> Finding:
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0) or 86400 * float(variables.get("expire_logs_days") or 0)
    if seconds == 0 or seconds >= LEAST_RETENTION_SECONDS:
        return Finding(
            "retention", "ok", "server", "the binlog is kept " + (f"{seconds / 86400:.1f} days" if seconds else "for ever")
        )
    message = (
        f"the binlog is kept {seconds / 3600:.0f} h: a connector that is down for longer loses its position, and needs a snapshot"
    )
    mend = _set(variables, "binlog_expire_logs_seconds", str(7 * 86400))
    return Finding("retention", "warn", "server", message, mend, safe=True)


_TO_MAKE = ("CREATE", "SELECT", "INSERT", "DELETE")
"""What makes the signal table, writes to it and clears it."""


def _findings(source: UnaskedSource, tables: list[TableId], answers: driver_inspection.Answers, user: str) -> Iterator[Finding]:
    # Debezium itself writes into the signal table where a window of a snapshot opens and closes.
    ours = {source.reconciliation.marker: ("INSERT", "DELETE"), names.signal_declaration(source): ("INSERT",)}
    written = {parse_table(name): what for name, what in ours.items() if name}
    signals = parse_table(declared) if (declared := names.signal_declaration(source)) else None
    later = [signals] if signals else []
    keyed = driver_inspection.with_known_key(source, tables)
    yield from findings(tables, answers, user=user, keyed=keyed, written=written, later=later)
    if signals and signals not in tables_there(answers):
        yield _unmade_signals(source.name, signals, answers, user)


def _unmade_signals(source: str, table: TableId, answers: driver_inspection.Answers, user: str) -> Finding:
    rights = parse_grants(answers["grants"])
    lacking = ", ".join(one for one in _TO_MAKE if not may(rights, one, table))
    if not lacking:
        return Finding("signals", "ok", str(table), f"does not exist yet; cdc apply {source} makes it")
    message = f"does not exist, and the role lacks {lacking}: cdc snapshot, cdc onboard and cdc reconcile --heal need it"
    mend = f"GRANT {lacking} ON {quote(table.schema)}.* TO {account(answers.get('account'), user)}"
    return Finding("signals", "warn", str(table), message, f"{mend}; then cdc apply {source} makes it")


RULES = driver_inspection.SqlRules({**QUERIES, **FILTERS}, frozenset(QUERIES), _findings, allowing, asked=is_answerable)


def inspect_mysql(chain: Chain[UnaskedSource]) -> Report:
    """Every rule of its server and topics, and by which columns Debezium reads its tables."""
    report = RULES.inspect(chain)
    if any(finding.check == "reachable" for finding in report.findings) or ask_connect(chain)[1]:
        return report
    models = table_models.findings(chain, [table.id for table in chain.source.tables])
    return replace(report, findings=sort_findings([*report.findings, *models]))


def inspect_mariadb(chain: Chain[Source]) -> Report:
    """All findings; a database that cannot be reached is one."""
    database = cast(MariaDbDatabase, chain.platform.database(chain.source))
    _, away = ask_connect(chain)
    try:
        return _inspect(chain.platform, database, chain.source, away)
    except CdcAssetsError as error:
        return report_unreachable(chain.source, lambda: database.place, error)


def _inspect(platform: Platform, database: MariaDbDatabase, source: Source, away: list[Finding]) -> Report:
    tables = [table.id for table in source.tables]
    answers = database.answers(QUERIES, sorted({table.schema for table in tables}))
    # A user who may only read sees no referential_constraints there, but every table's definition.
    answers["cascades"] = [row for table, text in database.definitions(tables).items() for row in cascades_of(table, text)]
    keyed = [table.id for table in source.tables if table.keys]

    def examine() -> tuple[Verdict, Finding]:
        whole = Finding("incarnation", "ok", "server", "its binlog holds what has not been read")
        return mariadb_verdict(Chain(platform, source)), whole

    running = away or [incarnation(source, examine), *kafka_topics.platform_topic_findings(Chain(platform, source))]
    signals = signal_finding(source, database, may_create=None)
    catalogue = database.tables(tables)
    columns = column_refusals(database, source, catalogue, to_read=tables_to_read(Chain(platform, source)))
    models = [] if away else table_models.findings(Chain(platform, source), tables)
    all_findings = [*findings(tables, answers, user=database.user, keyed=keyed), *columns, signals, *running, *models]
    return Report(source.name, database.place, sort_findings(all_findings))
