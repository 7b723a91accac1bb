"""SQL Server: each table, the signal table too, needs a capture instance before; preflight names the statement.

`sys.sp_cdc_enable_table` takes a lock that no writer's transaction outlives, so nobody wrote before and commits later.
https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html#sqlserver-incremental-snapshots
"""

from __future__ import annotations

from cdc_assets.onboarding.kinds.signalled import SignalledKind
from cdc_assets.preflight import by_driver
from cdc_assets.preflight.sqlserver_inspection import RULES
from cdc_assets.registry.identifiers import TableId
from spark.delta.identifiers import quote


class SqlServerKind(SignalledKind):
    """Onboarding of tables in SQL Server (`work.OnboardingKind`)."""

    def ask(self) -> by_driver.Ask:
        """Change data capture of the database and of each table."""
        return RULES.ask

    def signal_statements(self, table: TableId, user: str) -> str:
        """Made, and captured: watermarks are rows of it."""
        name = quote(*table, sign="[")
        schema, short = (part.replace("'", "''") for part in table)
        return (
            f"CREATE TABLE {name} (id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data varchar(max)); "
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{short}', @role_name = NULL; "
            f"GRANT SELECT, INSERT, DELETE ON {name} TO {quote(user, sign='[')}"
        )
