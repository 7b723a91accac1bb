"""The Debezium MariaDB connector of a source: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.5/connectors/mariadb.html
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets import names, settings
from cdc_assets.connectors.records import password_placeholder, record_settings, server_id, server_id_of, table_pattern
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource, Source, Table

_SCHEMA_ONLY = "snapshot.mode.configuration.based"


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database, capture, values = source.database, source.capture, source.values
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
        "database.ssl.mode": database.sslmode,
        "database.server.id": str(server_id(source)),
        "topic.prefix": source.name,
        "database.include.list": ",".join(sorted({table_pattern(each.schema) for each in ids})),
        "table.include.list": ",".join(table_pattern(*each) for each in ids),
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
        # Exact values as text or integers by default, so that JSON carries them without a schema beside each message.
        "decimal.handling.mode": values.decimal,
        "time.precision.mode": values.temporal,
        "bigint.unsigned.handling.mode": values.unsigned,
        "binary.handling.mode": values.binary,
        # The default takes the years 0 to 99 for 1970 to 2069.
        "enable.time.adjuster": "false",
        "inconsistent.schema.handling.mode": "fail",
        **record_settings(source),
    }


def temporary_config(source: Source, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing.

    Its rows carry the place at which it read them, under a lock: whatever lies below is in them, and nothing else.
    """
    return {**_beside(source, tables), "snapshot.mode": "initial_only"}


def definitions_config(source: Source, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that writes these tables' definitions into a history of its own, and reads neither rows nor the log."""
    config = {key: value for key, value in _beside(source, tables).items() if not key.startswith("notification.")}
    return {
        **config,
        "snapshot.mode": "configuration_based",
        f"{_SCHEMA_ONLY}.snapshot.schema": "true",
        f"{_SCHEMA_ONLY}.snapshot.data": "false",
        f"{_SCHEMA_ONLY}.start.stream": "false",
        # No row is read: what has changed meanwhile is looked for in the binlog.
        "snapshot.locking.mode": "none",
    }


def _beside(source: Source, tables: Sequence[Table]) -> dict[str, str]:
    config = capture_config(source.model_copy(update={"tables": tuple(tables)}))
    name = names.temporary(config["name"])
    kept = {key: value for key, value in config.items() if not key.startswith(("signal.", "heartbeat."))}
    return {
        **kept,
        "name": name,
        "database.server.id": str(server_id_of(name)),
        "database.include.list": ",".join(sorted({table_pattern(table.id.schema) for table in tables})),
        "table.include.list": ",".join(table_pattern(*table.id) for table in tables),
        "schema.history.internal.kafka.topic": names.temporary_schema_history_topic(source),
        # Two connectors with one topic prefix in one worker would register one and the same JMX bean.
        "custom.metric.tags": "role=onboard",
    }
