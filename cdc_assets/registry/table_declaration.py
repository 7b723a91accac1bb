"""What can be written of one table below `tables:`, and what of it contradicts itself.

`Table` has the fields of every table. `DeclaredTable` adds columns, where the source's catalogue need not tell them;
`TopicTable` is a topic that others fill, with its columns. Names are as in AUTO CDC where it has one (docs/reference/rows.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from cdc_assets.registry.field_types import NEVER, Declared, Duration, TableId, TableName, TopicName, at_least, parse_table
from cdc_assets.registry.record_forms import EventTime, ValueForms
from cdc_assets.registry.source_settings import Freshness, Reconciliation, Volumetry
from spark.errors import JobRefusedError
from spark.record_formats import ENVELOPES, POSITION_KINDS, WHOLE_BEFORE
from spark.silver.column_ledger import OWN_PREFIX, is_own_name
from spark.specs import RowCondition
from spark.upkeep.declared_windows import Measure, WindowedSpec

if TYPE_CHECKING:
    EnvelopeName = str
    PositionsName = str
else:
    EnvelopeName, PositionsName = Literal[tuple(ENVELOPES)], Literal[tuple(POSITION_KINDS)]

Compatibility = Literal["current", "portable"]
"""Today's Spark and delta-rs, or all readers."""
Owner = Annotated[str, Field(pattern=r"^(team:[A-Za-z0-9._-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]
Value = StrictBool | StrictInt | date | StrictStr | None


class SchemaChanges(Declared):
    """One choice per kind of change. What each choice means: docs/explanation/schema-changes.md."""

    add: Literal["evolve", "ignore", "halt"] = "evolve"
    widen: Literal["rewrite", "evolve", "ignore", "halt"] = "rewrite"
    change: Literal["evolve", "ignore", "halt"] = "evolve"
    rename: Literal["evolve", "ignore", "halt"] = "evolve"
    drop: Literal["lenient", "halt"] = "lenient"
    nullability: Literal["ignore", "halt"] = "ignore"
    reorder: Literal["ignore", "halt"] = "ignore"
    drop_table: Literal["lenient", "evolve", "ignore", "halt"] = "lenient"


class RowChoice(Declared):
    """A condition on the values of one column: whole numbers, booleans, dates or texts.

    `one_of` keeps rows that have one of these values, `none_of` those that have none of them. `null` is a value like the
    others. A text is compared by its code points, whatever the collation at the source.
    """

    column: str
    one_of: tuple[Value, ...] = ()
    none_of: tuple[Value, ...] = ()

    def refusals(self) -> Iterator[str]:
        """Values of both forms, or of none."""
        if bool(self.one_of) == bool(self.none_of):
            yield f"where: column {self.column}: give values as one_of or as none_of"

    @property
    def condition(self) -> RowCondition:
        """As the job has it: values as texts, each once and in order, NULL last."""
        values = {_text(value) for value in self.one_of or self.none_of}
        listed = sorted(value for value in values if value is not None)
        return RowCondition(self.column, (*listed, *([None] if None in values else [])), excluded=bool(self.none_of))


def _text(value: Value) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else value.isoformat() if isinstance(value, date) else str(value)


class WindowedResults(Declared):
    """Figures of a table's rows by windows of event time (docs/how-to/windows.md).

    `event_time` is the column that says when a row happened. A window is `size` long. One begins every `every`: by default
    they do not overlap. `by` are columns whose values have results of their own.
    `measures` are the figures by name. Each is `count`, `count COLUMN`, or `sum`, `min`, `max` or `distinct` with a column.
    The watermark is the newest event time less `delay`. A window is final once the watermark has passed its end and
    `allowed_lateness`. `trigger` is how often silver is looked at.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    event_time: str
    size: Duration
    every: Duration | None = None
    by: tuple[str, ...] = ()
    measures: dict[str, str] = Field(min_length=1)
    delay: Duration = timedelta(0)
    allowed_lateness: Duration = timedelta(hours=1)
    trigger: Duration = timedelta(minutes=1)

    def spec(self, *, source: str, table: str, silver_path: str, path: str) -> WindowedSpec:
        """As the job has it; its log of panes lies beside the results.
        Raises JobRefusedError: it asks for something impossible."""
        durations = {"size": self.size, "every": self.every or self.size, "delay": self.delay}
        durations["allowed_lateness"] = self.allowed_lateness
        for name, value in durations.items():
            if value.microseconds:
                raise JobRefusedError(f"{name}: {value.total_seconds()} s is no whole number of seconds")
        figures = {name: figure.partition(" ") for name, figure in self.measures.items()}
        return WindowedSpec(
            source,
            table,
            self.name,
            silver_path,
            path,
            f"{path}__panes",
            event_time=self.event_time,
            measures=tuple(Measure(name, function, column.strip()) for name, (function, _, column) in figures.items()),
            by=self.by,
            **{name: int(value.total_seconds()) for name, value in durations.items()},
        )

    def refusals(self) -> Iterator[str]:
        """What the job would refuse."""
        try:
            self.spec(source="", table="", silver_path="", path="")
        except JobRefusedError as error:
            yield str(error)


class Quarantine(Declared):
    """How many records of a table may be in quarantine before the table stops. 0 stops it at the first one.

    A record that was redriven leaves the quarantine `keep` after that, and without `keep` never. Open records and those that
    were given up stay (docs/how-to/maintenance.md).
    """

    max_records: int = Field(default=1000, ge=0)
    keep: Annotated[Duration, at_least(timedelta(days=1), "keep", "until then one sees what became of a record")] | None = None


class TableBackup(Declared):
    """What of a table's backup is not as `backup` of the source says. Without `keep` all of it stays."""

    keep: Duration | None = None


class Table(Declared):
    """One captured table.

    `history: scd2` keeps every version of every row in a second table. With a track_history list, only changes of those
    columns make a version (or of all columns but those).
    `only` (PostgreSQL) makes a snapshot leave out the rows of tables that inherit from this one.
    `sensitive` names columns whose values a comparison, and `cdc sql`, show as hashes only.
    `retention` is of its topic, where that is made here. `windows` are figures by event time (docs/how-to/windows.md).
    `backup` stands for `keep` of the source's: `backup: {keep: 30d}`. A table with a history keeps all of its backup.
    `compatibility: portable`, of a table or a source, keeps silver readable by all readers of Delta
    (docs/how-to/read-tables.md).
    `accept_inexact` names columns of types of which Debezium loses something unnoticed, and accepts that
    (docs/reference/types.md).
    `schema_changes` replaces the source's. `renamed` says which columns have been renamed, old name to new, if the database
    cannot tell. PostgreSQL can tell, except when a table is built anew from bronze.
    """

    name: TableName
    topic: TopicName | None = None
    description: str | None = None
    owners: tuple[Owner, ...] = ()

    # What rows are known by, and what events do to them (docs/reference/rows.md).
    keys: tuple[str, ...] | None = None
    without_key: Literal["append", "multiset"] = "append"
    deletes: Literal["hard", "soft"] = "hard"
    truncate: Literal["apply", "soft", "ignore", "halt"] = "apply"
    history: Literal["scd1", "scd2"] = "scd1"
    track_history_column_list: tuple[str, ...] = ()
    track_history_except_column_list: tuple[str, ...] = ()
    # Parts of rows, in topics that others fill: a NULL leaves the column as it is.
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: tuple[str, ...] = ()
    ignore_null_updates_except_column_list: tuple[str, ...] = ()
    columns_to_update: str | None = None

    # Which rows and columns the lake has, and in which form.
    where: tuple[RowChoice, ...] = ()
    only: bool = False
    except_column_list: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    accept_inexact: tuple[str, ...] = ()
    schema_changes: SchemaChanges | None = None
    renamed: dict[str, str] = Field(default_factory=dict)
    compatibility: Compatibility | None = None
    windows: tuple[WindowedResults, ...] = ()

    # How it is kept and compared; the source's where nothing is declared.
    retention: Duration | None = None
    quarantine: Quarantine = Quarantine()
    backup: TableBackup | None = None
    volumetry: Volumetry | None = None
    reconciliation: Reconciliation | None = None
    freshness: Freshness | None = None

    @cached_property
    def id(self) -> TableId:
        """The table in its database."""
        return parse_table(self.name)

    @property
    def declared_columns(self) -> Mapping[str, str]:
        """Each declared column with its type; empty where the source's catalogue tells them."""
        return {}

    @property
    def time_field(self) -> str:
        """The field that says when an event happened, as spark.specs.TopicRange has it; empty where the envelope knows."""
        return ""

    @property
    def partial(self) -> tuple[str, ...]:
        """The settings for parts of rows that are given."""
        names = ("ignore_null_updates", "ignore_null_updates_column_list", "ignore_null_updates_except_column_list")
        return tuple(name for name in (*names, "columns_to_update") if getattr(self, name))

    def refusals(self) -> Iterator[str]:
        """What is declared of rows, columns, comparison and history, and contradicts itself."""
        yield from self._refusals_of_rows()
        yield from self._refusals_of_windows()
        if self.only and not all(re.fullmatch(r"\w+", name) for name in self.id):
            yield "only: Debezium takes a SELECT of its own for names of letters, digits and _ alone"
        left_out = set(self.except_column_list)
        if lost := sorted(set(self.keys or ()) & left_out):
            yield f"keys cannot be in except_column_list: {', '.join(lost)}"
        if lost := sorted({condition.column for condition in self.where} & left_out):
            yield f"where asks for columns that the lake has not (except_column_list): {', '.join(lost)}"
        for name in ("standby", "marker", "signals", "every"):
            if self.reconciliation and getattr(self.reconciliation, name) not in (None, NEVER):
                yield f"reconciliation.{name} is of the whole source: declare it there"
        if self.track_history_column_list and self.track_history_except_column_list:
            yield "give track_history_column_list or track_history_except_column_list, not both"
        if self.history != "scd2" and (self.track_history_column_list or self.track_history_except_column_list):
            yield "track_history lists need history: scd2"

    def _refusals_of_rows(self) -> Iterator[str]:
        lists = [name for name in self.partial if name != "columns_to_update"]
        if len(lists) > 1:
            yield f"give one of {', '.join(lists)}, not {len(lists)}"
        updated = {*self.ignore_null_updates_column_list, *self.ignore_null_updates_except_column_list, self.columns_to_update}
        if keys := sorted(updated & set(self.keys or ()), key=str):
            yield f"{', '.join(map(str, keys))}: a column of the key is in every event, and cannot be left as it was"
        settings = {"deletes: soft": self.deletes == "soft", "without_key: multiset": self.without_key == "multiset"}
        refused = [*(name for name, is_set in settings.items() if is_set), *self.partial]
        if self.where and refused:
            yield f"{', '.join(refused)}: where keeps whole rows of a table with a key, and drops the others"
        settings = {"keys": bool(self.keys), "deletes: soft": self.deletes == "soft", "truncate: soft": self.truncate == "soft"}
        settings["history: scd2"] = self.history == "scd2"
        refused = [name for name, is_set in settings.items() if is_set]
        if self.without_key == "multiset" and refused:
            yield f"{', '.join(refused)}: without_key: multiset knows rows by their values, and not which row is which"

    def _refusals_of_windows(self) -> Iterator[str]:
        names = [results.name for results in self.windows]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            yield f"windows: {', '.join(twice)} is there twice"
        for results in self.windows:
            figures = [figure.partition(" ") for figure in results.measures.values()]
            # A sum or a count tells no row's value; the least and the greatest are such values.
            shown = {*results.by, *(column for function, _, column in figures if function in ("min", "max"))}
            if hidden := sorted(shown & set(self.sensitive)):
                yield f"windows.{results.name} shows values of {', '.join(hidden)}, which is declared sensitive"
        if self.windows and self.where:
            yield "windows are compared with all rows of the source: give where or windows"


def short_table_name(table: TableId) -> str:
    """The table's name in asset keys, Delta paths and backup prefixes.

    `city` for public.city, `sales__order` for sales.order; whatever Dagster's key parts do not take
    (`^[A-Za-z0-9_]+$`) becomes `_`. Two tables that end in the same name are refused by the loader.
    """
    name = table.table if table.schema == "public" else f"{table.schema}__{table.table}"
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


ColumnTypes = dict[str, Annotated[str, Field(min_length=1)]]


class DeclaredTable(Table):
    """A table whose columns may be declared. Without `columns` the source's catalogue tells them, and its key.

    `columns` gives each column's type as PostgreSQL would write it. A column that is never NULL has `not null` behind it.
    What is declared stands: the catalogue is not asked (docs/reference/databases.md).
    """

    columns: ColumnTypes = Field(default_factory=dict)

    @property
    def declared_columns(self) -> Mapping[str, str]:
        """Each declared column with its type; empty where the source's catalogue tells them."""
        return self.columns

    def refusals(self) -> Iterator[str]:
        """Those of every table, and keys that are no column."""
        yield from super().refusals()
        yield from _refusals_of_columns(self)


def _refusals_of_columns(table: Table) -> Iterator[str]:
    columns = table.declared_columns
    if columns and (unknown := [key for key in table.keys or () if key not in columns]):
        yield f"keys that are not among the columns {', '.join(columns)}: {', '.join(unknown)}"
    # Statements of ours call what stands beside the columns so.
    if taken := [name for name in columns if name not in table.except_column_list and is_own_name(name)]:
        yield f"columns {', '.join(taken)}: silver's own columns, and names that begin with {OWN_PREFIX}, are taken"


class TopicTable(Table):
    """One topic and the table it becomes.

    `connector` says whose positions the records carry. Envelopes that do not imply it need it. `values` says how the
    connector that fills the topic writes values. Without `keys`, rows of plain envelopes are appended.
    `event_time` (envelope json) names the field that says when the event happened: ledger and silver go by it.
    """

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$")
    columns: ColumnTypes = Field(min_length=1)
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    envelope: EnvelopeName
    connector: PositionsName | None = None
    values: ValueForms = ValueForms()
    event_time: EventTime | None = None

    @cached_property
    def id(self) -> TableId:
        """The table's name in the lake."""
        return TableId("public", self.name)

    @property
    def declared_columns(self) -> Mapping[str, str]:
        """Each column with its type."""
        return self.columns

    @property
    def time_field(self) -> str:
        """The declared field, with its form before it; empty where the envelope knows."""
        return f"{self.event_time.form}:{self.event_time.field}" if self.event_time else ""

    @property
    def positions(self) -> str:
        """Whose positions the records carry; empty where nobody says so, which is refused."""
        return self.connector or ENVELOPES[self.envelope].positions

    def refusals(self) -> Iterator[str]:
        """Those of every table, and what its envelope cannot say."""
        yield from super().refusals()
        yield from _refusals_of_columns(self)
        row = ENVELOPES[self.envelope]
        if self.partial:
            yield from self._refusals_of_parts()
        if row.columns and (unknown := [name for name in self.columns if name not in row.columns]):
            yield f"columns {', '.join(unknown)}: a record in {self.envelope} has {', '.join(row.columns)}"
        if self.retention is not None:
            yield "retention: the topic is made, and kept, by whoever fills it"
        if self.event_time and not row.event_time:
            having = ", ".join(row.name for row in ENVELOPES.values() if row.event_time)
            yield f"event_time: no field of a record in {self.envelope} can be named; of {having} it can"
        if not self.positions:
            yield f"envelope {self.envelope} does not say whose positions it carries: declare the connector"
        if self.without_key == "multiset":
            if self.envelope not in WHOLE_BEFORE:
                yield f"without_key: multiset needs before-images; the envelope is one of {', '.join(WHOLE_BEFORE)}"
        elif not self.keys and not row.is_row:
            yield f"envelope {self.envelope} holds changes of rows: declare the keys they are known by"

    def _refusals_of_parts(self) -> Iterator[str]:
        settings = ", ".join(self.partial)
        if not ENVELOPES[self.envelope].is_row:
            yield f"{settings}: envelope {self.envelope} says itself which columns it holds"
        if not self.keys:
            yield f"{settings}: a part of a row needs keys, to find the rest by"
        listed = (*self.ignore_null_updates_column_list, *self.ignore_null_updates_except_column_list)
        if unknown := [column for column in (*listed, self.columns_to_update) if column and column not in self.columns]:
            yield f"not among the columns {', '.join(self.columns)}: {', '.join(unknown)}"
        lists = self.columns_to_update
        if lists and self.columns[lists].removesuffix(" not null") not in ("text[]", "character varying[]"):
            yield f"columns_to_update: {lists} lists columns: it is of type text[]"
