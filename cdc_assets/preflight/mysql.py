"""MySQL and MariaDB: the binlog as Debezium needs it. Queries, and what their answers mean; pure.

https://debezium.io/documentation/reference/3.6/connectors/mysql.html#setting-up-mysql
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.preflight.finding import NOT_SEEN, Finding
from cdc_assets.preflight.sql_text import table_name
from cdc_assets.registry.identifiers import TableId

Rows = Sequence[Sequence[Any]]

# {name: query}; `tables` and `keys` take the databases' names.
QUERIES = {
    "variables": "SHOW GLOBAL VARIABLES WHERE Variable_name IN "
    "('log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_value_options', 'server_id', "
    "'binlog_expire_logs_seconds', 'expire_logs_days', 'gtid_mode', 'enforce_gtid_consistency', 'gtid_domain_id')",
    "grants": "SHOW GRANTS",
    "tables": "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_schema IN ({schemas})",
    # A user who may only read does not see table_constraints.
    "keys": "SELECT DISTINCT table_schema, table_name FROM information_schema.statistics "
    "WHERE index_name = 'PRIMARY' AND table_schema IN ({schemas})",
}
# A connector that was down for a weekend must find its position again.
LEAST_RETENTION_SECONDS = 3 * 86400
# A server goes from OFF to ON by one step at a time, each taken by all servers of the topology.
_GTID = "; ".join(
    f"SET GLOBAL {step}"
    for step in ("enforce_gtid_consistency = ON", *(f"gtid_mode = {mode}" for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")))
)


def allowing(_name: str, user: str) -> str:
    """What lets the role ask the query."""
    return f"GRANT SELECT ON *.* TO '{user}'@'%'"


def findings(
    tables: Sequence[TableId], answers: Mapping[str, Rows], *, user: str = "cdc", keyed: Collection[TableId] = ()
) -> Iterator[Finding]:
    """Answers of the queries by their names; `keyed`: the registry declares what their rows are known by."""
    variables = {str(name).lower(): str(value) for name, value in answers["variables"]}
    wanted = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
    for name, value in wanted.items():
        found = variables.get(name, "not set").upper()
        if found == value:
            yield Finding(name, "ok", "server", f"{name} is {value}")
        elif name == "log_bin":
            yield Finding(name, "fail", "server", "there is no binlog", "log_bin = mysql-bin in my.cnf; then restart the server")
        else:
            yield Finding(
                name, "fail", "server", f"{name} is {found}: rows are not in the log whole", f"SET GLOBAL {name} = '{value}'"
            )
    if variables.get("binlog_row_value_options"):
        message = f"binlog_row_value_options is {variables['binlog_row_value_options']}: only parts of JSON values are in the log"
        yield Finding("binlog_row_value_options", "fail", "server", message, "SET GLOBAL binlog_row_value_options = ''")
    yield _retention(variables)
    if "gtid_mode" in variables and variables["gtid_mode"].upper() != "ON":
        message = "gtid_mode is off: after a failover the connector cannot find its position on another server"
        yield Finding("gtid", "warn", "server", message, _GTID)
    granted = " ".join(str(row[0]) for row in answers["grants"]).upper()
    needed = ("SELECT", "RELOAD", "REPLICATION SLAVE", ("REPLICATION CLIENT", "BINLOG MONITOR"))
    missing = [one for one in needed if not _granted(granted, one)]
    if missing:
        names = [one if isinstance(one, str) else one[0] for one in missing]
        yield Finding(
            "privileges", "fail", "server", f"lacks {', '.join(names)}", f"GRANT {', '.join(names)} ON *.* TO '{user}'@'%'"
        )
    there = {TableId(schema, table): engine for schema, table, engine in answers["tables"]}
    known = {TableId(schema, table) for schema, table in answers["keys"]} | {*keyed}
    for table in tables:
        if table not in there:
            yield Finding("table", "fail", str(table), NOT_SEEN, "correct its name in the registry, or create it")
        elif table not in known:
            mend = f"ALTER TABLE {table_name(table, '`')} ADD PRIMARY KEY (…), or declare keys in the registry"
            yield Finding("key", "warn", str(table), "has no primary key: its rows are appended", mend)
        else:
            yield Finding("table", "ok", str(table), "exists and has a key")


def _retention(variables: Mapping[str, str]) -> Finding:
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0) or 86400 * float(variables.get("expire_logs_days") or 0)
    if seconds == 0 or seconds >= LEAST_RETENTION_SECONDS:
        return Finding(
            "retention", "ok", "server", "the binlog is kept " + (f"{seconds / 86400:.1f} days" if seconds else "for ever")
        )
    message = (
        f"the binlog is kept {seconds / 3600:.0f} h: a connector that is down for longer loses its position, and needs a snapshot"
    )
    return Finding("retention", "warn", "server", message, f"SET GLOBAL binlog_expire_logs_seconds = {7 * 86400}", safe=True)


def _granted(granted: str, needed: str | tuple[str, ...]) -> bool:
    names = (needed,) if isinstance(needed, str) else needed
    return "ALL PRIVILEGES ON *.*" in granted or any(name in granted for name in names)
