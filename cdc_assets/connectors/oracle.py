"""The Debezium Oracle connector by LogMiner: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/oracle.html
"""

from __future__ import annotations

from cdc_assets.connectors import debezium_common as common
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.oracle import Oracle


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, Oracle)
    return {
        **common.base_settings(source, "oracle.OracleConnector"),
        **common.database_settings(database),
        "database.dbname": database.dbname,
        **({"database.pdb.name": database.pdb} if database.pdb else {}),
        "database.connection.adapter": "logminer",
        "log.mining.strategy": database.mining,
        "lob.enabled": str(database.lobs).lower(),
        "table.include.list": ",".join(common.table_pattern(*t.id) for t in source.tables),
        **schema_history(source),
        **common.notification_settings(source),
        # Moves the mining start on while nothing of ours is written: old archived logs may then be deleted.
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        **common.value_settings(source.values),
        "interval.handling.mode": source.values.interval,
        **common.record_settings(source),
    }
