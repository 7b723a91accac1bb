"""The Debezium PostgreSQL connector of a source: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.7/connectors/postgresql.html
The config names statements that the connector runs on each connection that it opens, so also before each start of its stream.
Debezium splits `database.initial.statements` at semicolons, and takes two for one.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.capture.connectors import debezium_settings as common
from cdc_assets.capture.connectors.debezium_settings import DRAWN_PREFIX, postgresql_tls
from cdc_assets.capture.connectors.setting_overrides import (
    DECLARED,
    HEADER_CONVERTER,
    beside_settings,
    transforms_of,
    with_public_text,
)
from cdc_assets.clients.databases.postgresql import FIXED_PATH, foreign_hands
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.record_forms import ValueForms
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.record_formats import ANCHOR_HEADER
from spark.table.identifiers import double_quote, text_literal

ON_CONNECT = "database.initial.statements"
# Until the statement's own transaction ends: what Debezium asks afterwards has the role's path.
_PATH = f"pg_catalog.{FIXED_PATH.format(local='true')}"
# The driver gives the session the worker's time zone, and what pgoutput writes follows it. Debezium reads moments of columns, and
# a comparison those of ranges. Inside of a row type, or of a range that somebody has defined, a moment is a part of a text.
# 28000: of a login that is refused. What has another code Debezium tries again for ever, and says so in its log alone.
_IN_UTC = """BEGIN
IF EXISTS (SELECT FROM unnest(ARRAY['2024-01-01Z', '2024-07-01Z']::timestamptz[]) t WHERE extract(timezone FROM t) <> 0) THEN
WITH RECURSIVE held(place, type, inside) AS (
  SELECT format('%s.%s.%s', n.nspname, c.relname, a.attname), a.atttypid, false
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE (n.nspname, c.relname) IN ({tables}){but}
  UNION SELECT place, next.type, inside OR t.typtype = 'c' OR t.oid >= 16384 AND t.typtype IN ('r', 'm')
  FROM held JOIN pg_type t ON t.oid = held.type, LATERAL (
    SELECT t.typelem WHERE t.typcategory = 'A' UNION ALL SELECT t.typbasetype WHERE t.typtype = 'd' UNION ALL
    SELECT atttypid FROM pg_attribute WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT rngsubtype FROM pg_range r WHERE t.oid::text IN (rngtypid::text, to_jsonb(r)->>'rngmultitypid')) next(type)
) SELECT string_agg(DISTINCT place, ', ') INTO found FROM held WHERE inside AND type = 'timestamptz'::regtype;
IF found IS NOT NULL THEN
  RAISE EXCEPTION 'the Connect worker runs in time zone %, and PostgreSQL would write the moments inside of % in it: '
    'start the worker with KAFKA_OPTS=-Duser.timezone=UTC', current_setting('TimeZone'), found USING ERRCODE = '28000';
END IF;
END IF;
END"""


def note_slot(source: CapturedSource) -> str:
    """Where the slot is. Where it may not be noted, or the table is not ours alone, nothing is."""
    table, slot = names.starts_table(source), text_literal(names.slot_name(source))
    statement = (
        f"DO $cdc$BEGIN PERFORM {_PATH}; IF EXISTS ({foreign_hands(table)}) THEN RETURN; END IF; "
        f"INSERT INTO {double_quote(*table)} SELECT confirmed_flush_lsn, clock_timestamp() "
        f"FROM pg_replication_slots WHERE slot_name = {slot} AND confirmed_flush_lsn IS NOT NULL ON CONFLICT DO NOTHING; "
        "EXCEPTION WHEN OTHERS THEN NULL; END$cdc$"
    )
    return statement.replace(";", ";;")


def refuse_time_zone(source: CapturedSource) -> str:
    """An error on a worker that does not run in UTC, where a table has moments inside of its values."""
    left_out = [(*table.id, column) for table in source.tables for column in table.except_column_list]
    but = f" AND (n.nspname, c.relname, a.attname) NOT IN ({_rows(left_out)})" if left_out else ""
    check = _IN_UTC.format(tables=_rows([table.id for table in source.tables]), but=but)
    body = f"DECLARE found text; {check.replace('BEGIN', f'BEGIN PERFORM {_PATH};', 1)}"
    tag = "$cdc$"
    while tag in body:
        tag = f"{tag[:-1]}_$"
    return f"DO {tag}{body}{tag}".replace(";", ";;")


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"({', '.join(map(_text, row))})" for row in rows)


def _text(value: str) -> str:
    """A literal that no setting of the session reads otherwise, and in which Connect finds no placeholder of its own."""
    coded = value.replace("\\", "\\\\").replace("$", "\\x24")
    return "E" + text_literal(coded) if coded != value else text_literal(value)


# What pgoutput writes follows the role's settings. Debezium reads bytea in hexadecimal digits alone, and passes on the text of
# what it does not know. The driver itself sets DateStyle and TimeZone. 3: servers before version 12 add so many digits.
_TEXTS = "-c bytea_output=hex -c IntervalStyle=postgres -c extra_float_digits=3"


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, Database)
    return {
        **common.base_settings(source, "postgresql.PostgresConnector"),
        **_connection(database),
        **common.NAMED_COLUMNS,
        "plugin.name": "pgoutput",
        "slot.name": names.slot_name(source),
        # Version 17 and newer keep such a slot on standbys too, where the server is set up for it; older ones ignore it.
        "slot.failover": "true",
        "publication.name": names.publication_name(source),
        "publication.autocreate.mode": "filtered",
        # Changes of a partitioned table come under its own name, and not under those of its partitions, which no list has.
        "publish.via.partition.root": "true",
        # The signal table may be made later: a pattern without a table is no error, and no table is made for it here.
        "table.include.list": ",".join(
            common.exact_pattern(*table) for table in (*(t.id for t in source.tables), names.signal_table(source))
        ),
        # Fails where the slot has not kept the offset's log; a slot that was only moved is told by postgresql_incarnation.
        "offset.mismatch.strategy": "trust_offset",
        ON_CONNECT: f"{refuse_time_zone(source)};{note_slot(source)}",
        # An idle captured database must not hold back the log; the message also is a marker that needs no table. One that is no
        # transaction would say of itself that it is the last commit, and hide what was before it (postgresql_incarnation).
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        "heartbeat.action.query": f"SELECT pg_logical_emit_message(true, '{DRAWN_PREFIX}', 'heartbeat')",
        "message.prefix.include.list": DRAWN_PREFIX,
        **common.source_signal_settings(source),
        **common.notification_settings(source),
        **_value_modes(source.values),
        **DECLARED,
        **_own_rows(source),
        **common.record_settings(source),
    }


def _connection(database: Database) -> dict[str, str]:
    return {
        **common.database_settings(database),
        "database.dbname": database.dbname,
        **postgresql_tls(database),
        "driver.options": _TEXTS,
    }


def _value_modes(values: ValueForms) -> dict[str, str]:
    return {
        # Of `binary`: in JSON the same base64 as the mode of that name, which sends NULL for an unchanged TOASTed bytea.
        **common.value_settings(values),
        "interval.handling.mode": values.interval,
        "hstore.handling.mode": values.hstore,
        # Types that Debezium does not know come as the bytes of their text; the default leaves their columns out.
        "include.unknown.datatypes": "true" if values.unknown == "include" else "false",
    }


def _own_rows(source: CapturedSource) -> dict[str, str]:
    """The snapshot's SELECT for tables from which others inherit."""
    key, tables = "snapshot.select.statement.overrides", [table.id for table in source.tables if table.only]
    statements = {f"{key}.{'.'.join(table)}": f"SELECT * FROM ONLY {double_quote(*table)}" for table in tables}
    return {key: ",".join(".".join(table) for table in tables), **statements} if tables else {}


def temporary_config(source: CapturedSource, tables: Sequence[Table], *, anchor: int | str) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing.

    Each of its rows says in a header behind which commit it stands (spark.bronze.batch_records).
    """
    # It reads whole rows alone.
    alone = source.model_copy(update={"tables": tuple(tables)})
    config = with_public_text(beside_settings(alone, capture_config(alone)))
    kept = {key: value for key, value in config.items() if not key.startswith(("signal.", "heartbeat."))}
    return {
        **kept,
        # Its slot is not noted.
        ON_CONNECT: refuse_time_zone(alone),
        "name": names.temporary(config["name"]),
        "slot.name": names.temporary(config["slot.name"]),
        "slot.failover": "false",
        "publication.name": names.temporary(config["publication.name"]),
        "table.include.list": ",".join(common.exact_pattern(*table.id) for table in tables),
        "snapshot.mode": "initial_only",
        # Two connectors with one topic prefix in one worker would register one and the same JMX bean.
        "custom.metric.tags": "role=onboard",
        "transforms": ",".join([*transforms_of(config), "anchor"]),
        "transforms.anchor.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.anchor.header": ANCHOR_HEADER,
        "transforms.anchor.value.literal": str(anchor),
        "header.converter": HEADER_CONVERTER,
    }
