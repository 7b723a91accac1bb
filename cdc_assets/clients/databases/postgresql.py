"""A PostgreSQL source: its catalogue, markers in its log, and counts at one snapshot.

The catalogue is the truth about column types: the messages carry no schema (docs/adr/archive/0002).
A marker is a logical decoding message (`pg_logical_emit_message`): it lies in the log behind every
transaction that committed before the call, and needs no table in the source.
https://www.postgresql.org/docs/18/functions-admin.html#FUNCTIONS-REPLICATION

Who may create in a database can make the tables that we write to before we do. A trigger, a rule or a view would run its
maker's code as our role, which may replicate, and who writes signals has conditions run in SQL. So a table is used only where
our role or a superuser owns it and its schema, and nobody else may write to it.
https://www.postgresql.org/docs/18/ddl-priv.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from cdc_assets.clients.databases.catalogue import WAY_OUT, CatalogueColumn, CatalogueTable, rows_by_table
from cdc_assets.clients.databases.drivers import libpq_options
from cdc_assets.registry import settings
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.names import MARKER_PREFIX, SIGNAL_SCHEMA
from spark.table.identifiers import double_quote, text_literal

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
    Raises DatabaseError: it, or the place where it would be made, is somebody else's; nothing of ours may touch it."""
    faults = connection.execute(foreign_hands(table).encode()).fetchall()
    if faults:
        what, mend = " and ".join(row[0] for row in faults), "; ".join(row[1] for row in faults)
        raise DatabaseError(
            f"PostgreSQL at {place}: table {table} is not ours alone: {what}. Our statements would run code or signals of "
            f"others, so it is left alone; look at it, then let somebody who may run: {mend}"
        )
    return connection.execute("SELECT to_regclass(%s)", [double_quote(*table)]).fetchone()[0] is not None


# The table `c`, and all that it is parted into: as pg_partition_tree says it, which waits for whoever alters one of them.
PARTS = """
  WITH RECURSIVE part AS (
    SELECT c.oid AS relid
    UNION SELECT h.inhrelid FROM part JOIN pg_inherits h ON h.inhparent = part.relid
      JOIN pg_class child ON child.oid = h.inhrelid AND child.relispartition
  ) SELECT relid FROM part
"""
# The search path has the server's own schema alone; extensions are in `public`, and their types have no schema in our rules.
_TYPE = "regexp_replace(format_type({}), '^public\\.', '')"
_COLUMNS = f"""
SELECT n.nspname, c.relname, a.attname, base.type, NOT a.attnotnull AS nullable,
       COALESCE(array_position((i.indkey::int2[])[0:i.indnkeyatts - 1], a.attnum), -1) AS key_position,
       CASE WHEN a.attgenerated <> '' THEN 'generated' ELSE base.kind END AS kind, a.attnum,
       COALESCE((a.attmissingval::text::text[])[1], parts.missing) AS missing, a.atthasdef AND a.attgenerated = '' AS defaulted,
       COALESCE(col_description(c.oid, a.attnum), '') AS comment, base.members,
       c.oid::text || coalesce(':' || parts.listed, '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
LEFT JOIN LATERAL (
  -- A partitioned table has no rows: what those from before an ADD COLUMN have in it is said of its partitions.
  SELECT string_agg(leaf.oid || '/' || coalesce(pg_relation_filenode(leaf.oid), 0), ',' ORDER BY leaf.oid) AS listed,
    CASE WHEN count(DISTINCT p.attmissingval::text) = 1 THEN min((p.attmissingval::text::text[])[1]) END AS missing
  FROM ({PARTS}) part JOIN pg_class leaf ON leaf.oid = part.relid AND leaf.relkind <> 'p'
  LEFT JOIN pg_attribute p ON p.attrelid = leaf.oid AND p.attname = a.attname
  WHERE c.relkind = 'p'
) parts ON true
CROSS JOIN LATERAL (
  -- Debezium sends a domain's value as its base type, however deep the domains are nested.
  WITH RECURSIVE resolved AS (
    SELECT t.oid, t.typtype, {_TYPE.format("a.atttypid, a.atttypmod")} AS type, t.typbasetype, t.typtypmod
    FROM pg_type t WHERE t.oid = a.atttypid
    UNION ALL
    SELECT t.oid, t.typtype, {_TYPE.format("t.oid, r.typtypmod")}, t.typbasetype, t.typtypmod
    FROM resolved r JOIN pg_type t ON t.oid = r.typbasetype WHERE r.typtype = 'd'
  ) SELECT type, CASE WHEN own.oid >= 16384 THEN CASE own.typtype WHEN 'e' THEN 'enum' WHEN 'c' THEN 'composite'
      WHEN 'd' THEN 'domain' WHEN 'r' THEN 'range' WHEN 'm' THEN 'multirange'
      ELSE CASE WHEN own.typlen > 0 THEN 'fixed' ELSE 'base' END END ELSE '' END AS kind,
      CASE own.typtype
        WHEN 'e' THEN ARRAY(SELECT e.oid || '=' || e.enumlabel FROM pg_enum e
          WHERE e.enumtypid = own.oid ORDER BY e.enumsortorder)
        WHEN 'c' THEN ARRAY(SELECT m.attnum || '=' || m.attname FROM pg_attribute m
          WHERE m.attrelid = own.typrelid AND m.attnum > 0 AND NOT m.attisdropped ORDER BY m.attnum)
        ELSE '{{}}' END AS members
    FROM resolved JOIN pg_type found ON found.oid = resolved.oid
    JOIN pg_type own ON own.oid = CASE WHEN found.typcategory = 'A' THEN found.typelem ELSE found.oid END
    WHERE resolved.typtype <> 'd'
) base
WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
ORDER BY 1, 2, a.attnum
"""
# Texts of values must not depend on the settings of the server, the database or the role. Digits: as many as tell a float.
TEXT_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}


@dataclass(frozen=True)
class Snapshot:
    """What a transaction sees: `xmin:xmax:xip,…` of `pg_current_snapshot()`.

    A transaction id is visible when it is below `xmin`, or below `xmax` and not in progress (`xip`).
    """

    xmin: int
    xmax: int
    xip: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """From PostgreSQL's text form."""
        xmin, xmax, xip = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(x) for x in xip.split(",") if x))

    @property
    def text(self) -> str:
        """As PostgreSQL writes it."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.xip)))}"

    def sees(self, xid: int) -> bool:
        """Is the committed transaction `xid` visible? 32-bit ids (as Debezium sends them) are widened first."""
        if xid < 2**32:
            xid += (self.xmax >> 32) << 32
            if xid - self.xmax > 2**31:
                xid -= 2**32
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)


def _column(row: Sequence[Any]) -> CatalogueColumn:
    _, _, name, type_, nullable, _, kind, number, missing, defaulted, comment, members, _ = row
    return CatalogueColumn(name, type_, nullable, kind, number, missing, defaulted, comment, tuple(members))


class PostgresDatabase:
    """One source database in a PostgreSQL server."""

    KIND: ClassVar[str] = "postgresql"
    # A statement that waits for a lock holds up everybody behind it.
    LOCK_LIMIT: ClassVar[str] = "SET lock_timeout = '3s'"

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """The database as `host:port/dbname`, for messages."""
        database = self._database
        return f"{settings.resolve(database.host)}:{settings.resolve(database.port)}/{database.dbname}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """The catalogue's view of each table that exists; one query for all."""
        with self.connection() as connection:
            for name, value in TEXT_SETTINGS.items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
            rows = connection.execute(_COLUMNS, [[i.schema for i in ids], [i.table for i in ids]]).fetchall()
        return {
            table: CatalogueTable(
                id=table,
                columns=tuple(_column(row) for row in columns),
                primary_key=tuple(row[2] for row in sorted(columns, key=lambda row: row[5]) if row[5] >= 0),
                generation=columns[0][-1],
            )
            for table, columns in rows_by_table(rows).items()
        }

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """The date columns that hold a day which Debezium reads wrongly in a snapshot; one pass over the table.

        The driver's java.sql.Date has no era, and its calendar lacks the ten days after 4 October 1582.
        """
        from psycopg import sql

        dates = [c.name for c in table.columns if c.type == "date" and c.name in columns]
        if not (dates and snapshot):
            return {}
        misread = "bool_or(isfinite({c}) AND ({c} < '0001-01-01' OR {c} BETWEEN '1582-10-05' AND '1582-10-14'))"
        tests = sql.SQL(", ").join(sql.SQL(misread).format(c=sql.Identifier(name)) for name in dates)
        with self.connection() as connection:
            connection.execute(self.LOCK_LIMIT.encode())
            query = sql.SQL("SELECT {} FROM ").format(tests).as_bytes(connection) + own_rows(connection, table.id).encode()
            row = connection.execute(query).fetchone()
        what = "holds a date BC or of 5 to 14 October 1582, which a snapshot reads as another day; correct those rows, {}"
        return {name: what.format(WAY_OUT) for name, is_misread in zip(dates, row or (), strict=True) if is_misread}

    def counts(self, ids: Sequence[TableId]) -> tuple[Snapshot, dict[TableId, int]]:
        """`count(*)` of each table at one and the same snapshot, in a read-only transaction."""
        from psycopg import IsolationLevel

        with self.connection(autocommit=False) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            snapshot = Snapshot.parse(str(_single(connection.execute("SELECT pg_current_snapshot()::text"))))
            counts = {}
            for table in ids:
                counts[table] = int(_single(connection.execute(f"SELECT count(*) FROM {own_rows(connection, table)}".encode())))
            connection.rollback()
        return snapshot, counts

    def emit_marker(self, marker: str, prefix: str = "") -> str:
        """Write `marker` into the log, flushed, and return its LSN. The connector sends on what has its `prefix`.

        Everything that committed before the call lies before the marker. It is a transaction: outside of one, its event would say
        that it is itself the last commit (capture.incarnations).
        """
        with self.connection() as connection:
            query = b"SELECT pg_logical_emit_message(true, %s, %s)::text"
            return str(_single(connection.execute(query, [prefix or MARKER_PREFIX, marker])))

    @contextmanager
    def connection(self, *, autocommit: bool = True) -> Iterator[Any]:
        """A connection; what psycopg raises in the block becomes a DatabaseError."""
        import psycopg

        try:
            with psycopg.connect(**self._login(), autocommit=True) as connection:
                # The path is the database's owner's to set, and so would be the functions that we call.
                connection.execute(f"SELECT pg_catalog.{FIXED_PATH.format(local='false')}".encode())
                connection.autocommit = autocommit
                yield connection
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            explained = self._database.explain(reason, settings.resolve(self._database.host))
            raise DatabaseError(f"PostgreSQL at {self.place}: {explained}") from error

    def _login(self) -> dict[str, Any]:
        """libpq's parameters, the password among them."""
        database = self._database
        host = settings.resolve(database.host)
        return {
            "host": host,
            "port": int(settings.resolve(database.port)),
            "dbname": database.dbname,
            "user": settings.resolve(database.user),
            "password": settings.secret(database.password),
            **libpq_options(database, host),
            "connect_timeout": 10,
            "application_name": "cdc_assets",
        }


def own_rows(connection: Any, table: TableId) -> str:
    """What to select a table's own rows from: not those of tables that inherit from it, but those of its partitions."""
    name = double_quote(*table)
    row = connection.execute("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)", [name]).fetchone()
    return name if row is not None and row[0] else f"ONLY {name}"


def _single(cursor: Any) -> Any:
    return cursor.fetchone()[0]
