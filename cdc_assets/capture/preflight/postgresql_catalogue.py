"""PostgreSQL's catalogue, as far as capture depends on it: 7 queries, a few milliseconds, nothing is changed or waited for.

https://www.postgresql.org/docs/18/view-pg-replication-slots.html (columns differ by version, so a slot is read as JSON)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.capture.connectors.connector_restart import has_place
from cdc_assets.clients.databases.postgresql_capture import read_publication
from cdc_assets.registry.field_types import TableId

SERVER = """
SELECT jsonb_build_object(
  'version', current_setting('server_version_num')::int,
  'wal_level', current_setting('wal_level'),
  'max_replication_slots', current_setting('max_replication_slots')::int,
  'slots', (SELECT count(*) FROM pg_replication_slots),
  'idle_slots', (SELECT coalesce(jsonb_object_agg(slot_name, pg_wal_lsn_diff(wal, restart_lsn)), '{}')
                 FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL),
  'max_wal_senders', current_setting('max_wal_senders')::int,
  'senders', (SELECT count(*) FROM pg_stat_replication),
  'standbys', (SELECT count(*) FROM pg_stat_replication r WHERE NOT EXISTS (
      SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')),
  'keep_bytes', (SELECT CASE WHEN setting::bigint < 0 THEN NULL ELSE setting::bigint * 1048576 END
                 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
  'standby', pg_is_in_recovery(),
  'database', current_database(),
  'user', current_user,
  'superuser', r.rolsuper,
  'replication', r.rolreplication,
  'create', has_database_privilege(current_database(), 'CREATE'),
  'messages', (SELECT jsonb_build_object('public', coalesce(jsonb_agg(p.oid::regprocedure ORDER BY p.oid) FILTER (WHERE EXISTS (
      SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g WHERE g.grantee = 0)), '[]'),
      'own', jsonb_agg(p.oid::regprocedure ORDER BY p.oid) FILTER (WHERE NOT has_function_privilege(p.oid, 'EXECUTE')))
    FROM pg_proc p WHERE p.proname = 'pg_logical_emit_message' AND p.pronamespace = 'pg_catalog'::regnamespace)
) FROM pg_roles r,
  LATERAL (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END AS wal) w
WHERE r.rolname = current_user
"""

SLOT = """
SELECT to_jsonb(s) || jsonb_build_object('retained_bytes', pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn))
FROM pg_replication_slots s WHERE slot_name = %s
"""

PUBLICATION = """
SELECT to_jsonb(p) || jsonb_build_object(
  'owned', pg_has_role(p.pubowner, 'USAGE'),
  'tables', (SELECT coalesce(jsonb_agg(jsonb_build_array(n.nspname, c.relname)), '[]')
     FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE r.prpubid = p.oid),
  'narrowed', (SELECT coalesce(jsonb_agg(jsonb_build_object('table', jsonb_build_array(n.nspname, c.relname),
       'filtered', r.told->>'prqual' IS NOT NULL, 'left_out', coalesce(absent.columns, '[]'))), '[]')
     FROM (SELECT prrelid, prpubid, to_jsonb(r) FROM pg_publication_rel r) r(prrelid, prpubid, told)
       JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (
       SELECT jsonb_agg(a.attname ORDER BY a.attnum) AS columns FROM pg_attribute a
       WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
         AND a.attnum::text <> ALL(regexp_split_to_array(btrim(r.told->>'prattrs', '[]'), '[ ,]+'))) absent
     WHERE r.prpubid = p.oid AND (r.told->>'prqual' IS NOT NULL OR absent.columns IS NOT NULL)))
FROM pg_publication p WHERE pubname = %s
"""

# A logical slot is made once all transactions have ended that were open at its beginning, of every database of the server
# (SnapBuild in src/backend/replication/logical/snapbuild.c). Others' ids are seen by everybody, their times are not.
OPEN = """
SELECT coalesce(jsonb_agg(t.said ORDER BY t.said), '[]') FROM (
  SELECT format('process %%s (%%s, %%s)', pid, coalesce(nullif(application_name, ''), 'no name'),
    coalesce('open since ' || to_char(xact_start, 'YYYY-MM-DD HH24:MI:SS'), 'since when only pg_read_all_stats may see')) AS said
  FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    AND coalesce(xact_start < now() - make_interval(secs => %s), true)
  UNION ALL
  SELECT format('prepared transaction %%L of %%s', gid, to_char(prepared, 'YYYY-MM-DD HH24:MI:SS')) FROM pg_prepared_xacts
) t
"""
OPEN_SECONDS = 10.0
END_TRANSACTION = "let it end, or SELECT pg_terminate_backend(…), or ROLLBACK PREPARED …"

# ACCESS EXCLUSIVE, on a table or on what it is parted into: whoever reads the table waits, and so does a connector that starts,
# for Debezium then reads pg_publication_tables (clients.databases.postgresql_capture says why that waits).
LOCKED = """
WITH RECURSIVE tree AS (
  SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
  UNION SELECT h.inhrelid, tree.nspname, tree.relname FROM tree JOIN pg_inherits h ON h.inhparent = tree.oid
)
SELECT DISTINCT tree.nspname, tree.relname, CASE WHEN l.pid IS NULL
  THEN format('prepared transaction %%L of %%s', x.gid, to_char(x.prepared, 'YYYY-MM-DD HH24:MI:SS'))
  ELSE format('process %%s (%%s, %%s)', l.pid, coalesce(nullif(a.application_name, ''), 'no name'),
    coalesce('open since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS'), 'since when only pg_read_all_stats may see')) END
FROM tree JOIN pg_locks l ON l.relation = tree.oid AND l.granted AND l.mode = 'AccessExclusiveLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks own ON l.pid IS NULL AND own.pid IS NULL AND own.virtualtransaction = l.virtualtransaction
  AND own.locktype = 'transactionid' AND own.granted
LEFT JOIN pg_prepared_xacts x ON x.transaction = own.transactionid
WHERE coalesce(coalesce(a.xact_start, x.prepared) < now() - make_interval(secs => %s), true)
ORDER BY 1, 2, 3
"""

# `leaves` hold a table's rows: itself, or the partitions of a partitioned one; those of `foreign` lie on another server.
# `children` are tables that inherit from it. An index's own columns come before those that it only includes. A deferrable key
# identifies no row (RelationGetIndexList). `hidden`: policies apply to this role (row_security_active).
TABLES = """
SELECT n.nspname, c.relname, jsonb_build_object(
  'key', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_index i JOIN pg_attribute a
          ON a.attrelid = c.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
          WHERE i.indrelid = c.oid AND i.indisprimary),
  'partitioned', c.relkind = 'p',
  'leaves', coalesce(below.leaves, '[]'),
  'children', coalesce(below.children, '[]'),
  'foreign', coalesce(below.foreign_tables, '[]'),
  'columns', (SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  'unique', (SELECT coalesce(jsonb_agg(u.columns), '[]') FROM pg_index i, LATERAL (
               SELECT jsonb_agg(a.attname) AS columns, bool_and(a.attnotnull) AS sure FROM pg_attribute a
               WHERE a.attrelid = c.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])) u
             WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
               AND (to_jsonb(i)->>'indnullsnotdistinct' = 'true' OR u.sure)),
  'hidden', row_security_active(c.oid),
  'persistence', c.relpersistence,
  'owner', pg_get_userbyid(c.relowner),
  'owned', pg_has_role(c.relowner, 'USAGE'),
  'usage', has_schema_privilege(n.oid, 'USAGE'),
  'select', has_table_privilege(c.oid, 'SELECT'),
  'changed', coalesce(below.changed, 0)
) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (
  WITH RECURSIVE tree AS (SELECT c.oid UNION SELECT h.inhrelid FROM pg_inherits h JOIN tree ON h.inhparent = tree.oid)
  SELECT jsonb_agg(told ORDER BY part.oid) FILTER (WHERE here AND (c.relkind = 'p' OR part.oid = c.oid)) AS leaves,
         jsonb_agg(told ORDER BY part.oid) FILTER (WHERE here AND c.relkind = 'r' AND part.oid <> c.oid) AS children,
         jsonb_agg(told->'table' ORDER BY part.oid) FILTER (WHERE NOT here) AS foreign_tables,
         sum((SELECT n_tup_upd + n_tup_del FROM pg_stat_all_tables s WHERE s.relid = part.oid)) AS changed
  FROM tree JOIN pg_class part ON part.oid = tree.oid AND part.relkind IN ('r', 'f')
    JOIN pg_namespace ns ON ns.oid = part.relnamespace, LATERAL (SELECT part.relkind = 'r' AS here) kind,
    LATERAL (SELECT jsonb_agg(a.attname ORDER BY a.attnum) AS columns FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = part.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
      WHERE i.indrelid = part.oid AND i.indimmediate
        AND (part.relreplident = 'd' AND i.indisprimary OR part.relreplident = 'i' AND i.indisreplident)) own,
    LATERAL (SELECT jsonb_build_object('table', jsonb_build_array(ns.nspname, part.relname), 'identity', part.relreplident,
      'persistence', part.relpersistence, 'columns', own.columns) AS told) told
) below
WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


@dataclass(frozen=True)
class PostgresFacts:
    """Answers of the queries above; `slot` and `publication` None: there is none of that name.

    `captured`: Connect holds an offset of the connector, so the slot has been used and must still be there.
    `taken_in`: patterns of the tables that a connector reads or is about to (running.patterns_taken_in).
    `open`: transactions that a new slot would wait for. `locked`: who has held a table exclusively for OPEN_SECONDS.
    """

    server: dict[str, Any]
    slot: dict[str, Any] | None
    publication: dict[str, Any] | None
    tables: dict[TableId, dict[str, Any]]
    captured: bool
    open: Sequence[str] = ()
    locked: Mapping[TableId, Sequence[str]] = field(default_factory=dict)
    taken_in: Sequence[str] = ()


def read_facts(
    connection: Any, *, slot: str, publication: str, tables: Sequence[TableId], offsets: Sequence[Any]
) -> PostgresFacts:
    """Ask the server; `offsets` are the connector's."""

    def one(query: str, *parameters: Any) -> Any:
        row = connection.execute(query, parameters or None).fetchone()
        return None if row is None else row[0]

    names_asked = [[t.schema for t in tables], [t.table for t in tables]]
    locked = dict[TableId, list[str]]()
    for schema, table, holder in connection.execute(LOCKED, [*names_asked, OPEN_SECONDS]).fetchall():
        locked.setdefault(TableId(schema, table), []).append(holder)
    publication_row = one(PUBLICATION, publication)
    if publication_row:
        listed = {TableId(*table) for table in publication_row["tables"]} | read_publication(connection, publication)
        publication_row["tables"] = [[*table] for table in sorted(listed)]
    return PostgresFacts(
        one(SERVER),
        one(SLOT, slot),
        publication_row,
        {TableId(schema, table): about for schema, table, about in connection.execute(TABLES, names_asked).fetchall()},
        has_place(offsets),
        one(OPEN, OPEN_SECONDS),
        locked,
    )
