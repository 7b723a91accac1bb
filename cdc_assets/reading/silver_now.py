"""Tables as they are now: silver, and what bronze holds beyond it. Nothing is written.

from cdc_assets.reading.silver_now import now, register, register_in_spark

`now` is for readers of Arrow, `register` makes views in DuckDB, `register_in_spark` in a Spark session. Each reading, and
each scan of a DuckDB view, looks at the lake anew; a view in Spark shows the moment of its registration. What Arrow does not
fold is an error that names the reason, never a wrong row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from cdc_assets.chain.fold_specs import current_spec
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import LeftToSparkError
from spark.table.commit_metadata import Committed
from spark.table.identifiers import double_quote, text_literal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark.silver.arrow_view import TableNow

KeyValue: TypeAlias = str | int | float | Decimal | date | UUID
"""A date may be a datetime."""


def _only_spark(table: str, reason: Exception) -> LeftToSparkError:
    return LeftToSparkError(f"{table}: only Spark shows it as it is now: {reason}; docs/how-to/read-now.md#spark")


@dataclass(frozen=True)
class CurrentTable:
    """A table of a source as it is now: pyarrow, DuckDB, Polars and pandas take the object as it is, by Arrow's protocol.

    `where` are values that its rows have, by column: as they are, or as their texts.
    """

    source: BaseSource
    table: Table
    platform: Platform = field(default_factory=Platform)
    where: Mapping[str, KeyValue] = field(default_factory=dict)

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {name: _text(name, value) for name, value in self.where.items()}

    def look(self) -> TableNow:
        """Silver's newest version, and then what bronze has beyond it; no row of silver is read yet.
        Raises LeftToSparkError: only Spark's view shows the table now; DatabaseError: nothing of the table is in the lake, or the
        source cannot be asked for its columns."""
        from spark.errors import LeftToSparkError
        from spark.silver.arrow_view import open_silver, read_now

        name = names.table_name(self.table)
        try:
            silver = open_silver(names.silver_path(self.platform.lake, self.source, self.table))
            committed = bronze_committed(names.bronze_path(self.platform.lake, self.source)) or Committed(-1, {})
            if silver.table is None and not committed.of_table(name):
                raise DatabaseError(f"{self.source.name}/{name}: nothing of it is in the lake yet: cdc status")
            return read_now(silver, committed, name, partial(current_spec, Chain(self.platform, self.source), self.table))
        except LeftToSparkError as reason:
            raise _only_spark(f"{self.source.name}/{name}", reason) from reason

    def reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The rows as they are now, batch by batch, in silver's columns or in these.
        Raises as `look`; DatabaseError: there is no such column."""
        import pyarrow as pa

        current = self.look()
        self._check_columns(current.schema.names, [*(columns or ()), *self.where])
        shown = list(columns) if columns is not None else current.schema.names
        read = current.reader([*dict.fromkeys((*shown, *self.where))], self._condition(current))
        values = {name: pa.scalar(text, pa.string()) for name, text in self._texts.items()}
        schema = pa.schema([read.schema.field(name) for name in shown])
        return pa.RecordBatchReader.from_batches(schema, _select(read, values, shown))

    def by_spark(self, limit: int) -> pa.Table:
        """At most so many rows by Spark's view, which shows what Arrow does not.
        Raises SparkRunError: Spark is not there, or the table has no view."""
        from pyspark.sql import functions as sf

        from spark.silver import current_view
        from spark.table.identifiers import quote

        def rows(session: Any, spec: Any) -> pa.Table:
            frame = current_view.rows_now(session, spec)
            self._check_columns(frame.columns, [*self.where])
            for name, text in self._texts.items():
                frame = frame.where(sf.col(quote(name)) == sf.lit(text).cast(frame.schema[name].dataType))
            table: pa.Table = frame.limit(limit).toArrow()
            return table

        return self.platform.spark().run(rows, current_spec(Chain(self.platform, self.source), self.table))

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
        import pyarrow as pa

        # It spares reading files of silver. Of columns outside of the key it may not: bronze may have other values of a row.

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
        rows = batch
        for name, value in wanted.items():
            try:
                same = pc.equal(rows[name], value.cast(rows[name].type))
            except (ValueError, NotImplementedError) as error:
                kind = batch.schema.field(name).type
                raise DatabaseError(f"{value.as_py()!r} is no value of column {name}, which is {kind}") from error
            rows = rows.filter(same)
        if rows.num_rows:
            yield rows.select(list(columns))


def now(source: str | BaseSource, table: str, *, platform: Platform | None = None) -> CurrentTable:
    """The table of a source as it is whenever it is read; `table` as in the registry, or as the lake calls it.
    Raises DatabaseError: the registry has no such source or table."""
    named_source = find_source(source)
    for one in named_source.tables:
        if table in (one.name, names.table_name(one)):
            return CurrentTable(named_source, one, platform or Platform())
    raise DatabaseError(f"{named_source.name} has no table {table}; it has: {', '.join(one.name for one in named_source.tables)}")


def find_source(source: str | BaseSource) -> BaseSource:
    """The source of that name. Raises DatabaseError: the registry has none."""
    if not isinstance(source, str):
        return source
    by_name = {one.name: one for one in load_sources(settings.sources_folder())}
    if source not in by_name:
        raise DatabaseError(f"no source {source}; there are: {', '.join(by_name)}")
    return by_name[source]


def register(
    connection: Any, source: str | BaseSource, tables: Sequence[str] = (), *, platform: Platform | None = None
) -> list[str]:
    """Make a view in a DuckDB connection of each of these tables of a source, or of all; the names of the views.

    `silver_now.world_country` is the table country of the source world. The connection's cursors do not have the views. Each
    scan of a view reads the lake anew. A statement that names one view twice may so see two moments.

    Raises DatabaseError: the registry has no such source or table, or two tables have one name.
    """
    made = dict(current_tables(source, tables, platform))
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {names.NOW}")
    for name, table in made.items():
        hidden = f"{names.NOW}_{name}"
        connection.register(hidden, table)
        connection.execute(f"CREATE OR REPLACE VIEW {names.NOW}.{double_quote(name)} AS FROM {double_quote(hidden)}")
    return [f"{names.NOW}.{name}" for name in made]


def current_tables(
    source: str | BaseSource, tables: Sequence[str], platform: Platform | None
) -> Iterator[tuple[str, CurrentTable]]:
    """These tables of a source, or all of them, by the names of their views.
    Raises DatabaseError: there is none of a name, or two have one."""
    named_source, taken = find_source(source), dict[str, str]()
    for one in tables or [table.name for table in named_source.tables]:
        current = now(named_source, one, platform=platform)
        name = f"{named_source.name}_{names.table_name(current.table)}"
        if taken.setdefault(name.lower(), current.table.name) != current.table.name:
            both = f"{taken[name.lower()]} and {current.table.name}"
            raise DatabaseError(f"{both} would both be {names.NOW}.{name}: name one of them")
        yield name, current


def register_in_spark(
    session: SparkSession,
    source: str | BaseSource,
    tables: Sequence[str] = (),
    *,
    everywhere: bool = False,
    platform: Platform | None = None,
) -> list[str]:
    """Make a temporary view in Spark of each of these tables of a source, or of all; the names of the views.

    `silver_now_world_country` is the table country of the source world. `everywhere`: for all sessions of the same Spark
    application, in the database `global_temp`. A view shows the versions of silver and bronze at the moment of the call, in
    every query; registering it again moves it on.

    Raises LeftToSparkError: a table has no view, for the reason in the text; DatabaseError: the registry has no such source or
    table, or two tables have one name.
    """
    from spark.errors import SparkJobError
    from spark.silver import current_view

    made = []
    for name, current in current_tables(source, tables, platform):
        try:
            spec = current_spec(Chain(current.platform, current.source), current.table)
            current_view.register(session, spec, f"{names.NOW}_{name}", everywhere=everywhere)
        except SparkJobError as error:
            raise _only_spark(f"{current.source.name}/{spec.table}", error) from error
        made.append(f"{'global_temp.' if everywhere else ''}{names.NOW}_{name}")
    return made
