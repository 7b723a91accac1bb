"""What the PostgreSQL connector runs on each connection that it opens, so also before each start of its stream.

Debezium splits `database.initial.statements` at semicolons, and takes two for one.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets import names
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.postgresql_own_tables import FIXED_PATH, foreign_hands
from spark.delta.identifiers import double_quote, text_literal

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


def initial_statements(source: CapturedSource) -> str:
    """Both statements: a worker whose time zone would be in the values is refused, and where the slot is is noted."""
    return f"{refuse_time_zone(source)};{note_slot(source)}"


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
    asked = _IN_UTC.format(tables=_rows([table.id for table in source.tables]), but=but)
    body = f"DECLARE found text; {asked.replace('BEGIN', f'BEGIN PERFORM {_PATH};', 1)}"
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
