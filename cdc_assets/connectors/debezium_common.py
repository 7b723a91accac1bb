"""What every Debezium connector of ours is told alike: form of records, topics, exactly once, where its password is."""

from __future__ import annotations

import re
import zlib
from datetime import timedelta

from cdc_assets import names, settings
from cdc_assets.connectors.record_converters import converter_settings
from cdc_assets.connectors.secret_placeholder import password_placeholder
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.registry.oracle import Oracle
from cdc_assets.registry.postgresql import Database
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.registry.value_forms import ValueForms

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
    return r"\.".join(_literal(part) for part in parts)


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
