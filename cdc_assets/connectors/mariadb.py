"""The Debezium MariaDB connector of a source: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.5/connectors/mariadb.html
"""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.connectors import debezium_common as common
from cdc_assets.connectors.certificates import binlog_tls
from cdc_assets.connectors.schema_history import schema_history
from cdc_assets.kinds import expect
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, MariaDb)
    # The signal table may be made later: the connector then sees its definition in the binlog.
    ids = (*(table.id for table in source.tables), names.signal_table(source))
    return {
        **common.base_settings(source, "mariadb.MariaDbConnector"),
        **common.database_settings(database),
        **common.NAMED_COLUMNS,
        **binlog_tls(database),
        **common.BINLOG_SESSION,
        "database.server.id": str(common.server_id(source)),
        "database.include.list": ",".join(sorted({common.exact_pattern(each.schema) for each in ids})),
        "table.include.list": ",".join(common.exact_pattern(*each) for each in ids),
        **common.source_signal_settings(source),
        **common.notification_settings(source),
        # Without it the snapshot is of one moment only as long as nobody writes.
        "snapshot.locking.mode": "minimal",
        **schema_history(source),
        # A definition that Debezium cannot parse stops it: those of tables that nobody wants are not read.
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        # An offset is stored with a record only: this one carries the connector past what it does not capture.
        "heartbeat.interval.ms": str(min(500, int(common.heartbeat_ms(source)))),
        **common.binlog_value_settings(source.values),
        **common.record_settings(source),
    }
