"""Statements of SQL by DuckDB in this process.

A statement reads the tables that it names, nothing of the machine's files, and writes nothing. A table is opened once per
statement, so that all its scans see one version: by PyArrow's dataset, which skips files and columns, or by delta-rs, which
reads every form of a table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cdc_assets.clients import delta_rows
from cdc_assets.clients.delta_log import open_table
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.platform import Platform
from cdc_assets.reading.lake_tables import LAYERS, Answer, LakeTable, answer, hidden_columns, statement_refusal, tables_in
from cdc_assets.reading.silver_now import CurrentTable
from cdc_assets.recovery.cut_manifest import open_entry
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.errors import ON_PURPOSE, RefusalError
from spark.table.identifiers import double_quote, text_literal

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = "nothing of it is in the lake yet: cdc status"


@dataclass
class RowStream:
    """Rows by Arrow's own protocol, anew for each scan; `hidden` columns are hashes."""

    schema: pa.Schema
    read: Callable[[], pa.RecordBatchReader]
    hidden: tuple[str, ...]
    values: HiddenValues

    def __arrow_c_schema__(self) -> Any:
        """The columns, those that are hidden as texts."""
        return self._schema_of_hashes().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows, batch by batch."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._schema_of_hashes(), self._batches()).__arrow_c_stream__(requested_schema)

    def _schema_of_hashes(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([pa.field(f.name, pa.string()) if f.name in self.hidden else f for f in self.schema])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in self.read():
            columns = [self.values.hide_column(batch[name]) if name in self.hidden else batch[name] for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema_of_hashes())


def open_scan(found: LakeTable, platform: Platform, values: HiddenValues) -> Any:
    """What DuckDB registers for the table. Raises RefusalError: it is not in the lake, or only Spark reads it."""
    if found.is_now:
        if not found.is_there:
            raise RefusalError(f"{found.name}: {_NOTHING}")
        return _scan_now(found, platform, values)
    table = _open(found)
    hidden = tuple(field.name for field in table.schema().fields if field.name in found.sensitive)
    if hidden or not delta_rows.is_plain(table):
        return RowStream(delta_rows.arrow_schema(table), lambda: delta_rows.read_rows(table), hidden, values)
    return open_dataset(table, found.path)


def read_version(found: LakeTable, version: int | None) -> tuple[int, pa.Table]:
    """A version of the table (None: the newest) and its rows, sensitive columns as hashes.
    Raises RefusalError: it is not in the lake, only Spark reads it, or that version is gone."""
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    table, newest = _open(found), None
    try:
        if version is not None:
            newest = table.version()
            table.load_as_version(version)
        rows = RowStream(delta_rows.arrow_schema(table), lambda: delta_rows.read_rows(table), found.sensitive, HiddenValues())
        return table.version(), pa.table(rows)
    except (DeltaError, OSError) as error:
        raise RefusalError(f"{found.name} at version {version}, of {newest}: {error}") from error


def _open(found: LakeTable) -> Any:
    table = open_table(found.path) if found.at is None else open_entry(found.path, found.at)
    if table is None:
        raise RefusalError(f"{found.name}: {_NOTHING}")
    if unread := delta_rows.unread_features(table):
        raise RefusalError(f"{found.name} has {', '.join(unread)}, which only Spark reads: cdc sql --spark")
    return table


def _scan_now(found: LakeTable, platform: Platform, values: HiddenValues) -> RowStream:
    assert found.table is not None
    try:
        rows = CurrentTable(found.source, found.table, platform).look()
    except ON_PURPOSE as error:
        raise RefusalError(f"{found.name}: {error}; or: cdc sql --spark") from error
    return RowStream(rows.schema, rows.reader, tuple(n for n in rows.schema.names if n in found.sensitive), values)


_CLOSED = (
    "SET memory_limit = '2GB'",
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""What is larger than the memory goes to a temporary folder; with the last line no statement can open the others again."""


def statements_of(text: str) -> list[str]:
    """The statements of a text, which `;` divides. Raises RefusalError: one of them is no SQL, or no question."""
    duckdb = import_duckdb()
    try:
        statements = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise RefusalError(str(error)) from error
    asks = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    for query in statements:
        if query.type not in asks:
            what = query.type.name.replace("_", " ")
            raise RefusalError(f"{what}: cdc sql only reads: SELECT, FROM, DESCRIBE, SUMMARIZE, EXPLAIN")
    return [query.query.strip().removesuffix(";") for query in statements]


def query_by_duckdb(
    statement: str, tables: Sequence[LakeTable], platform: Platform, *, limit: int, show_sensitive: bool = False
) -> Answer:
    """At most so many rows of one statement.
    Raises RefusalError: what DuckDB says, with the names that are near to an unknown one."""
    duckdb = import_duckdb()
    named = tables_in(statement, tables)
    if show_sensitive:
        named = [replace(table, sensitive=()) for table in named]
    with _connect() as connection:
        scans = _register(connection, named, platform)
        for setting in _CLOSED:
            connection.execute(setting)
        try:
            cursor = connection.execute(statement)
            columns = [str(column[0]) for column in cursor.description or ()]
            rows = cursor.fetchmany(limit + 1)
        except duckdb.CatalogException as error:
            raise statement_refusal(statement, str(error), tables, missing=_missing(connection, statement)) from error
        except duckdb.Error as error:
            raise RefusalError(str(error)) from error
        del scans
    return answer(columns, rows, limit, hidden_columns(named))


def import_duckdb() -> Any:
    """The module. Raises RefusalError: it is not installed; says how to."""
    try:
        import duckdb
    except ImportError as error:
        raise RefusalError("cdc sql asks DuckDB, which is not installed: ./cdc sql installs it, or pip install duckdb") from error
    return duckdb


@contextmanager
def _connect() -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="cdc-sql-") as folder, import_duckdb().connect() as connection:
        connection.execute(f"SET temp_directory = {text_literal(folder)}")
        # `silver.shop.orders` is a catalog, a schema and a table.
        for layer in LAYERS:
            connection.execute(f"ATTACH ':memory:' AS {layer}")
        yield connection


def _register(connection: Any, named: Sequence[LakeTable], platform: Platform) -> list[Any]:
    # DuckDB does not own what it scans: the caller holds the answer until the rows are read.
    values, scans, taken = HiddenValues(), list[Any](), dict[str, str]()
    for number, table in enumerate(named):
        name = ".".join(table.parts)
        if taken.setdefault(name.lower(), name) != name:
            raise RefusalError(f"{name} and {taken[name.lower()]} differ by case only, which SQL does not tell apart")
        scans.append(open_scan(table, platform, values))
        connection.register(f"scan {number}", scans[-1])
        *catalog, last = table.parts if len(table.parts) > 2 else (table.parts[0], "main", table.parts[1])
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {double_quote(*catalog)}")
        only = "" if table.only is None else f" WHERE {double_quote('table')} = {text_literal(table.only)}"
        view = f"SELECT * FROM temp.main.{double_quote(f'scan {number}')}{only}"
        connection.execute(f"CREATE VIEW {double_quote(*catalog, last)} AS {view}")
    return scans


def _missing(connection: Any, statement: str) -> list[str]:
    try:
        return sorted(name.replace('"', "") for name in connection.get_table_names(statement, qualified=True))
    except import_duckdb().Error:
        return []
