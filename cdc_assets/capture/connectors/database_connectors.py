"""The Debezium connectors for MariaDB, MySQL, SQL Server, Oracle (by LogMiner) and MongoDB: registry in, Connect config out.

The table of kinds names a function for each; a source of another kind is refused.
Options: https://debezium.io/documentation/reference/3.5/connectors/mariadb.html ,
https://debezium.io/documentation/reference/3.6/connectors/mysql.html (sqlserver.html, oracle.html, mongodb.html)
"""

from __future__ import annotations

from urllib.parse import urlencode

from cdc_assets.capture.connectors import debezium_settings as common
from cdc_assets.capture.connectors.debezium_settings import binlog_tls, schema_history
from cdc_assets.capture.connectors.record_converters import password_placeholder
from cdc_assets.registry import names, settings
from cdc_assets.registry.databases import MariaDb, MongoDb, MySql, Oracle, SqlServer
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import CapturedSource


def mariadb_config(source: CapturedSource) -> dict[str, str]:
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
        "database.include.list": ",".join(sorted({common.exact_pattern(table.schema) for table in ids})),
        "table.include.list": ",".join(common.exact_pattern(*table) for table in ids),
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


def mysql_config(source: CapturedSource) -> dict[str, str]:
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


def sqlserver_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, SqlServer)
    return {
        **common.base_settings(source, "sqlserver.SqlServerConnector"),
        **_sqlserver_address(database),
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


def _sqlserver_address(database: SqlServer) -> dict[str, str]:
    """By the instance or by the port: Microsoft's driver does not look at an instance that has a port beside it.

    https://learn.microsoft.com/sql/connect/jdbc/building-the-connection-url
    """
    address = common.database_settings(database)
    if database.instance is None:
        return address
    del address["database.port"]
    return {**address, "database.instance": database.instance}


def oracle_config(source: CapturedSource) -> dict[str, str]:
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


_CAPTURE_MODES = {"full": "change_streams_update_full", "with_pre_image": "change_streams_update_full_with_pre_image"}
# MongoDB has no TRUNCATE, and no message key columns: a document's key is its _id.
_NOT_HERE = ("message.key.columns",)


def mongodb_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. User and password are no part of the connection string."""
    database = expect(source.database, MongoDb)
    hosts = settings.resolve(database.hosts)
    options = {"replicaSet": database.replica_set, "tls": "true" if database.encrypts(hosts) else None}
    query = urlencode({key: value for key, value in options.items() if value})
    records = {key: value for key, value in common.record_settings(source).items() if key not in _NOT_HERE}
    return {
        **common.base_settings(source, "mongodb.MongoDbConnector"),
        "mongodb.connection.string": f"mongodb://{hosts}/" + (f"?{query}" if query else ""),
        "mongodb.user": settings.resolve(database.user),
        "mongodb.password": password_placeholder(database.password),
        "mongodb.authsource": database.auth_source,
        "database.include.list": ",".join(sorted({common.table_pattern(t.id.schema) for t in source.tables})),
        "collection.include.list": ",".join(common.table_pattern(*t.id) for t in source.tables),
        "capture.mode": _CAPTURE_MODES[database.images],
        **common.notification_settings(source),
        # A resume token of long ago is gone from the oplog: an idle collection must move on as well.
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        **records,
    }
