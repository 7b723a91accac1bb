"""The rows. A new kind of database is one row here and files of its own (docs/how-to/add-a-database.md)."""

from __future__ import annotations

from typing import TypedDict

from cdc_assets.kinds.kind import Kind, Part

_ASKED = Part("cdc_assets.registry.models:Source")
_DECLARED = Part("cdc_assets.registry.unasked_source:UnaskedSource")
_NO_SERVER = "not run against a server"
_COMPATIBLE = "live on a compatible server, SecantusDB 0.7.0b3, and not on MongoDB's own"


class _InPages(TypedDict):
    source: Part
    compare: Part
    read_again: Part


class _ByBinlog(TypedDict):
    carry: Part


_IN_PAGES: _InPages = {
    "source": _DECLARED,
    "compare": Part("cdc_assets.reconcile.paged_source:compare"),
    "read_again": Part("cdc_assets.reconcile.key_signals:ask"),
}
_BY_BINLOG: _ByBinlog = {
    "carry": Part("cdc_assets.volumetry.binlog_progress:carry_by_offsets"),
}

POSTGRESQL = Kind(
    name="postgresql",
    source=_ASKED,
    model=Part("cdc_assets.registry.postgresql:Database"),
    connector=Part("cdc_assets.connectors.postgresql:capture_config"),
    debezium="postgresql.PostgresConnector",
    plugin="debezium-postgres",
    settings=frozenset({"slot", "publication", "signals"}),
    has_slot=True,
    has_schema_history=False,
    tells_place=True,
    has_commit_places=True,
    database=Part("cdc_assets.resources.databases.postgresql:PostgresDatabase"),
    cut=Part("cdc_assets.resources.databases.postgresql_cut:open_cut"),
    rows=Part("cdc_assets.resources.databases.postgresql_cut:open_rows"),
    carry=Part("cdc_assets.volumetry.log_position:carry_by_marker"),
    witness=Part("cdc_assets.volumetry.postgresql_changes:PostgresWitness"),
    preflight=Part("cdc_assets.preflight.postgresql_inspection:inspect"),
    compare=Part("cdc_assets.reconcile.standby:compare_as_declared"),
    standby=Part("cdc_assets.reconcile.postgresql_standby:standby_of"),
    read_again=Part("cdc_assets.reconcile.heal:by_signals_of_ours"),
    signals=Part("cdc_assets.resources.databases.postgresql_capture:PostgresCapture"),
    incarnation=Part("cdc_assets.identity.postgresql:verdict"),
    epoch=Part("cdc_assets.failover.postgresql:PostgresEpoch"),
    log_end=Part("cdc_assets.identity.postgresql:log_end"),
    kept_log=Part("cdc_assets.restore.postgresql_kept_log:PostgresKeptLog"),
    partitions=Part("cdc_assets.apply.postgresql_partitions:publish_by_root"),
    onboarding=Part("cdc_assets.onboarding.kinds.postgresql:PostgresKind"),
    windows=Part("cdc_assets.resources.databases.postgresql_windows:read_windows"),
    adoption=Part("cdc_assets.adoption.postgresql_adoption:PostgresAdoption"),
    traces=Part("cdc_assets.removal.postgresql:postgresql_traces"),
)
MARIADB = Kind(
    name="mariadb",
    settings=frozenset({"server_id", "signals", "schema_history"}),
    source=_ASKED,
    model=Part("cdc_assets.registry.mariadb:MariaDb"),
    connector=Part("cdc_assets.connectors.mariadb:capture_config"),
    debezium="mariadb.MariaDbConnector",
    plugin="debezium-mariadb",
    binlog="MariaDB",
    signed_words=frozenset({"INTEGER"}),  # debezium/debezium#7590, mended in 3.6.1
    tells_place=True,
    has_commit_places=True,
    dialect="mariadb",
    database=Part("cdc_assets.resources.databases.mariadb:MariaDbDatabase"),
    cut=Part("cdc_assets.resources.databases.mariadb_cut:open_cut"),
    rows=Part("cdc_assets.resources.databases.mariadb_cut:open_cut"),
    witness=Part("cdc_assets.volumetry.binlog_changes:mariadb_witness"),
    preflight=Part("cdc_assets.preflight.mariadb_inspection:inspect"),
    compare=Part("cdc_assets.reconcile.standby:compare_as_declared"),
    read_again=Part("cdc_assets.reconcile.heal:by_signals_of_ours"),
    signals=Part("cdc_assets.resources.databases.mariadb_capture:MariaDbSignals"),
    incarnation=Part("cdc_assets.identity.mariadb:verdict"),
    onboarding=Part("cdc_assets.onboarding.kinds.mariadb:MariaDbKind"),
    windows=Part("cdc_assets.resources.databases.binlog_windows:of_mariadb"),
    adoption=Part("cdc_assets.adoption.mariadb_adoption:MariaDbAdoption"),
    traces=Part("cdc_assets.removal.binlog:mariadb_traces"),
    **_BY_BINLOG,
)
MYSQL = Kind(
    name="mysql",
    source=_DECLARED,
    settings=frozenset({"server_id", "signals", "schema_history"}),
    model=Part("cdc_assets.registry.mysql:MySql"),
    connector=Part("cdc_assets.connectors.mysql:capture_config"),
    vendor_plugin="debezium-mysql",
    # Without it Connector/J asks the server for eucjpms, and a snapshot has U+FFFD for every letter beyond ASCII.
    java_module="jdk.charsets",
    debezium="mysql.MySqlConnector",
    binlog="MySQL",
    dialect="mysql",
    has_commit_places=True,
    database=Part("cdc_assets.resources.databases.mysql:MySqlDatabase"),
    cut=Part("cdc_assets.resources.databases.mysql_cut:open_cut"),
    rows=Part("cdc_assets.resources.databases.mysql_cut:open_rows"),
    connection=Part("cdc_assets.resources.rows.mysql:MySqlConnection"),
    columns=Part("cdc_assets.resources.columns.mysql:MySqlColumns"),
    witness=Part("cdc_assets.volumetry.binlog_changes:mysql_witness"),
    preflight=Part("cdc_assets.preflight.mysql_inspection:inspect"),
    signals=Part("cdc_assets.resources.databases.mysql_capture:MySqlCapture"),
    incarnation=Part("cdc_assets.identity.mysql:verdict"),
    epoch=Part("cdc_assets.failover.mysql:MySqlEpoch"),
    onboarding=Part("cdc_assets.onboarding.kinds.mysql:MySqlKind"),
    windows=Part("cdc_assets.resources.databases.binlog_windows:of_mysql"),
    adoption=Part("cdc_assets.adoption.mysql_adoption:MySqlAdoption"),
    traces=Part("cdc_assets.removal.binlog:mysql_traces"),
    compare=Part("cdc_assets.reconcile.locked_source:compare"),
    read_again=Part("cdc_assets.reconcile.key_signals:ask"),
    **_BY_BINLOG,
)
SQLSERVER = Kind(
    name="sqlserver",
    settings=frozenset({"schema_history"}),
    model=Part("cdc_assets.registry.sqlserver:SqlServer"),
    experimental=_NO_SERVER,
    connector=Part("cdc_assets.connectors.sqlserver:capture_config"),
    debezium="sqlserver.SqlServerConnector",
    plain_patterns=True,
    plugin="debezium-sqlserver",
    connection=Part("cdc_assets.resources.rows.sqlserver:SqlServerConnection"),
    columns=Part("cdc_assets.resources.columns.sqlserver:SqlServerColumns"),
    preflight=Part("cdc_assets.preflight.sqlserver_inspection:inspect"),
    carry=Part("cdc_assets.volumetry.marker_row:carry_by_row"),
    onboarding=Part("cdc_assets.onboarding.kinds.sqlserver:SqlServerKind"),
    adoption=Part("cdc_assets.adoption.sqlserver_adoption:SqlServerAdoption"),
    **_IN_PAGES,
)
ORACLE = Kind(
    name="oracle",
    settings=frozenset({"schema_history"}),
    model=Part("cdc_assets.registry.oracle:Oracle"),
    experimental=_NO_SERVER,
    connector=Part("cdc_assets.connectors.oracle:capture_config"),
    debezium="oracle.OracleConnector",
    plain_patterns=True,
    vendor_plugin="debezium-oracle",
    connection=Part("cdc_assets.resources.rows.oracle:OracleConnection"),
    columns=Part("cdc_assets.resources.columns.oracle:OracleColumns"),
    preflight=Part("cdc_assets.preflight.oracle_inspection:inspect"),
    carry=Part("cdc_assets.volumetry.marker_row:carry_by_row"),
    onboarding=Part("cdc_assets.onboarding.kinds.oracle:OracleKind"),
    **_IN_PAGES,
)
MONGODB = Kind(
    name="mongodb",
    model=Part("cdc_assets.registry.mongodb:MongoDb"),
    experimental=_COMPATIBLE,
    connector=Part("cdc_assets.connectors.mongodb:capture_config"),
    debezium="mongodb.MongoDbConnector",
    plain_patterns=True,
    plugin="debezium-mongodb",
    has_schema_history=False,
    envelope="debezium-mongodb",
    pages=Part("cdc_assets.resources.rows.mongodb:MongoDbReader"),
    columns=Part("cdc_assets.resources.columns.mongodb:MongoDbColumns"),
    by_sample=True,
    preflight=Part("cdc_assets.preflight.mongodb_inspection:inspect"),
    carry=Part("cdc_assets.volumetry.marker_row:carry_by_row"),
    onboarding=Part("cdc_assets.onboarding.kinds.mongodb:MongoDbKind"),
    **_IN_PAGES,
)
TOPICS = Kind(
    name="topics",
    source=Part("cdc_assets.registry.topic_source:TopicSource"),
    has_schema_history=False,
    compare=Part("cdc_assets.reconcile.by_topic:compare"),
)

ROWS: tuple[Kind, ...] = (POSTGRESQL, MARIADB, MYSQL, SQLSERVER, ORACLE, MONGODB, TOPICS)
