"""MySQL and MariaDB: the binlog as Debezium needs it. Queries, and what their answers mean; pure.

https://debezium.io/documentation/reference/3.6/connectors/mysql.html#setting-up-mysql
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.preflight import binlog_gaps
from cdc_assets.preflight.finding import NOT_SEEN, Finding
from cdc_assets.preflight.mysql_grants import account, may, parse_grants
from cdc_assets.registry.identifiers import TableId
from spark.delta.identifiers import quote

Rows = Sequence[Sequence[Any]]

# {name: query}; `tables` and `keys` take the databases' names.
QUERIES = {
    **binlog_gaps.QUERIES,
    "variables": f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(map(repr, binlog_gaps.VARIABLES))}, "
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


def is_answerable(name: str, answers: Mapping[str, Rows]) -> bool:
    """Whether this server knows the query."""
    return name not in FILTERS or ("variables" in answers and (name == "filters") == (_version(_variables(answers)) >= (8, 2)))


def allowing(name: str, user: str) -> str:
    """What lets the role ask the query."""
    return f"GRANT {'REPLICATION CLIENT' if name in FILTERS else 'SELECT'} ON *.* TO '{user}'@'%'"


def findings(
    tables: Sequence[TableId],
    answers: Mapping[str, Rows],
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
    yield from binlog_gaps.settings(variables)
    rights = parse_grants(answers["grants"])
    missing = [one for one in _FOR_ALL if not may(rights, one)]
    if missing:
        names = ", ".join(one if isinstance(one, str) else one[0] for one in missing)
        yield Finding("privileges", "fail", "server", f"lacks {names}", f"GRANT {names} ON *.* TO {role}")
    yield from _filters(tables, answers)
    yield from _cascades(tables, answers, variables)
    yield from binlog_gaps.tables(tables, answers["tables"], answers.get("compressed", ()))
    if prepared := sum(int(count) for _, count in answers.get("xa", ())):
        message = (
            f"applications prepare transactions ({prepared} XA PREPARE since the server started), which are in the binlog from "
            "then on: Debezium sends their rows, and no XA ROLLBACK takes them back; cdc reconcile names such rows"
        )
        yield Finding("xa", "warn", "server", message, "commit what writes to captured tables without XA PREPARE")
    there = tables_there(answers)
    known = {TableId(schema, table) for schema, table in answers["keys"]} | {*keyed}
    for table in tables:
        if table in later and table not in there:
            continue
        lacking = ", ".join(one for one in ("SELECT", *(written or {}).get(table, ())) if not may(rights, one, table))
        if lacking or table in known or table not in there:
            yield _table_finding(table, role, is_seen=table in there, lacking=lacking)
        else:
            yield _keyless_finding(table, variables)


def tables_there(answers: Mapping[str, Rows]) -> set[TableId]:
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
    setting, statement = binlog_gaps.one_place(variables)
    if setting:
        message = f"has no primary key, and {setting}: rows of a transaction's second statement would be taken for a replay"
        return Finding("key", "fail", str(table), message, f"{mend}, or {statement}")
    return Finding("key", "warn", str(table), "has no primary key: its rows are appended", mend)


def _settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    wanted = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
    for name, value in wanted.items():
        found = variables.get(name, "not set").upper()
        if found == value:
            yield Finding(name, "ok", "server", f"{name} is {value}")
        elif name == "log_bin":
            mend = "log_bin = mysql-bin in my.cnf, without skip-log-bin; then restart the server"
            yield Finding(name, "fail", "server", "there is no binlog", mend)
        else:
            message = f"{name} is {found}: rows are not in the log whole; sessions that are open keep it until they reconnect"
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


def _filters(tables: Sequence[TableId], answers: Mapping[str, Rows]) -> Iterator[Finding]:
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
    found = (match.group(1, 3, 5) for match in _FOREIGN_KEY.finditer(definition))
    return [(*table, name.replace("``", "`"), d or "RESTRICT", u or "RESTRICT") for name, d, u in found if d or u]


def _cascades(tables: Sequence[TableId], answers: Mapping[str, Rows], variables: Mapping[str, str]) -> Iterator[Finding]:
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


def _variables(answers: Mapping[str, Rows]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in answers["variables"]}


def _version(variables: Mapping[str, str]) -> tuple[int, ...]:
    """MySQL's; (0,) of a MariaDB."""
    found = re.match(r"(\d+)\.(\d+)", variables.get("version", ""))
    return tuple(map(int, found.groups())) if found and "gtid_mode" in variables else (0,)


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
