"""A PostgreSQL source at one snapshot: which transactions it sees, and what its tables hold then.

One read-only REPEATABLE READ transaction on one backend, without parallel workers. A scan's lock (ACCESS SHARE, which no
writer feels, but an ALTER TABLE would wait for and all writers behind it) is given back right after the scan by rolling
back to a savepoint; the snapshot stays. A scan waits for a lock no longer than two seconds.
https://www.postgresql.org/docs/18/functions-info.html#FUNCTIONS-INFO-SNAPSHOT
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.databases.postgresql import TEXT_SETTINGS, PostgresDatabase, Snapshot, own_rows
from cdc_assets.clients.databases.source_cut import MOST_ROWS, ROWS, digest_of, few_enough
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.table.identifiers import double_quote

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.key_order import Bound, KeyRange
    from spark.proof.row_text import RowText, Slice
    from spark.proof.snapshot_cut import Cut

_SETTINGS = {
    **TEXT_SETTINGS,
    "standard_conforming_strings": "on",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "15min",
    # Rows that a policy hides from the role are an error, and not left out without a word.
    "row_security": "off",
    "max_parallel_workers_per_gather": "0",
}
_RUNNING = "SELECT transactionid::text FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted"
# Order of bytes in UTF-8 is that of code points: C and POSIX, all of the built-in provider, and glibc's C.UTF-8.
# https://www.postgresql.org/docs/18/collation.html ; columns of pg_database and pg_collation differ by version, hence jsonb.
_BYTEWISE = """
SELECT a.attname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
JOIN pg_database d ON d.datname = current_database(), LATERAL (SELECT
  CASE WHEN c.collprovider = 'd' THEN coalesce(to_jsonb(d)->>'datlocprovider', 'c') ELSE c.collprovider::text END AS provider,
  CASE WHEN c.collprovider = 'd' THEN d.datcollate ELSE c.collcollate END AS locale) found
WHERE a.attrelid = $1::regclass AND c.collisdeterministic
  AND (provider = 'b' OR provider = 'c' AND locale IN ('C', 'POSIX', 'C.UTF-8', 'C.UTF8', 'C.utf8'))
"""
# TRUNCATE and rewriting forms of ALTER TABLE are not MVCC-safe, and a name is looked up anew: an older snapshot sees the table
# empty, or another one. What pg_class shows is the snapshot's; functions and names are of now.
# https://www.postgresql.org/docs/18/mvcc-caveats.html
_ANOTHER = """
WITH now AS (SELECT to_regclass(%s) AS root),
  part AS (SELECT root AS oid FROM now UNION SELECT relid FROM now, pg_partition_tree(root))
SELECT count(*) FROM part LEFT JOIN pg_class seen ON seen.oid = part.oid
WHERE nullif(seen.relfilenode, 0) IS DISTINCT FROM pg_relation_filenode(part.oid) OR seen.oid IS NULL
  OR part.oid = (SELECT root FROM now) AND (seen.relnamespace::regnamespace <> %s::regnamespace OR seen.relname <> %s)
"""
# So few keys are read by the index, whatever the statistics say of its pages; where there is none that serves, not row by row.
# JIT compiles for longer than these statements take.
_BY_INDEX = "SET LOCAL random_page_cost = 0.1; SET LOCAL jit = off"


@contextmanager
def open_cut(database: PostgresDatabase, *, statement_timeout: float) -> Iterator[PostgresCut]:
    """The snapshot of this moment, until the end of the block.
    Raises DatabaseError: the server is a standby, or does not store text as UTF-8."""
    with database.connection() as connection:
        if _prepare_session(connection, database, statement_timeout):
            raise DatabaseError(
                f"PostgreSQL at {database.place} is a standby: it sees less than its primary, and no marker "
                "can be written to its log; compare with the primary, and let cdc reconcile --standby read rows here"
            )
        # Before the snapshot, in this order: what a transaction writes that gets its id later lies above; those that have one
        # hold a lock on it until they end.
        before = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0]
        running = frozenset(int(row[0]) for row in connection.execute(_RUNNING))
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        text, lsn = connection.execute("SELECT pg_current_snapshot()::text, pg_current_wal_lsn()::text").fetchone()
        try:
            yield PostgresCut(connection, Snapshot.parse(text), text, int(before), lsn, running)
        finally:
            connection.execute("ROLLBACK")


@contextmanager
def open_rows(database: PostgresDatabase, *, statement_timeout: float) -> Iterator[PostgresRows]:
    """The rows of this moment, whichever that is; of a standby as well."""
    with database.connection() as connection:
        _prepare_session(connection, database, statement_timeout)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield PostgresRows(connection)
        finally:
            connection.execute("ROLLBACK")


def _prepare_session(connection: Any, database: PostgresDatabase, statement_timeout: float) -> bool:
    """Settings of a session that reads rows as texts; whether the server is a standby."""
    standby, encoding = connection.execute("SELECT pg_is_in_recovery(), current_setting('server_encoding')").fetchone()
    if encoding != "UTF8":
        raise DatabaseError(f"PostgreSQL at {database.place} stores text as {encoding}; only UTF8 is compared")
    for name, value in {**_SETTINGS, "statement_timeout": f"{int(statement_timeout * 1000)}ms"}.items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, value])
    return bool(standby)


class PostgresRows:
    """Tables in one read-only transaction."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.lock = Lock()

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket: one scan."""
        bucket, where = row_text.bucket_sql(), row_text.slice_sql(part, self._own(table, part))
        sums, rows = f"count(*), sum({row_text.hash_sql()})", self._rows_of(table, row_text)
        query = f"SELECT {bucket}::int, {sums} FROM {rows} WHERE {where} GROUP BY 1"
        with self._scan(table, query) as cursor:
            return digest_of(table, cursor)

    def count(self, table: TableId, row_text: RowText, part: Slice) -> int:
        """The rows of a slice, told by no bucket."""
        where = row_text.slice_sql(part, self._own(table, part))
        with self._scan(table, f"SELECT count(*) FROM {self._rows_of(table, row_text)} WHERE {where}") as cursor:
            ((count,),) = cursor
        return int(count)

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets of a slice."""
        listed = ", ".join(str(int(b)) for b in buckets)
        query = (
            f"SELECT {row_text.key_sql()}, {row_text.hash_sql()} FROM {self._rows_of(table, row_text)} "
            f"WHERE {row_text.slice_sql(part, self._own(table, part))} AND {row_text.bucket_sql()} IN ({listed})"
        )
        with self._scan(table, query) as cursor:
            return Counter(tuple(row) for row in cursor)

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""
        values = ", ".join(form.sql(double_quote(name)) for name, form in row_text.forms.items())
        key = row_text.key_sql()
        query = f"SELECT {key}, {values} FROM {self._rows_of(table, row_text)} WHERE {key} = ANY".replace("%", "%%")
        with self._scan(table, f"{query}(%s)", [list(keys)]) as cursor:
            return {row[0]: row_text.display(row[1:]) for row in cursor}

    def _rows_of(self, table: TableId, row_text: RowText) -> str:
        """What to select its rows from: those that the lake's table has."""
        with self.lock:
            rows = own_rows(self.connection, table)
        return f"{f'(SELECT * FROM {rows} WHERE {row_text.row_filter_sql()})' if row_text.spec.where else rows} AS {ROWS}"

    def _own(self, table: TableId, part: Slice) -> frozenset[str]:
        return frozenset() if isinstance(part, tuple) else self.bytewise(table)

    def bytewise(self, table: TableId) -> frozenset[str]:
        """The columns whose texts the database itself orders by their bytes: a range of them is one of their index."""
        with self._scan(table, _BYTEWISE.replace("%", "%%").replace("$1", "%s"), [double_quote(*table)]) as cursor:
            return frozenset(row[0] for row in cursor)

    def range_end(self, table: TableId, row_text: RowText, after: Bound | None, count: int) -> Bound | None:
        """The last of the `count` keys above `after`; None: there are no more than these."""
        from spark.proof.key_order import KeyRange

        own, rows = row_text.in_own_order, self._rows_of(table, row_text)
        query = f"SELECT {row_text.key_values_sql()} FROM {rows} WHERE {own.sql(KeyRange(own.names, after))}"
        with self._scan(table, f"{query} ORDER BY {own.columns_of(ROWS)} LIMIT 2 OFFSET {count - 1}", by_index=True) as cursor:
            bounds = [*cursor]
        return row_text.bind_values(bounds[0]) if len(bounds) == 2 else None

    def in_range(self, table: TableId, row_text: RowText, keys: KeyRange) -> KeyHashes:
        """Key text and hash of every row in a range."""
        where = row_text.in_own_order.sql(keys)
        query = (
            f"SELECT {row_text.key_sql()}, {row_text.hash_sql()} FROM {self._rows_of(table, row_text)} WHERE {where} "
            f"LIMIT {MOST_ROWS + 1}"
        )
        with self._scan(table, query, by_index=True) as cursor:
            return few_enough(table, Counter(tuple(row) for row in cursor))

    def present(self, table: TableId, row_text: RowText, keys: Mapping[str, Sequence[str | None]]) -> set[str]:
        """Those of these keys (texts, with their columns' values) that have a row."""
        if not keys:
            return set()
        import psycopg

        columns = row_text.in_own_order.columns
        key, rows = (text.replace("%", "%%") for text in (row_text.key_sql(), self._rows_of(table, row_text)))
        # Of the column's type and the default collation, which gives way to the column's own.
        lists = ", ".join(f"%s::text[]::{c.source_type.replace('%', '%%')}[]" for c in columns)
        names = ", ".join(f"_cdc_{i}" for i in range(len(columns)))
        same = " AND ".join(f"{ROWS}.{double_quote(c.name)} = _cdc_asked._cdc_{i}" for i, c in enumerate(columns))
        same = same.replace("%", "%%")
        try:
            values = [list(column) for column in zip(*keys.values(), strict=True)]
            query = f"SELECT {key} FROM {rows} JOIN unnest({lists}) AS _cdc_asked({names}) ON {same}"
            with self._scan(table, query, values, by_index=True) as cursor:
                present = {row[0] for row in cursor}
        except DatabaseError as error:
            if not isinstance(error.__cause__, psycopg.DataError):
                raise
            # A text that is none of the type, which only damage writes: told by the rows' own texts, in a scan.
            with self._scan(table, f"SELECT {key} FROM {rows} WHERE {key} = ANY(%s)", [[*keys]]) as cursor:
                present = {row[0] for row in cursor}
        return present & keys.keys()

    @contextmanager
    def _scan(
        self, table: TableId, query: str, values: Sequence[Any] | None = None, *, by_index: bool = False
    ) -> Iterator[Iterator[Any]]:
        import psycopg

        with self.lock:
            self.connection.execute(f"SAVEPOINT scan; {_BY_INDEX}" if by_index else "SAVEPOINT scan")
            try:
                with self.connection.cursor() as cursor:
                    cursor.execute(query.encode(), values)
                    # Behind it: now the scan's lock keeps it the table that was read.
                    self._same(table)
                    yield cursor
            except psycopg.Error as error:
                raise DatabaseError(f"{table.schema}.{table.table}: {str(error).strip().splitlines()[0]}") from error
            finally:
                if not self.connection.broken:
                    self.connection.execute("ROLLBACK TO SAVEPOINT scan")

    def _same(self, table: TableId) -> None:
        names = [double_quote(*table), double_quote(table.schema), table.table]
        if self.connection.execute(_ANOTHER, names).fetchone()[0]:
            raise DatabaseError(
                f"{table.schema}.{table.table}: truncated, rewritten, renamed or made anew since the snapshot was taken; "
                "run it again"
            )


class PostgresCut(PostgresRows):
    """Rows at a snapshot; `text` is its form in PostgreSQL, `lsn` the log position that it was taken at, for people.

    `running` are the ids (32 bits) of the transactions that were in progress a moment before.
    """

    def __init__(
        self, connection: Any, snapshot: Snapshot, text: str, lsn_before: int, lsn: str, running: frozenset[int]
    ) -> None:
        super().__init__(connection)
        self.snapshot, self.lsn_before, self.running = snapshot, lsn_before, running
        self.text, self.lsn = text, lsn

    @property
    def in_lake(self) -> Cut:
        """How Spark tells which events it sees."""
        from spark.proof.snapshot_cut import Cut

        return Cut(self.snapshot.xmax, self.snapshot.xip, self.lsn_before, self.running)
