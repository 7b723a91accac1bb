"""Oracle: archived redo logs and supplemental logging, as LogMiner needs them. Queries, what their answers mean, and who
asks them.

https://debezium.io/documentation/reference/3.6/connectors/oracle.html#setting-up-oracle
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cdc_assets.capture.preflight import driver_inspection
from cdc_assets.capture.preflight.inspection import NOT_SEEN, Finding
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import UnaskedSource
from spark.table.identifiers import double_quote

# {name: query}; `tables` and `log_groups` take the owners' names.
QUERIES = {
    "database": "SELECT log_mode, supplemental_log_data_min, supplemental_log_data_all, "
    "(SELECT ROUND((SYSDATE - MIN(first_time)) * 24) FROM v$archived_log WHERE deleted = 'NO') FROM v$database",
    "tables": "SELECT t.owner, t.table_name, (SELECT COUNT(*) FROM all_constraints c WHERE c.owner = t.owner "
    "AND c.table_name = t.table_name AND c.constraint_type = 'P') FROM all_tables t "
    "WHERE t.owner IN ({schemas})",
    "log_groups": "SELECT owner, table_name, log_group_type FROM all_log_groups WHERE owner IN ({schemas})",
    "redo": "SELECT COUNT(*), MIN(bytes) / 1048576 FROM v$log",
}
LEAST_ARCHIVED_HOURS = 72
_KEEP = "CONFIGURE RETENTION POLICY TO RECOVERY WINDOW OF 7 DAYS"
# Below, logs switch so often that each switch costs the miner more than what it reads (Debezium's own advice).
LEAST_REDO_MB = 400
LONGEST_NAME = 30


def allowing(name: str, user: str) -> str:
    """What lets the role ask the query."""
    views = {"database": ("V_$DATABASE", "V_$ARCHIVED_LOG"), "redo": ("V_$LOG",)}.get(name, ("ALL_TABLES",))
    return "; ".join(f"GRANT SELECT ON {view} TO {user}" for view in views)


def findings(
    tables: Sequence[TableId], answers: Mapping[str, driver_inspection.Rows], *, keyed: Collection[TableId] = ()
) -> Iterator[Finding]:
    """Answers of the queries by their names, of which `tables` and `log_groups` must be there; `keyed`: the registry declares
    what their rows are known by."""
    everything = None
    if "database" in answers:
        everything = answers["database"][0][2] == "YES"
        yield from _database(*answers["database"][0])
    if "redo" in answers:
        groups, size = answers["redo"][0]
        if size is not None and size < LEAST_REDO_MB:
            message = f"its redo logs ({groups}) have {size:.0f} MB: they switch often, and mining slows down"
            yield Finding("redo_size", "warn", "database", message, "ALTER DATABASE ADD LOGFILE SIZE 1G, once for each group")
    keys = {TableId(owner, table): bool(key) for owner, table, key in answers["tables"]}
    logged = {TableId(owner, table) for owner, table, kind in answers["log_groups"] if kind == "ALL COLUMN LOGGING"}
    for table in tables:
        key = keys[table] or table in keyed if table in keys else None
        yield from _table(table, key, everything=table in logged or everything)


def _database(mode: str, minimal: str, _: str, hours: float | None) -> Iterator[Finding]:
    if mode != "ARCHIVELOG":
        mend = "SHUTDOWN IMMEDIATE; STARTUP MOUNT; ALTER DATABASE ARCHIVELOG; ALTER DATABASE OPEN"
        yield Finding("archive_log", "fail", "database", f"log_mode is {mode}: redo is overwritten before it is read", mend)
    else:
        yield Finding("archive_log", "ok", "database", "redo is archived")
    if minimal == "NO":
        mend = "ALTER DATABASE ADD SUPPLEMENTAL LOG DATA"
        yield Finding("supplemental_minimal", "fail", "database", "has no minimal supplemental logging", mend)
    if hours is not None and hours < LEAST_ARCHIVED_HOURS:
        message = f"archived logs go back {hours} h: a connector that is down for longer loses its position"
        yield Finding("retention", "warn", "database", message, f"RMAN> {_KEEP}")


def _table(table: TableId, key: bool | None, *, everything: bool | None) -> Iterator[Finding]:
    name = str(table)
    if key is None:
        yield Finding(
            "table", "fail", name, f"{NOT_SEEN} (names are as in the dictionary, mostly upper case)", "correct its name"
        )
        return
    if everything is False:
        mend = f"ALTER TABLE {double_quote(*table)} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS"
        yield Finding("supplemental_table", "fail", name, "logs only what changes: an update's other columns would be NULL", mend)
    elif not key:
        yield Finding(
            "key",
            "warn",
            name,
            "has no primary key: its rows are appended",
            f"ALTER TABLE {double_quote(*table)} ADD PRIMARY KEY (…), or declare keys in the registry",
        )
    else:
        yield Finding("table", "ok", name, "logs all columns and has a key" if everything else "exists and has a key")
    # Oracle itself takes 128 bytes since 12.2; LogMiner has kept the older limit.
    if any(len(name) > LONGEST_NAME for name in table):
        message = f"its name is longer than {LONGEST_NAME} characters: LogMiner does not mine it"
        yield Finding("name", "fail", name, message, "rename it, or leave it out")


def _findings(source: UnaskedSource, tables: list[TableId], answers: driver_inspection.Answers, user: str) -> Iterator[Finding]:
    return findings(tables, answers, keyed=driver_inspection.with_known_key(source, tables))


ORACLE_RULES = driver_inspection.SqlRules(QUERIES, frozenset({"tables", "log_groups"}), _findings, allowing)
inspect = ORACLE_RULES.inspect
