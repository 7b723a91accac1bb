"""MySQL and MariaDB: what changes rows without an event that Debezium reads, where the server can be asked about it; pure.

Such a change is in the source and in no topic: every count agrees, and only a comparison of rows finds it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId
from spark.delta.identifiers import quote

VARIABLES = ("log_bin_compress", "binlog_legacy_event_pos", "binlog_transaction_compression", "init_connect")
QUERIES = {
    # A table that is not captured is enough; a role sees those that it may read. MariaDB alone writes the type so.
    "compressed": "SELECT table_schema, table_name, column_name FROM information_schema.columns "
    "WHERE column_type LIKE '%/*M!100301 COMPRESSED*/%'",
}
_BY_SESSION = re.compile(r"\b(binlog_format|binlog_row_image|binlog_row_value_options|sql_log_bin)\b", re.IGNORECASE)


def settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Of the server: the settings under which events are passed over or are not written."""
    if variables.get("log_bin_compress", "OFF").upper() in ("ON", "1"):
        # Event types 165 to 171 of https://mariadb.com/kb/en/2-binlog-event-header/, which its client (0.40) passes over.
        message = "log_bin_compress is ON: Debezium passes over compressed events, and their changes are in no topic"
        yield Finding("log_bin_compress", "fail", "server", message, "SET GLOBAL log_bin_compress = OFF")
    if named := sorted({name.lower() for name in _BY_SESSION.findall(variables.get("init_connect", ""))}):
        message = f"init_connect sets {', '.join(named)}: sessions change rows that are not in the log, or not whole"
        yield Finding("init_connect", "fail", "server", message, "take it out of init_connect: SET GLOBAL init_connect = '…'")


def one_place(variables: Mapping[str, str]) -> tuple[str, str]:
    """The setting by which all row events of a transaction have one place, and the statement that ends it; empty: they do not.

    Then the order of its topic tells what a key's last change is. Of a table without a key nothing tells a second statement of a
    transaction from a replay of the first (spark.positions.mysql).
    """
    if variables.get("binlog_legacy_event_pos", "ON").upper() in ("OFF", "0"):
        # A variable of MariaDB from 11.4 on, OFF by default: MDEV-33664.
        return "binlog_legacy_event_pos is OFF", "SET GLOBAL binlog_legacy_event_pos = ON"
    if variables.get("binlog_transaction_compression", "OFF").upper() in ("ON", "1"):
        return "binlog_transaction_compression is ON", "SET PERSIST binlog_transaction_compression = OFF"
    return "", ""


def tables(
    captured: Collection[TableId], there: Sequence[Sequence[Any]], compressed: Sequence[Sequence[Any]]
) -> Iterator[Finding]:
    """Of tables: `there` are those of the captured databases (schema, name, kind, engine, options)."""
    for schema, name, kind, engine, options in there:
        table = TableId(schema, name)
        if str(kind).upper() == "SYSTEM VERSIONED":
            yield _version_finding(table, is_captured=table in captured)
        elif table in captured:
            yield from _table_findings(table, str(engine or "").upper(), str(options or "").lower())
    found: dict[TableId, list[str]] = {}
    for schema, name, column in compressed:
        found.setdefault(TableId(schema, name), []).append(str(column))
    for table, columns in found.items():
        message = (
            f"has columns with COMPRESSED ({', '.join(columns)}): Debezium's client stops at the first row of such a table, "
            "captured or not, and with it every table of the server"
        )
        changed = ", ".join(f"MODIFY {quote(column)} … (without COMPRESSED)" for column in columns)
        mend = f"ALTER TABLE {quote(*table)} {changed}"
        yield Finding("compressed_columns", "fail", str(table), message, mend, stops_others=True)


def _version_finding(table: TableId, *, is_captured: bool) -> Finding:
    if is_captured:
        message = "is system-versioned: its row events have columns that Debezium does not know of, and old versions as rows"
        mend = f"ALTER TABLE {quote(*table)} DROP SYSTEM VERSIONING, or take it out of the registry"
        return Finding("versioned", "fail", str(table), message, mend)
    message = "is system-versioned: a statement that alters it stops the connector, which does not read that syntax"
    mend = "pass what alters it with SET sql_log_bin = 0 where no replica needs it, or keep it in another database"
    return Finding("versioned", "warn", str(table), message, mend)


def _table_findings(table: TableId, engine: str, options: str) -> Iterator[Finding]:
    if engine == "MEMORY":
        message = "its engine is MEMORY: a restart of the server empties it, and no row event says so"
        yield Finding("engine", "warn", str(table), message, f"ALTER TABLE {quote(*table)} ENGINE = InnoDB")
    if "partitioned" in options:
        message = "is partitioned: DROP, TRUNCATE and EXCHANGE PARTITION change its rows, and no row event says so"
        mend = f"cdc reconcile --heal after each of them ({table})"
        yield Finding("partitions", "warn", str(table), message, mend)
