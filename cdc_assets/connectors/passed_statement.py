"""A connector's config by which it passes statements over, and leaves tables out: for a while, to get behind what it cannot read.

Debezium has a list of patterns of statements that it neither parses nor writes down. A statement in it is passed alone, and the
connector goes on without the list once it has read it. With `schema.history.internal.skip.unparseable.ddl` it would pass each
that it cannot parse, and write it down: from then on it cannot start without that setting any more (seen with 3.6.1).
https://github.com/debezium/debezium, SchemaHistory.DDL_FILTER (an internal option, so with a prefix of its own)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.connectors.debezium_common import exact_pattern
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource

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
