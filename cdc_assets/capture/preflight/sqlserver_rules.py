"""SQL Server: change data capture of the database and of each table, and the agent that runs it. Queries, what their
answers mean, and who asks them.

https://learn.microsoft.com/sql/relational-databases/track-changes/enable-and-disable-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cdc_assets.capture.preflight import driver_inspection
from cdc_assets.capture.preflight.inspection import NOT_SEEN, Finding
from cdc_assets.registry.databases import SqlServer
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import UnaskedSource
from spark.errors import quantity
from spark.table.identifiers import quote

QUERIES = {
    "database": "SELECT name, is_cdc_enabled, snapshot_isolation_state FROM sys.databases WHERE name = DB_NAME()",
    "agent": "SELECT status_desc FROM sys.dm_server_services WHERE servicename LIKE 'SQL Server Agent%'",
    "tables": "SELECT s.name, t.name, t.is_tracked_by_cdc, "
    "CASE WHEN EXISTS (SELECT 1 FROM sys.key_constraints k WHERE k.parent_object_id = t.object_id AND k.type = 'PK') "
    "THEN 1 ELSE 0 END FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id",
    "instances": "SELECT OBJECT_SCHEMA_NAME(source_object_id), OBJECT_NAME(source_object_id), capture_instance, "
    "(SELECT COUNT(*) FROM sys.columns c WHERE c.object_id = source_object_id) - "
    "(SELECT COUNT(*) FROM cdc.captured_columns cc WHERE cc.object_id = ct.object_id) FROM cdc.change_tables ct "
    "ORDER BY ct.create_date",
    "jobs": "SELECT job_type, retention FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()",
}
LEAST_RETENTION_MINUTES = 3 * 1440
_START_AGENT = (
    "EXEC master.dbo.xp_servicecontrol N'START', N'SQLServerAGENT' "
    "(on Linux: mssql-conf set sqlagent.enabled true, then restart mssql-server)"
)


def is_answerable(name: str, answers: Mapping[str, driver_inspection.Rows]) -> bool:
    """Whether the query has anything to ask: a database without CDC has no schema `cdc`, and maybe no job in msdb."""
    return name not in ("instances", "jobs") or bool("database" in answers and answers["database"][0][1])


def allowing(name: str, user: str) -> str:
    """What lets the role ask the query."""
    role = quote(user, sign="[")
    if name == "agent":
        return f"USE master; GRANT VIEW SERVER STATE TO {role}"
    if name == "jobs":
        return f"USE msdb; CREATE USER {role} FOR LOGIN {role}; GRANT SELECT ON dbo.cdc_jobs TO {role}"
    return f"GRANT SELECT ON SCHEMA::cdc TO {role}"


def findings(
    tables: Sequence[TableId],
    answers: Mapping[str, driver_inspection.Rows],
    *,
    snapshot_isolation: bool = True,
    user: str = "cdc",
) -> Iterator[Finding]:
    """Answers of the queries by their names; only `database` and `tables` must be there."""
    name, enabled, isolation = answers["database"][0]
    if not enabled:
        yield Finding("database_cdc", "fail", name, "has no change data capture", "EXEC sys.sp_cdc_enable_db")
    else:
        yield Finding("database_cdc", "ok", name, "has change data capture")
    if snapshot_isolation and isolation != 1:
        mend = f"ALTER DATABASE {quote(name, sign='[')} SET ALLOW_SNAPSHOT_ISOLATION ON"
        yield Finding("snapshot_isolation", "fail", name, "does not allow snapshot isolation, which the snapshot uses", mend)
    # Capture and cleanup are jobs of SQL Server Agent: without it the change tables stand still.
    # https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
    running = [row[0] for row in answers.get("agent", ())]
    if running and running != ["Running"]:
        yield Finding("agent", "fail", "server", f"SQL Server Agent is {running[0]}: nothing is captured", _START_AGENT)
    jobs = answers.get("jobs", ())
    if enabled and jobs and "capture" not in {job for job, _ in jobs}:
        message = "has no capture job: the log is not read into the change tables"
        yield Finding("capture_job", "fail", name, message, "EXEC sys.sp_cdc_add_job @job_type = N'capture'")
    for job, retention in jobs:
        # In minutes; 4320, three days, where nobody has changed it.
        if job == "cleanup" and retention < LEAST_RETENTION_MINUTES:
            mend = "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080"
            message = f"changes are kept {retention / 60:.0f} h: a connector that is down for longer needs a snapshot"
            yield Finding("retention", "warn", name, message, mend, safe=True)
    there = {TableId(schema, table): (tracked, key) for schema, table, tracked, key in answers["tables"]}
    instances: dict[TableId, list[tuple[str, int]]] = {}
    for schema, table, instance, lacking in answers.get("instances", ()):
        instances.setdefault(TableId(schema, table), []).append((instance, lacking))
    for table_id in tables:
        yield from _table(table_id, there.get(table_id), instances.get(table_id, []), user)


def _table(table: TableId, about: tuple[bool, int] | None, instances: list[tuple[str, int]], user: str) -> Iterator[Finding]:
    name = str(table)
    schema, short = (name.replace("'", "''") for name in table)
    if about is None:
        yield Finding("table", "fail", name, NOT_SEEN, "correct its name in the registry, or create it")
        return
    tracked, key = about
    enable = f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{short}', @role_name = NULL"
    if not tracked:
        yield Finding("table_cdc", "fail", name, "is not tracked by CDC (sys.tables.is_tracked_by_cdc = 0)", enable)
        return
    if not instances:
        message = "is tracked, but its capture instance is not to be seen: the role may not read cdc.change_tables"
        yield Finding("capture_instance", "warn", name, message, f"GRANT SELECT ON SCHEMA::cdc TO {quote(user, sign='[')}")
    elif len(instances) > 1:
        # A table has at most two. A new column comes into a new one alone, so both taken is a change that nobody can capture.
        # https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
        old = instances[0][0].replace("'", "''")
        mend = (
            f"EXEC sys.sp_cdc_disable_table @source_schema = N'{schema}', @source_name = N'{short}', @capture_instance = N'{old}'"
        )
        message = "has both of its two capture instances: the next column has no place; drop the older one once it is read out"
        yield Finding("capture_instance", "warn", name, message, mend)
    elif instances[0][1] > 0:
        message = f"has {quantity(instances[0][1], 'column')} that capture instance {instances[0][0]} has not: no event has them"
        yield Finding("capture_instance", "fail", name, message, f"{enable}, @capture_instance = N'{schema}_{short}_2'")
    else:
        yield Finding("table_cdc", "ok", name, "is tracked, with all its columns" + ("" if key else "; it has no primary key"))


def _findings(source: UnaskedSource, tables: list[TableId], answers: driver_inspection.Answers, user: str) -> Iterator[Finding]:
    isolated = expect(source.database, SqlServer).snapshot_isolation == "snapshot"
    return findings(tables, answers, snapshot_isolation=isolated, user=user)


SQLSERVER_RULES = driver_inspection.SqlRules(QUERIES, frozenset({"database", "tables"}), _findings, allowing, asked=is_answerable)
inspect = SQLSERVER_RULES.inspect
