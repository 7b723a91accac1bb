"""Rows of a Delta table, read and counted in its data by delta-rs's own SQL.

It reads deletion vectors and column mapping, which a PyArrow dataset refuses. Neither reads a table with widened types
(`schema_changes: {widen: evolve}`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark.delta.identifiers import double_quote

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = frozenset({"timestampNtz"})
"""Features that a PyArrow dataset reads as well."""
_UNREAD = frozenset({"typeWidening", "typeWidening-preview"})
_SESSION = {"datafusion.execution.parquet.schema_force_view_types": "false"}


def count_where(table: Any, condition: str) -> int | None:
    """Rows for which a condition of SQL holds, of an opened table at its version; None where its types were widened."""
    from deltalake import QueryBuilder

    if unread_features(table):
        return None
    found = QueryBuilder().register("t", table).execute(f"SELECT count(*) AS n FROM t WHERE {condition}").read_all()
    (count,) = found["n"].to_pylist()
    return int(count)


def unread_features(table: Any) -> list[str]:
    """Features of Delta that the table has, and delta-rs does not read."""
    return sorted(_UNREAD & set(table.protocol().reader_features or ()))


def features_beyond_plain(table: Any) -> list[str]:
    """Features of Delta that a reader has to know, or it reads other rows or none: deletionVectors, columnMapping, …"""
    protocol = table.protocol()
    found = set(protocol.reader_features or ()) - _PLAIN
    return sorted({*found, "columnMapping"} if protocol.min_reader_version == 2 else found)


def is_plain(table: Any) -> bool:
    """Whether its files are its rows, under its columns' names."""
    return not features_beyond_plain(table)


def arrow_schema(table: Any) -> pa.Schema:
    """The table's columns, as Arrow has them."""
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow()).remove_metadata()


def read_rows(table: Any) -> pa.RecordBatchReader:
    """All rows of an opened table at its version, batch by batch: with deletion vectors and column mapping."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    schema = arrow_schema(table)
    listed = ", ".join(double_quote(name) for name in schema.names)
    found = pa.RecordBatchReader.from_stream(QueryBuilder(_SESSION).register("t", table).execute(f"SELECT {listed} FROM t"))
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in found))


def read_first(table: Any, rows: int) -> pa.Table:
    """So many rows of it, whichever come first."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    return pa.table(QueryBuilder(_SESSION).register("t", table).execute(f"SELECT * FROM t LIMIT {rows}").read_all())


def has_deletion_vectors(table: Any) -> bool:
    """Whether its files may hold rows that are gone; delta-rs no longer tells how many, file by file."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def has_column(table: Any, column: str) -> bool:
    """Whether the table has it, in its schema of now."""
    return any(field.name == column for field in table.schema().fields)
