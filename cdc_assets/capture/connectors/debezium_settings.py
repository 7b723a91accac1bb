"""What every Debezium connector of ours is told alike: records, topics, exactly once, passwords, TLS, logins, schema history.

TLS is the same as our own client's for the same address (clients.databases.drivers). Without a file of the source's own, Java's
authorities are asked (`javax.net.ssl.trustStore` of the worker).

The worker's own login does not reach the Kafka clients that a connector makes by itself: Debezium's schema history,
MirrorMaker's of both clusters. Their configs can be read by everybody who reaches Connect, so they hold references to the
client.properties that our own clients use (CDC_CORE_LOGIN, CDC_LAKE_LOGIN), which the worker resolves from its own file at that
path: the keys are those of our file, the user may be another one.

The schema history topic keeps the tables' definitions as they were at each position of the log. Without it the connector cannot
read its log any more, so it must never expire: Debezium makes it with infinite retention, and one partition, since its order is
its meaning.
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections.abc import Mapping
from datetime import timedelta

from cdc_assets.capture.connectors.record_converters import converter_settings, password_placeholder
from cdc_assets.registry import names, settings
from cdc_assets.registry.databases import Database, MariaDb, MySql, Oracle, SqlServer
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.names import MARKER_PREFIX
from cdc_assets.registry.record_forms import ValueForms
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import JobRefusedError
from spark.events.kafka_login import read_login

# The prefix of the logical messages that a PostgreSQL connector sends on: those of its heartbeat, and our markers.
#
# `pg_logical_emit_message` is everybody's by default. Under a prefix that is known to all, a message of 12 MB of anybody's
# would be a record that no producer sends, at each start of the connector. So each connector has a prefix of its own, drawn at
# random; its config on Connect keeps it, and messages under others are dropped by Debezium. A connector that git deploys has
# the public one: a random text would change its manifest each time that it is rendered.
# https://debezium.io/documentation/reference/3.7/connectors/postgresql.html#postgresql-property-message-prefix-include-list
DRAWN_PREFIX = "(drawn prefix)"
"""What a declared config has in its place."""
SETTING = "message.prefix.include.list"
_OWN = re.compile(rf"{MARKER_PREFIX}_[0-9a-f]{{32}}")


def settle_prefix(declared: Mapping[str, str], running: Mapping[str, str] | None) -> dict[str, str]:
    """The declared config with the running connector's prefix, else a new one; where another list is declared, its own, else the
    public one, as that list may have it."""
    listed = declared.get(SETTING, "")
    if DRAWN_PREFIX in listed:
        kept = _OWN.search((running or {}).get(SETTING, ""))
        return _with_prefix(declared, kept[0] if kept else f"{MARKER_PREFIX}_{secrets.token_hex(16)}")
    own = _OWN.search(listed)
    return _with_prefix(declared, own[0] if own else MARKER_PREFIX)


def with_public_prefix(declared: Mapping[str, str]) -> dict[str, str]:
    """The same at each rendering."""
    return _with_prefix(declared, MARKER_PREFIX)


def prefix_of(running: Mapping[str, str] | None) -> str:
    """What a running connector takes for ours."""
    own = _OWN.search((running or {}).get(SETTING, ""))
    return own[0] if own else MARKER_PREFIX


def _with_prefix(declared: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key: value.replace(DRAWN_PREFIX, prefix) for key, value in declared.items()}


# Whatever the server's mode: with PAD_CHAR_TO_FULL_LENGTH a snapshot reads the blanks of a CHAR, which the binlog has not.
BINLOG_SESSION = {"driver.sessionVariables": "sql_mode='STRICT_TRANS_TABLES'"}
# It matches no column. With any such list the chunks of an incremental snapshot name the columns that Debezium knows of the
# table; without one they are `SELECT *`, which lacks INVISIBLE columns, and has generated ones that pgoutput has not described.
NAMED_COLUMNS = {"column.exclude.list": "(?!)"}
# Above what people number their servers with by hand.
_FIRST_SERVER_ID = 1_000_000_000
SIGNALS = "signal.data.collection"


def base_settings(source: CapturedSource, connector: str) -> dict[str, str]:
    """Which connector it is, and of which source; `connector` is its class below `io.debezium.connector`."""
    return {
        "name": names.connector_name(source),
        "connector.class": f"io.debezium.connector.{connector}",
        "tasks.max": "1",
        "topic.prefix": names.topic_prefix(source),
        "snapshot.mode": source.capture.snapshot,
    }


def database_settings(database: Database | MariaDb | MySql | Oracle | SqlServer) -> dict[str, str]:
    """Where the database is and who asks. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    return {
        "database.hostname": settings.resolve(database.host),
        "database.port": settings.resolve(database.port),
        "database.user": settings.resolve(database.user),
        "database.password": password_placeholder(database.password),
    }


def value_settings(values: ValueForms) -> dict[str, str]:
    """Exact values as text or integers by default, so that JSON carries them without a schema beside each message."""
    return {
        "decimal.handling.mode": values.decimal,
        "time.precision.mode": values.temporal,
        "binary.handling.mode": values.binary,
    }


def binlog_value_settings(values: ValueForms) -> dict[str, str]:
    """What MariaDB and MySQL have besides."""
    return {
        **value_settings(values),
        # The default turns what is above 2^63 into negative numbers.
        "bigint.unsigned.handling.mode": values.unsigned,
        # The default takes the years 0 to 99 for 1970 to 2069.
        "enable.time.adjuster": "false",
        "inconsistent.schema.handling.mode": "fail",
    }


def notification_settings(source: CapturedSource) -> dict[str, str]:
    """Where the connector tells what a snapshot has read (onboarding)."""
    return {
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": names.notification_topic(source),
    }


def source_signal_settings(source: CapturedSource) -> dict[str, str]:
    """Rows are asked for again in the log itself, so that the connector knows what it has read before and after."""
    return {"signal.enabled.channels": "source", SIGNALS: ".".join(names.signal_table(source))}


def record_settings(source: BaseSource) -> dict[str, str]:
    """Settings of the records and their topics, by the registry."""
    topics = source.topics
    return {
        # The default leaves TRUNCATE out.
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        "poll.interval.ms": "250",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        **converter_settings(source),
        "topic.creation.default.partitions": str(topics.partitions),
        "topic.creation.default.replication.factor": str(topics.replication_factor or -1),
        "topic.creation.default.cleanup.policy": "delete",
        "topic.creation.default.retention.ms": retention_ms(source),
        **_message_keys(source),
    }


def retention_of(source: BaseSource, table: Table | None = None) -> timedelta:
    """How long a topic keeps a record: the table's own declaration, else the source's."""
    return (table.retention if table is not None else None) or source.topics.retention


def retention_ms(source: BaseSource, table: Table | None = None) -> str:
    """The same in milliseconds, as Kafka has it."""
    return str(int(retention_of(source, table).total_seconds() * 1000))


def heartbeat_ms(source: CapturedSource) -> str:
    """The declared heartbeat in milliseconds."""
    return str(int(source.capture.heartbeat.total_seconds() * 1000))


def server_id(source: CapturedSource) -> int:
    """As declared, else by the source's name: the same at every start, and hardly ever anybody else's."""
    return source.capture.server_id or server_id_of(source.name)


def server_id_of(name: str) -> int:
    """By a name alone."""
    return _FIRST_SERVER_ID + zlib.crc32(name.encode()) % _FIRST_SERVER_ID


def _message_keys(source: BaseSource) -> dict[str, str]:
    """Declared keys of tables become the record key, so that all events of a row share a partition.

    Debezium ignores case in these patterns: without `(?-i)` the entry of table City is also that of table city.
    https://github.com/debezium/debezium, io.debezium.relational.Key.CustomKeyMapper
    """
    entries = [
        f"(?-i){table_pattern(*table.id)}:{','.join(_literal(key) for key in table.keys)}"
        for table in source.tables
        if table.keys
    ]
    return {"message.key.columns": ";".join(entries)} if entries else {}


def table_pattern(*parts: str) -> str:
    """A name as Debezium's include lists want it: a regular expression anchored to the whole name."""
    return r"\.".join(_literal(name) for name in parts)


def exact_pattern(*parts: str) -> str:
    """The same for this case alone: Debezium matches its lists without regard to case, and would capture public.Orders as well.

    https://github.com/debezium/debezium, io.debezium.function.Predicates.includes
    """
    return f"(?-i:{table_pattern(*parts)})"


def _literal(name: str) -> str:
    """A regular expression for this name alone, without a character that Debezium splits its lists at, or trims."""
    stem = name.rstrip(" ")
    coded = [f"\\x{ord(char):02X}" if char in ",;:" or char < " " else re.escape(char) for char in stem]
    return "".join(coded) + r"\x20" * (len(name) - len(stem))


def postgresql_tls(database: Database) -> dict[str, str]:
    """A PEM file, on the worker too. Without one the driver would look for a file in the worker's home."""
    host = settings.resolve(database.host)
    config = {"database.sslmode": database.mode_at(host)}
    if database.sslrootcert:
        return {**config, "database.sslrootcert": database.sslrootcert}
    javas = {"database.sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory"}
    return {**config, **javas} if database.verifies(host) else config


def binlog_tls(database: MariaDb | MySql) -> dict[str, str]:
    """A Java keystore: certificates alone need no password."""
    mode = {"database.ssl.mode": database.mode_at(settings.resolve(database.host))}
    return {**mode, "database.ssl.truststore": database.truststore} if database.truststore else mode


def cluster_login(cluster: str, *prefixes: str) -> dict[str, str]:
    """Of clients on the cluster of that name; nothing where it asks for no login.
    Raises ServiceError: the file cannot be used."""
    path = settings.login(cluster)
    if not path:
        return {}
    try:
        return read_login(path).references(*prefixes)
    except JobRefusedError as error:
        raise ServiceError(f"{settings.variable(cluster, 'LOGIN')}: {error}; then ./cdc diff") from None


def schema_history(source: BaseSource) -> dict[str, str]:
    """Its settings, for connectors that need one."""
    return {
        "schema.history.internal.kafka.topic": names.schema_history_topic(source),
        "schema.history.internal.kafka.bootstrap.servers": settings.address(settings.variable(source.cluster, "BOOTSTRAP")),
        **cluster_login(source.cluster, "schema.history.internal.consumer.", "schema.history.internal.producer."),
        # Definitions of all tables of these databases, so that one declared later needs no new history.
        "schema.history.internal.store.only.captured.tables.ddl": "false",
        # A statement that is not understood may change a table.
        "schema.history.internal.skip.unparseable.ddl": "false",
        "include.schema.changes": "false",
    }
