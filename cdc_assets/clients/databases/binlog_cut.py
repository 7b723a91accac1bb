"""What a session of MariaDB or MySQL tells of its tables at one place of the binlog: rows hashed by the server's own SQL.

One read-only consistent snapshot in one session (`open_cut` of mariadb and mysql): InnoDB commits in the order of the binlog,
so what the snapshot sees is what was written before its place. For a scan's metadata lock an ALTER TABLE waits, and all writers
behind it: rolling back to a savepoint gives it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.source_cut import MOST_ROWS, ROWS, digest_of, few_enough
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.errors import quantity

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.key_order import Bound, KeyRange
    from spark.proof.row_text import RowText, Slice
    from spark.proof.snapshot_cut import BinlogCut

# Stands in a sum for the hash of a row that could not be written, above any sum of hashes.
_UNWRITTEN = 1 << 120
# So many keys are looked up by one statement: of conditions joined by OR 1,000 cost twice as much a key as 200.
_LOOKED_UP = 200
# "Illegal mix of collations", of two, three and more: ER_CANT_AGGREGATE_2COLLATIONS and so on. MySQL says of a character that
# the column's set has not: ER_CANNOT_CONVERT_STRING.
_MIXED = (1267, 1270, 1271, 3854)


@dataclass(frozen=True)
class BinlogRowsCut:
    """All that lies before `place` is seen, and nothing else."""

    cursor: Any
    place: BinlogPosition
    lock: Lock = field(default_factory=Lock)

    @property
    def text(self) -> str:
        """The place, for people."""
        return self.place.text

    @property
    def lsn(self) -> str:
        """The place in the log, for people."""
        return self.place.text

    @property
    def in_lake(self) -> BinlogCut:
        """How Spark tells which events it sees."""
        from spark.proof.snapshot_cut import BinlogCut

        return BinlogCut(self.place.number, self.place.position)

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket: one scan."""
        bucket, where = row_text.bucket_sql(), row_text.row_filter_sql(row_text.slice_sql(part))
        hash_ = f"IFNULL({row_text.hash_sql()}, {_UNWRITTEN})"
        # By its position: a name would be that of the table's own column, where it has one.
        query = f"SELECT {bucket}, COUNT(*), SUM({hash_}) FROM {row_text.dialect.quote(*table)} WHERE {where} GROUP BY 1"
        digest = digest_of(table, self._scan(table, query))
        unwritten = sum(total // _UNWRITTEN for _, total in digest.values())
        if unwritten:
            raise _too_long(table, unwritten)
        return digest

    def count(self, table: TableId, row_text: RowText, part: Slice) -> int:
        """The rows of a slice, told by no bucket."""
        where = row_text.row_filter_sql(row_text.slice_sql(part))
        ((count,),) = self._scan(table, f"SELECT COUNT(*) FROM {row_text.dialect.quote(*table)} WHERE {where}")
        return int(count)

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets of a slice."""
        listed = ", ".join(str(int(b)) for b in buckets)
        query = (
            f"SELECT {row_text.key_sql()}, {row_text.hash_sql()} FROM {row_text.dialect.quote(*table)} "
            f"WHERE {row_text.row_filter_sql(row_text.slice_sql(part), f'{row_text.bucket_sql()} IN ({listed})')}"
        )
        return Counter((key, int(hash_)) for key, hash_ in self._scan(table, query))

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""
        if not keys:
            return {}
        values = ", ".join(form.sql(row_text.dialect.quote(name)) for name, form in row_text.forms.items())
        key = row_text.key_sql()
        query = f"SELECT {key}, {values} FROM {row_text.dialect.quote(*table)} WHERE {row_text.row_filter_sql()} AND {key} IN "
        query = query.replace("%", "%%")
        rows = self._scan(table, f"{query}({', '.join(['%s'] * len(keys))})", list(keys))
        return {row[0]: row_text.display([_as_text(value) for value in row[1:]]) for row in rows}

    def bytewise(self, table: TableId) -> frozenset[str]:
        """None: a range in the order of bytes is a scan here."""
        return frozenset()

    def range_end(self, table: TableId, row_text: RowText, after: Bound | None, count: int) -> Bound | None:
        """The last of the `count` keys above `after`; None: there are no more than these."""
        from spark.proof.key_order import KeyRange

        own = row_text.in_own_order
        rows = f"{row_text.dialect.quote(*table)} AS {ROWS} FORCE INDEX (PRIMARY)"
        query = f"SELECT {row_text.key_values_sql()} FROM {rows} "
        query += f"WHERE {row_text.row_filter_sql(own.sql(KeyRange(own.names, after)))} "
        query += f"ORDER BY {own.columns_of(ROWS)} LIMIT 2 OFFSET {count - 1}"
        bounds = self._scan(table, query)
        return row_text.bind_values([_as_text(value) for value in bounds[0]]) if len(bounds) == 2 else None

    def in_range(self, table: TableId, row_text: RowText, keys: KeyRange) -> KeyHashes:
        """Key text and hash of every row in a range."""
        query = f"SELECT {row_text.key_sql()}, {row_text.hash_sql()} FROM {row_text.dialect.quote(*table)} FORCE INDEX (PRIMARY) "
        rows = self._scan(
            table, f"{query} WHERE {row_text.row_filter_sql(row_text.in_own_order.sql(keys))} LIMIT {MOST_ROWS + 1}"
        )
        if unwritten := sum(hash_ is None for _, hash_ in rows):
            raise _too_long(table, unwritten)
        return few_enough(table, Counter((key, int(hash_)) for key, hash_ in rows))

    def present(self, table: TableId, row_text: RowText, keys: Mapping[str, Sequence[str | None]]) -> set[str]:
        """Those of these keys (texts, with their columns' values) that have a row."""
        own, present = row_text.in_own_order, set[str]()
        complete = [(key, [str(v) for v in values]) for key, values in keys.items() if None not in values]
        query = f"SELECT {row_text.key_sql()} FROM {row_text.dialect.quote(*table)} FORCE INDEX (PRIMARY) "
        query += f"WHERE {row_text.row_filter_sql()} AND "
        for start in range(0, len(complete), _LOOKED_UP):
            some = complete[start : start + _LOOKED_UP]
            try:
                rows = self._scan(table, f"{query}({own.one_of([values for _, values in some])})")
            except DatabaseError as error:
                cause = error.__cause__
                if not cause or cause.args[0] not in _MIXED:
                    raise
                # A character that the column's set has not, which only damage writes: told by the rows' own texts, in a scan.
                listed = ", ".join(["%s"] * len(some))
                scan = f"{query}{row_text.key_sql()} IN ".replace("%", "%%") + f"({listed})"
                rows = self._scan(table, scan, [key for key, _ in some])
            present.update(row[0] for row in rows)
        return present & keys.keys()

    def _scan(self, table: TableId, query: str, values: Sequence[Any] | None = None) -> list[Any]:
        import pymysql

        with self.lock:
            self.cursor.execute("SAVEPOINT scan")
            try:
                self.cursor.execute(query, values)
                rows = list(self.cursor.fetchall())
            except pymysql.err.MySQLError as error:
                raise DatabaseError(f"{table.schema}.{table.table}: {error.args[-1]}") from error
            self.cursor.execute("ROLLBACK TO SAVEPOINT scan")
            return rows


def _too_long(table: TableId, rows: int) -> DatabaseError:
    return DatabaseError(
        f"{table.schema}.{table.table}: {quantity(rows, 'row')} longer than max_allowed_packet as text: nothing is "
        "compared; let the server take the longest row (SET GLOBAL max_allowed_packet)"
    )


def _as_text(value: Any) -> str | None:
    """The driver gives texts of binary pieces as bytes."""
    return value.decode() if isinstance(value, bytes) else None if value is None else str(value)
