"""The Debezium SQL Server connector: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html
"""

from __future__ import annotations

from cdc_assets.connectors import debezium_common as common
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.sqlserver import SqlServer


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, SqlServer)
    return {
        **common.base_settings(source, "sqlserver.SqlServerConnector"),
        **_address(database),
        "database.names": database.dbname,
        "database.encrypt": str(database.encrypt).lower(),
        "database.trustServerCertificate": str(database.trust_server_certificate).lower(),
        **({"database.applicationIntent": "ReadOnly"} if database.read_only_replica else {}),
        "table.include.list": ",".join(common.table_pattern(*t.id) for t in source.tables),
        "snapshot.isolation.mode": database.snapshot_isolation,
        **schema_history(source),
        **common.notification_settings(source),
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        **common.value_settings(source.values),
        **common.record_settings(source),
    }


def _address(database: SqlServer) -> dict[str, str]:
    """By the instance or by the port: Microsoft's driver does not look at an instance that has a port beside it.

    https://learn.microsoft.com/sql/connect/jdbc/building-the-connection-url
    """
    found = common.database_settings(database)
    if database.instance is None:
        return found
    del found["database.port"]
    return {**found, "database.instance": database.instance}
