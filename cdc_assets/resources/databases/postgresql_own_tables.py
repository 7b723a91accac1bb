"""Whether the tables that we write to at a PostgreSQL are ours: who may create in a database can make them before we do.

A trigger, a rule or a view would run its maker's code as our role, which may replicate. Who writes signals has conditions run
in SQL. So a table is used only where our role or a superuser owns it and its schema, and nobody else may write to it.
https://www.postgresql.org/docs/18/ddl-priv.html
"""

from __future__ import annotations

from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.names import SIGNAL_SCHEMA
from cdc_assets.registry.identifiers import TableId
from spark.delta.identifiers import double_quote, text_literal

FIXED_PATH = "set_config('search_path', 'pg_catalog', {local})"
"""Functions and operators of the server alone. With another schema beside it, an exact match there is taken before a looser one
of the server: https://wiki.postgresql.org/wiki/A_Guide_to_CVE-2018-1058"""

_FOREIGN = """
WITH ours AS (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user),
place AS (SELECT oid, nspowner, nspacl FROM pg_namespace WHERE nspname = {schema_text}),
item AS (SELECT c.oid, c.relowner, c.relkind, c.relacl FROM pg_class c JOIN place ON c.relnamespace = place.oid
  WHERE c.relname = {table_text}),
granted AS (SELECT grantee, privilege_type FROM item, aclexplode(relacl) UNION ALL SELECT grantee, privilege_type
  FROM item JOIN pg_attribute a ON a.attrelid = item.oid, aclexplode(a.attacl)),
named AS (SELECT oid, rolname::text AS role, quote_ident(rolname) AS quoted FROM pg_roles UNION ALL SELECT 0, 'PUBLIC', 'PUBLIC')
SELECT 'schema ' || {schema_text} || ' belongs to role ' || role AS what,
  'ALTER SCHEMA {schema} OWNER TO ' || quote_ident(current_user) AS mend
FROM place JOIN named ON named.oid = nspowner WHERE {of_schema} AND nspowner NOT IN (SELECT oid FROM ours)
UNION ALL SELECT DISTINCT role || ' may make objects in schema ' || {schema_text},
  'REVOKE CREATE ON SCHEMA {schema} FROM ' || quoted
FROM place, aclexplode(nspacl) JOIN named ON named.oid = grantee
WHERE {of_schema} AND privilege_type = 'CREATE' AND grantee NOT IN (SELECT oid FROM ours)
UNION ALL SELECT 'it belongs to role ' || role, 'ALTER TABLE {table} OWNER TO ' || quote_ident(current_user)
FROM item JOIN named ON named.oid = relowner WHERE relowner NOT IN (SELECT oid FROM ours)
UNION ALL SELECT 'it is no plain table', 'drop it, or rename it' FROM item WHERE relkind <> 'r'
UNION ALL SELECT 'it has the trigger ' || tgname, 'DROP TRIGGER ' || quote_ident(tgname) || ' ON {table}'
FROM item JOIN pg_trigger ON tgrelid = item.oid WHERE NOT tgisinternal
UNION ALL SELECT 'it has the rule ' || rulename, 'DROP RULE ' || quote_ident(rulename) || ' ON {table}'
FROM item JOIN pg_rewrite ON ev_class = item.oid WHERE relkind = 'r'
UNION ALL SELECT DISTINCT role || ' may write to it', 'REVOKE ALL ON {table} FROM ' || quoted
FROM granted JOIN named ON oid = grantee
WHERE privilege_type NOT IN ('SELECT', 'MAINTAIN') AND grantee NOT IN (SELECT oid FROM ours)
"""


def foreign_hands(table: TableId) -> str:
    """A query, `(what, mend)` rows: what makes a table, or the place where it is to be made, somebody else's.

    It wants the path `FIXED_PATH`. A signal table that the registry names may lie in a schema of others.
    """
    return _FOREIGN.format(
        schema=double_quote(table.schema),
        table=double_quote(*table),
        schema_text=text_literal(table.schema),
        table_text=text_literal(table.table),
        of_schema="true" if table.schema == SIGNAL_SCHEMA else "false",
    )


def is_there(connection: Any, table: TableId, place: str) -> bool:
    """Whether this table of ours exists. `place`: the database, for the message.

    Raises:
        DatabaseError: it, or the place where it would be made, is somebody else's; nothing of ours may touch it.
    """
    found = connection.execute(foreign_hands(table).encode()).fetchall()
    if found:
        what, mend = " and ".join(row[0] for row in found), "; ".join(row[1] for row in found)
        raise DatabaseError(
            f"PostgreSQL at {place}: table {table} is not ours alone: {what}. Our statements would run code or signals of "
            f"others, so it is left alone; look at it, then let somebody who may run: {mend}"
        )
    return connection.execute("SELECT to_regclass(%s)", [double_quote(*table)]).fetchone()[0] is not None
