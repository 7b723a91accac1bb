"""Rows of a Delta table without Spark: counted and read by delta-rs's own SQL, or its files as a PyArrow dataset.

delta-rs reads deletion vectors and column mapping, which a PyArrow dataset refuses. Neither reads a table with widened types
(`schema_changes: {widen: evolve}`). Which small tables Spark may read as their files alone is told here of the log.

A dataset is read without Python on the way. delta-rs gives PyArrow a file system that is written in Python, and PyArrow's
threads close files through it for a while after the last row was handed over. Where the interpreter ends meanwhile, the process
aborts ("terminate called without an active exception"): 17 of 60 reads of a table of six files ended so, with exit code -6
after the right output (delta-io/delta-rs#2184). With PyArrow's own file system: 0 of 60.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark.table.delta_rs import open_delta
from spark.table.identifiers import double_quote
from spark.table.lake_location import arrow_filesystem, is_object

if TYPE_CHECKING:
    import pyarrow as pa

    from spark.table.spark_plans import PlainTable


def open_dataset(table: Any, path: str) -> Any:
    """The dataset of an opened Delta table that lies at `path`, at its version."""
    root = path if is_object(path) else str(Path(path).absolute())
    return table.to_pyarrow_dataset(filesystem=arrow_filesystem(root))


_PLAIN = frozenset({"timestampNtz"})
"""Features that a PyArrow dataset reads as well."""
_UNREAD = frozenset({"typeWidening", "typeWidening-preview"})
_SESSION = {"datafusion.execution.parquet.schema_force_view_types": "false"}


def count_where(table: Any, condition: str) -> int | None:
    """Rows for which a condition of SQL holds, of an opened table at its version; None where its types were widened."""
    from deltalake import QueryBuilder

    if unread_features(table):
        return None
    answer = QueryBuilder().register("t", table).execute(f"SELECT count(*) AS n FROM t WHERE {condition}").read_all()
    (count,) = answer["n"].to_pylist()
    return int(count)


def unread_features(table: Any) -> list[str]:
    """Features of Delta that the table has, and delta-rs does not read."""
    return sorted(_UNREAD & set(table.protocol().reader_features or ()))


def features_beyond_plain(table: Any) -> list[str]:
    """Features of Delta that a reader has to know, or it reads other rows or none: deletionVectors, columnMapping, …"""
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - _PLAIN
    return sorted({*features, "columnMapping"} if protocol.min_reader_version == 2 else features)


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
    batches = pa.RecordBatchReader.from_stream(QueryBuilder(_SESSION).register("t", table).execute(f"SELECT {listed} FROM t"))
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in batches))


def read_first(table: Any, rows: int) -> pa.Table:
    """So many rows of it, whichever come first."""
    import pyarrow as pa
    from deltalake import QueryBuilder

    return pa.table(QueryBuilder(_SESSION).register("t", table).execute(f"SELECT * FROM t LIMIT {rows}").read_all())


def has_column(table: Any, column: str) -> bool:
    """Whether the table has it, in its schema of now."""
    return any(field.name == column for field in table.schema().fields)


_FILES_UP_TO = 32
"""Spark looks at up to so many by itself; for more it starts a job (spark.sql.sources.parallelPartitionDiscovery.threshold)."""


def plain_table(path: str, version: int) -> PlainTable | None:
    """The table at a version; None where its files are not its rows, where it has none, or many."""
    from spark.table.spark_plans import PlainTable

    table = open_delta(path, version=version)
    if not is_plain(table):
        return None
    names = table.get_add_actions(flatten=True)["path"].to_pylist()
    # Names in a log are URIs: one of another folder, or one that is written otherwise than its file, is left to Delta.
    if not 0 < len(names) <= _FILES_UP_TO or any("%" in name or ":" in name or name.startswith("/") for name in names):
        return None
    files = tuple(f"{path}/{name}" for name in sorted(names))
    return PlainTable(files, table.schema().to_json(), dict(table.metadata().configuration))
