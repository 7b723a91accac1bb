"""The Debezium MariaDB connector of a source: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.5/connectors/mariadb.html
"""

from __future__ import annotations

from cdc_assets import names, settings
from cdc_assets.connectors.certificates import binlog_tls
from cdc_assets.connectors.debezium_common import exact_pattern, password_placeholder, record_settings, server_id
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.value_forms import ValueForms


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database, capture = source.database, source.capture
    assert isinstance(database, MariaDb)
    # The signal table may be made later: the connector then sees its definition in the binlog.
    ids = (*(table.id for table in source.tables), names.signal_table(source))
    return {
        "name": names.connector_name(source),
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": settings.resolve(database.host),
        "database.port": settings.resolve(database.port),
        "database.user": settings.resolve(database.user),
        "database.password": password_placeholder(database.password),
        **binlog_tls(database),
        "database.server.id": str(server_id(source)),
        "topic.prefix": source.name,
        "database.include.list": ",".join(sorted({exact_pattern(each.schema) for each in ids})),
        "table.include.list": ",".join(exact_pattern(*each) for each in ids),
        # Rows are asked for again in the log itself, so that the connector knows what it has read before and after.
        "signal.enabled.channels": "source",
        "signal.data.collection": ".".join(names.signal_table(source)),
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": names.notification_topic(source),
        "snapshot.mode": capture.snapshot,
        # Without it the snapshot is of one moment only as long as nobody writes.
        "snapshot.locking.mode": "minimal",
        **schema_history(source),
        # A definition that Debezium cannot parse stops it: those of tables that nobody wants are not read.
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        # An offset is stored with a record only: this one carries the connector past what it does not capture.
        "heartbeat.interval.ms": str(min(500, int(capture.heartbeat.total_seconds() * 1000))),
        **_value_modes(source.values),
        "inconsistent.schema.handling.mode": "fail",
        **record_settings(source),
    }


def _value_modes(values: ValueForms) -> dict[str, str]:
    return {
        # Exact values as text or integers by default, so that JSON carries them without a schema beside each message.
        "decimal.handling.mode": values.decimal,
        "time.precision.mode": values.temporal,
        "bigint.unsigned.handling.mode": values.unsigned,
        "binary.handling.mode": values.binary,
        # The default takes the years 0 to 99 for 1970 to 2069.
        "enable.time.adjuster": "false",
    }
