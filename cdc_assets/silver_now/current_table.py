"""One table as it is now, for readers of Arrow: pyarrow, DuckDB, Polars, pandas take the object as it is.

Each reading looks at the lake anew. What Arrow does not fold is an error that names the reason, never a wrong row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from cdc_assets import names, settings
from cdc_assets.errors import DatabaseError, LeftToSparkViewError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.current_spec import current_spec
from spark.delta.commits import Committed
from spark.delta.identifiers import double_quote, text_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from spark.small_tables.arrow_view import TableNow


KeyValue: TypeAlias = str | int | float | Decimal | date | UUID
"""A date may be a datetime."""


@dataclass(frozen=True)
class CurrentTable:
    """A table of a source; `where` are values that its rows have, by column: as they are, or as their texts."""

    source: BaseSource
    table: Table
    platform: Platform = field(default_factory=Platform)
    where: Mapping[str, KeyValue] = field(default_factory=dict)

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {name: _text(name, value) for name, value in self.where.items()}

    def look(self) -> TableNow:
        """Silver's newest version, and then what bronze has beyond it; no row of silver is read yet.

        Raises:
            LeftToSparkViewError: only Spark's view shows the table now.
            DatabaseError: nothing of the table is in the lake, or the source cannot be asked for its columns.
        """
        from spark.errors import LeftToSparkError
        from spark.small_tables.arrow_view import open_silver, read_now

        name = names.table_name(self.table)
        try:
            silver = open_silver(names.silver_path(self.platform.lake, self.source, self.table))
            committed = bronze_committed(names.bronze_path(self.platform.lake, self.source)) or Committed(-1, {})
            if silver.table is None and not committed.of_table(name):
                raise DatabaseError(f"{self.source.name}/{name}: nothing of it is in the lake yet: cdc status")
            return read_now(silver, committed, name, partial(current_spec, self.platform, self.source, self.table))
        except LeftToSparkError as reason:
            raise LeftToSparkViewError(f"{self.source.name}/{name}", str(reason)) from reason

    def reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows as they are now, batch by batch, in silver's columns or in these.

        Raises:
            as `look`; DatabaseError: there is no such column.
        """
        import pyarrow as pa

        found = self.look()
        self._check_columns(found.schema.names, [*(columns or ()), *self.where])
        shown = list(columns) if columns is not None else found.schema.names
        read = found.reader([*dict.fromkeys((*shown, *self.where))], self._condition(found))
        wanted = {name: pa.scalar(text, pa.string()) for name, text in self._texts.items()}
        schema = pa.schema([read.schema.field(name) for name in shown])
        return pa.RecordBatchReader.from_batches(schema, _select(read, wanted, shown))

    def by_spark(self, limit: int) -> pa.Table:
        """At most so many rows by Spark's view, which shows what Arrow does not.

        Raises:
            SparkRunError: Spark is not there, or the table has no view.
        """
        from pyspark.sql import functions as sf

        from spark.delta.identifiers import quote
        from spark.silver import view

        def rows(session: Any, spec: Any) -> pa.Table:
            found = view.rows_now(session, spec)
            self._check_columns(found.columns, [*self.where])
            for name, text in self._texts.items():
                found = found.where(sf.col(quote(name)) == sf.lit(text).cast(found.schema[name].dataType))
            table: pa.Table = found.limit(limit).toArrow()
            return table

        return self.platform.spark().run(rows, current_spec(self.platform, self.source, self.table))

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of one moment."""
        return self.reader(columns).read_all()

    def __arrow_c_schema__(self) -> Any:
        """Its columns, by the protocol of https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html."""
        return self.look().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Its rows as they are when this is called, by the same protocol."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def _check_columns(self, known: Sequence[str], asked: Sequence[str]) -> None:
        if unknown := [name for name in asked if name not in known]:
            raise DatabaseError(f"{self.table.name} has no column {', '.join(unknown)}; it has: {', '.join(known)}")

    def _condition(self, found: TableNow) -> str:
        """Spares reading files of silver: only of a key, since the rows of a key are told by that alone."""
        import pyarrow as pa

        parts = []
        for name, text in self._texts.items():
            kind = found.schema.field(name).type
            if found.changes is not None and name not in found.keys:
                continue
            if pa.types.is_integer(kind) and text.lstrip("-").isdigit():
                parts.append(f"{double_quote(name)} = {text}")
            elif pa.types.is_string(kind):
                parts.append(f"{double_quote(name)} = {text_literal(text)}")
        return " AND ".join(parts)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float, Decimal, date, UUID)):
        return str(value)
    raise DatabaseError(f"{value!r} is asked for in column {name}: give a text, a number, a date or a UUID")


def _select(batches: pa.RecordBatchReader, wanted: Mapping[str, pa.Scalar], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in batches:
        found = batch
        for name, value in wanted.items():
            try:
                same = pc.equal(found[name], value.cast(found[name].type))
            except (ValueError, NotImplementedError) as error:
                kind = batch.schema.field(name).type
                raise DatabaseError(f"{value.as_py()!r} is no value of column {name}, which is {kind}") from error
            found = found.filter(same)
        if found.num_rows:
            yield found.select(list(columns))


def now(source: str | BaseSource, table: str, *, platform: Platform | None = None) -> CurrentTable:
    """The table of a source as it is whenever it is read; `table` as in the registry, or as the lake calls it.

    Raises:
        DatabaseError: the registry has no such source or table.
    """
    found = find_source(source)
    for each in found.tables:
        if table in (each.name, names.table_name(each)):
            return CurrentTable(found, each, platform or Platform())
    raise DatabaseError(f"{found.name} has no table {table}; it has: {', '.join(each.name for each in found.tables)}")


def find_source(source: str | BaseSource) -> BaseSource:
    """The source of that name.

    Raises:
        DatabaseError: the registry has none.
    """
    if not isinstance(source, str):
        return source
    known = {each.name: each for each in load_sources(settings.sources_folder())}
    if source not in known:
        raise DatabaseError(f"no source {source}; there are: {', '.join(known)}")
    return known[source]
