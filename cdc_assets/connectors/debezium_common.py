"""What every Debezium connector of ours is told alike: form of records, topics, exactly once, where its password is."""

from __future__ import annotations

import re
import zlib

from cdc_assets import settings
from cdc_assets.references import SecretRef
from cdc_assets.registry.models import BaseSource, CapturedSource

# Above what people number their servers with by hand.
_FIRST_SERVER_ID = 1_000_000_000


def record_settings(source: BaseSource) -> dict[str, str]:
    """Settings of the records and their topics, by the registry."""
    topics = source.topics
    return {
        # The default leaves TRUNCATE out.
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        "poll.interval.ms": "100",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        # The default writes a column's default value where the row has NULL.
        "value.converter.replace.null.with.default": "false",
        "topic.creation.default.partitions": str(topics.partitions),
        "topic.creation.default.replication.factor": str(topics.replication_factor or -1),
        "topic.creation.default.cleanup.policy": "delete",
        "topic.creation.default.retention.ms": retention_ms(source),
        **_message_keys(source),
    }


def password_placeholder(password: SecretRef) -> str:
    """`${dir:…}`, or what the reference says of the worker, which resolves it itself."""
    if password.on_connect is not None:
        return password.on_connect.placeholder
    secrets = settings.lookup("CDC_CONNECT_SECRETS") or str(settings.home() / "secrets")
    return f"${{dir:{secrets}:{password.secret}}}"


def retention_ms(source: BaseSource) -> str:
    """The declared topic retention in milliseconds."""
    return str(int(source.topics.retention.total_seconds() * 1000))


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
