"""Which tables a publication sends changes of, as the view pg_publication_tables says it, without its locks.

Since version 15 the view opens each table (pg_get_publication_tables in src/backend/catalog/pg_publication.c). It waits as long
as a TRUNCATE or an ALTER TABLE is under way there: for hours, where a large table is rewritten. The catalogue's own rows do not.
https://www.postgresql.org/docs/18/view-pg-publication-tables.html
"""

from __future__ import annotations

from typing import Any

from cdc_assets.registry.identifiers import TableId

# FOR TABLE and FOR ALL TABLES, FOR TABLES IN SCHEMA; what may be published is is_publishable_class's rule. `below` also has all
# that the partitioned ones among them are parted into. By the root, what has its parent in it is not named; else only leaves are.
_LISTED = """
WITH RECURSIVE listed AS (
  SELECT p.oid AS publication, r.prrelid AS table FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
  UNION
  SELECT p.oid, c.oid FROM pg_publication p JOIN pg_class c ON p.puballtables {in_schema}
  WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384
    AND c.relnamespace <> ALL (ARRAY['pg_catalog'::regnamespace, 'information_schema'::regnamespace])
), below AS (
  SELECT publication, listed.table FROM listed
  UNION
  SELECT publication, h.inhrelid FROM below JOIN pg_inherits h ON h.inhparent = below.table
    JOIN pg_class parent ON parent.oid = h.inhparent AND parent.relkind = 'p'
)
SELECT n.nspname, c.relname FROM pg_publication p JOIN below ON below.publication = p.oid
  JOIN pg_class c ON c.oid = below.table JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %s AND CASE WHEN p.pubviaroot
  THEN NOT (c.relispartition AND EXISTS (SELECT FROM pg_inherits h JOIN below parent ON parent.table = h.inhparent
                                         WHERE h.inhrelid = c.oid AND parent.publication = p.oid))
  ELSE c.relkind = 'r' END
"""
# https://www.postgresql.org/docs/15/release-15.html: only then are there publications of whole schemas.
_IN_SCHEMA = "OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"


def read_publication(connection: Any, publication: str) -> set[TableId]:
    """The tables under whose names a publication sends changes; empty where there is none."""
    in_schema = _IN_SCHEMA if connection.info.server_version >= 150_000 else ""
    rows = connection.execute(_LISTED.format(in_schema=in_schema).encode(), [publication]).fetchall()
    return {TableId(*row) for row in rows}
