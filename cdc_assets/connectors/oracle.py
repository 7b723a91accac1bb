"""The Debezium Oracle connector by LogMiner: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/oracle.html
"""

from __future__ import annotations

from cdc_assets import names, settings
from cdc_assets.connectors.debezium_common import heartbeat_ms, password_placeholder, record_settings, table_pattern
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.oracle import Oracle


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database, values = source.database, source.values
    assert isinstance(database, Oracle)
    return {
        "name": names.connector_name(source),
        "connector.class": "io.debezium.connector.oracle.OracleConnector",
        "tasks.max": "1",
        "database.hostname": settings.resolve(database.host),
        "database.port": settings.resolve(database.port),
        "database.dbname": database.dbname,
        **({"database.pdb.name": database.pdb} if database.pdb else {}),
        "database.user": settings.resolve(database.user),
        "database.password": password_placeholder(database.password),
        "database.connection.adapter": "logminer",
        "log.mining.strategy": database.mining,
        "lob.enabled": str(database.lobs).lower(),
        "topic.prefix": source.name,
        "table.include.list": ",".join(table_pattern(*t.id) for t in source.tables),
        "snapshot.mode": source.capture.snapshot,
        **schema_history(source),
        # Moves the mining start on while nothing of ours is written: old archived logs may then be deleted.
        "heartbeat.interval.ms": heartbeat_ms(source),
        "decimal.handling.mode": values.decimal,
        "time.precision.mode": values.temporal,
        "interval.handling.mode": values.interval,
        "binary.handling.mode": values.binary,
        **record_settings(source),
    }
