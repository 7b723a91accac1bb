"""The Debezium SQL Server connector: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html
"""

from __future__ import annotations

from cdc_assets import names, settings
from cdc_assets.connectors.debezium_common import heartbeat_ms, password_placeholder, record_settings, table_pattern
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.sqlserver import SqlServer


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database, values = source.database, source.values
    assert isinstance(database, SqlServer)
    return {
        "name": names.connector_name(source),
        "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
        "tasks.max": "1",
        "database.hostname": settings.resolve(database.host),
        "database.port": settings.resolve(database.port),
        **({"database.instance": database.instance} if database.instance else {}),
        "database.names": database.dbname,
        "database.user": settings.resolve(database.user),
        "database.password": password_placeholder(database.password),
        "database.encrypt": str(database.encrypt).lower(),
        "database.trustServerCertificate": str(database.trust_server_certificate).lower(),
        **({"database.applicationIntent": "ReadOnly"} if database.read_only_replica else {}),
        "topic.prefix": source.name,
        "table.include.list": ",".join(table_pattern(*t.id) for t in source.tables),
        "snapshot.mode": source.capture.snapshot,
        "snapshot.isolation.mode": database.snapshot_isolation,
        **schema_history(source),
        "heartbeat.interval.ms": heartbeat_ms(source),
        "decimal.handling.mode": values.decimal,
        "time.precision.mode": values.temporal,
        "binary.handling.mode": values.binary,
        **record_settings(source),
    }
