"""The Debezium MySQL connector: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/mysql.html
"""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.connectors import debezium_common as common
from cdc_assets.connectors.certificates import binlog_tls
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, MySql)
    return {
        **common.base_settings(source, "mysql.MySqlConnector"),
        **common.database_settings(database),
        **common.NAMED_COLUMNS,
        **binlog_tls(database),
        **common.BINLOG_SESSION,
        # Without TLS a password that the server has forgotten (restart, FLUSH PRIVILEGES) goes under its public key, which
        # the driver asks for only when it is told to: caching_sha2_password.
        **({"driver.allowPublicKeyRetrieval": "true"} if database.mode_at(settings.resolve(database.host)) == "disabled" else {}),
        "database.server.id": str(common.server_id(source)),
        **({"database.connectionTimeZone": database.time_zone} if database.time_zone else {}),
        "database.include.list": ",".join(sorted({common.exact_pattern(t.id.schema) for t in source.tables})),
        "table.include.list": ",".join(common.exact_pattern(*t.id) for t in source.tables),
        "snapshot.locking.mode": database.snapshot_locking,
        **common.notification_settings(source),
        **schema_history(source),
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        **common.binlog_value_settings(source.values),
        "event.processing.failure.handling.mode": "fail",
        **common.record_settings(source),
    }
