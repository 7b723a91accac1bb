"""The Debezium MySQL connector: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/mysql.html
"""

from __future__ import annotations

from cdc_assets import names, settings
from cdc_assets.connectors.certificates import binlog_tls
from cdc_assets.connectors.debezium_common import exact_pattern, heartbeat_ms, password_placeholder, record_settings, server_id
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database, values = source.database, source.values
    assert isinstance(database, MySql)
    return {
        "name": names.connector_name(source),
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "database.hostname": settings.resolve(database.host),
        "database.port": settings.resolve(database.port),
        "database.user": settings.resolve(database.user),
        "database.password": password_placeholder(database.password),
        **binlog_tls(database),
        # Without TLS a password that the server has forgotten (restart, FLUSH PRIVILEGES) goes under its public key, which
        # the driver asks for only when it is told to: caching_sha2_password.
        **({"driver.allowPublicKeyRetrieval": "true"} if database.mode_at(settings.resolve(database.host)) == "disabled" else {}),
        "database.server.id": str(server_id(source)),
        **({"database.connectionTimeZone": database.time_zone} if database.time_zone else {}),
        "topic.prefix": source.name,
        "database.include.list": ",".join(sorted({exact_pattern(t.id.schema) for t in source.tables})),
        "table.include.list": ",".join(exact_pattern(*t.id) for t in source.tables),
        "snapshot.mode": source.capture.snapshot,
        "snapshot.locking.mode": database.snapshot_locking,
        # What an incremental snapshot has read is told there (onboarding).
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": names.notification_topic(source),
        **schema_history(source),
        "heartbeat.interval.ms": heartbeat_ms(source),
        "decimal.handling.mode": values.decimal,
        "time.precision.mode": values.temporal,
        # The default turns what is above 2^63 into negative numbers.
        "bigint.unsigned.handling.mode": values.unsigned,
        "binary.handling.mode": values.binary,
        # The default takes the years 0 to 99 for 1970 to 2069.
        "enable.time.adjuster": "false",
        "event.processing.failure.handling.mode": "fail",
        "inconsistent.schema.handling.mode": "fail",
        **record_settings(source),
    }
