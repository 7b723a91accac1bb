"""Configs for a while: of a connector that works beside a source's own, and of one that passes over what it cannot read.

The one beside has the source's own config, under a name and with leftovers of its own.
Options: https://debezium.io/documentation/reference/3.6/connectors/mysql.html, …/3.5/connectors/mariadb.html

Debezium has a list of patterns of statements that it neither parses nor writes down. A statement in it is passed alone, and the
connector goes on without the list once it has read it. With `schema.history.internal.skip.unparseable.ddl` it would pass each
that it cannot parse, and write it down: from then on it cannot start without that setting any more (seen with 3.6.1).
https://github.com/debezium/debezium, SchemaHistory.DDL_FILTER (an internal option, so with a prefix of its own)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cdc_assets.capture.connectors.debezium_settings import exact_pattern, server_id_of
from cdc_assets.capture.connectors.declared_connectors import config_of_kind, tables_in_list
from cdc_assets.capture.connectors.setting_overrides import beside_settings, keep_running
from cdc_assets.registry import names
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.registry.table_declaration import Table

_OF_THE_OWN_ONE = ("signal.", "heartbeat.")


def beside_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """Of these tables alone. It takes no signals, and its schema history, where its kind has one, is another topic."""
    alone = source.model_copy(update={"tables": tuple(tables)})
    config = keep_running(beside_settings(alone, config_of_kind(alone)), None)
    kept = {key: value for key, value in config.items() if not key.startswith(_OF_THE_OWN_ONE)}
    history = {
        "schema.history.internal.kafka.topic": names.temporary_schema_history_topic(source),
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
    }
    return {
        **kept,
        "name": names.temporary(config["name"]),
        **(history if names.has_schema_history(source) else {}),
        # Two connectors with one topic prefix in one worker would register one and the same JMX bean.
        "custom.metric.tags": "role=onboard",
    }


def initial_only_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing."""
    return {**beside_config(source, tables), "snapshot.mode": "initial_only"}


_SCHEMA_ONLY = "snapshot.mode.configuration.based"


def temporary_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing.

    Its rows carry the place at which it read them, under a lock: whatever lies below is in them, and nothing else.
    """
    return {**_beside(source, tables), "snapshot.mode": "initial_only"}


def definitions_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
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


def _beside(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    config = beside_config(source, tables)
    return {
        **config,
        "database.server.id": str(server_id_of(config["name"])),
        "database.include.list": ",".join(sorted({exact_pattern(table.id.schema) for table in tables})),
        "table.include.list": ",".join(exact_pattern(*table.id) for table in tables),
    }


FAILURES = "event.processing.failure.handling.mode"
"""With `warn` the client passes over events that it cannot read, and says so in the worker's log.
https://debezium.io/documentation/reference/3.5/connectors/mariadb.html#mariadb-property-event-processing-failure-handling-mode"""
FILTER = "internal.schema.history.internal.ddl.filter"
_TABLES = "table.include.list"
# In place of Debezium's own list, whose statements change no table either.
_OTHERS = (
    r"(SET STATEMENT .*)?(GRANT|REVOKE|FLUSH|SAVEPOINT|REPLACE|ANALYZE|OPTIMIZE|REPAIR)\b.*",
    r"(SET STATEMENT .*)?(INSERT INTO|DELETE FROM) (mysql\.)?rds_.*",
    r"(SET STATEMENT .*)?(CREATE|ALTER|DROP)\s+"
    r"(OR\s+REPLACE\s+|AGGREGATE\s+|ALGORITHM\s*=\s*\w+\s+|DEFINER\s*=\s*\S+\s+|SQL\s+SECURITY\s+\w+\s+)*"
    r"(USER|ROLE|VIEW|FUNCTION|PROCEDURE|TRIGGER|EVENT)\s.*",
    r"DROP TEMPORARY TABLE\s.*",
    r"\s*#.*",
)
_NONE = TableId("cdc_assets", "no table")


def is_passing(running: Mapping[str, str]) -> bool:
    """Whether the running config is one by which something is passed over."""
    return FILTER in running


def without_passing(running: Mapping[str, str]) -> dict[str, str]:
    """The running config, by which nothing is passed over any more."""
    ours = {FILTER, FAILURES} if is_passing(running) else set[str]()
    return {key: value for key, value in running.items() if key not in ours}


def passing_config(
    source: CapturedSource,
    running: Mapping[str, str],
    statements: Collection[str],
    without: Collection[TableId],
    *,
    unreadable: bool = False,
) -> dict[str, str]:
    """The running config, with these statements passed over, and without these tables; also what the client cannot read."""
    listed = tables_in_list(source, running)
    kept = [table.id for table in source.tables if table.name in listed and table.id not in without]
    config = {**running, FILTER: ",".join((*_OTHERS, *map(pattern_of, statements)))}
    if unreadable:
        config[FAILURES] = "warn"
    if without:
        # An empty list would be all tables.
        config[_TABLES] = ",".join(exact_pattern(*id_) for id_ in kept or [_NONE])
    return config


def pattern_of(statement: str) -> str:
    """Matches this statement, whatever blanks it has. Neither a comma, which parts the list, nor a `$`, for Connect, is in it."""
    return r"\s+".join("".join(map(_letter, word)) for word in statement.split())


def _letter(letter: str) -> str:
    return letter if letter.isalnum() or letter == "_" or ord(letter) > 127 else rf"\x{ord(letter):02x}"
