"""The declaration of one captured table: a frozen model that refuses what it does not know.

It says what becomes of changes of the source's schema (docs/explanation/schema-changes.md), which readers the table is kept for,
and for sources whose server is not asked also the columns.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cdc_assets.registry.field_types import NEVER, Declared, Duration, TableId, TopicName, parse_table, refuse_own_names
from cdc_assets.registry.row_rules import Rows, WindowedResults, refuse_windows
from cdc_assets.registry.source_settings import Freshness, Quarantine, Reconciliation, TableBackup, Volumetry
from spark.table.identifiers import NEEDS_COLUMN_MAPPING

if TYPE_CHECKING:
    from cdc_assets.registry.source_declaration import BaseSource


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


Compatibility = Literal["current", "portable"]
"""Today's Spark and delta-rs, or all readers."""


def is_portable(source: BaseSource, table: Table) -> bool:
    """Whether the table is declared to stay readable by all."""
    return (table.compatibility or source.compatibility) == "portable"


def refuse_features(source: BaseSource) -> None:
    """What of a portable table's declaration needs a feature that not all readers have.

    Raises:
        ValueError: naming the table, and the setting.
    """
    for table in source.tables:
        if is_portable(source, table) and (table.schema_changes or source.schema_changes).widen == "evolve":
            raise ValueError(
                f"table {table.name}: compatibility: portable and schema_changes: {{widen: evolve}}: Delta's widened types "
                "are read by Spark alone; take widen: rewrite"
            )
        named = [name for name in getattr(table, "columns", ()) if NEEDS_COLUMN_MAPPING & set(name)]
        if is_portable(source, table) and named:
            raise ValueError(
                f"table {table.name}: compatibility: portable, and columns {', '.join(map(repr, named))} have names that need "
                "Delta's column mapping: name them in except_column_list, or rename them"
            )


class OnItsWay(Rows):
    """What a table's topic is like, where it is not as `topics` of the source says, and what is computed of its rows."""

    retention: Duration | None = None
    sensitive: tuple[str, ...] = ()
    windows: tuple[WindowedResults, ...] = ()

    @model_validator(mode="after")
    def _windows_can_be_shown(self) -> OnItsWay:
        refuse_windows(self.windows, self.sensitive)
        if self.windows and self.where:
            raise ValueError("windows are compared with all rows of the source: give where or windows")
        return self

    @property
    def time_field(self) -> str:
        """The field that says when an event happened, as spark.specs.TopicRange has it; empty where the envelope knows."""
        return ""


Owner = Annotated[str, Field(pattern=r"^(team:[A-Za-z0-9._-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]


class Table(OnItsWay):
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

    name: str
    topic: TopicName | None = None
    except_column_list: tuple[str, ...] = ()
    only: bool = False
    accept_inexact: tuple[str, ...] = ()
    schema_changes: SchemaChanges | None = None
    renamed: dict[str, str] = Field(default_factory=dict)
    track_history_column_list: tuple[str, ...] = ()
    track_history_except_column_list: tuple[str, ...] = ()
    quarantine: Quarantine = Quarantine()
    compatibility: Compatibility | None = None
    backup: TableBackup | None = None
    owners: tuple[Owner, ...] = ()
    description: str | None = None
    volumetry: Volumetry | None = None
    reconciliation: Reconciliation | None = None
    freshness: Freshness | None = None

    @field_validator("name")
    @classmethod
    def _is_schema_and_table(cls, value: str) -> str:
        # One spelling: what is onboarded is looked for by its name.
        return str(parse_table(value))

    @cached_property
    def id(self) -> TableId:
        """The table in its database."""
        return parse_table(self.name)

    @property
    def own_topic(self) -> str:
        """The topic that is declared for it; empty where the source's connector names it."""
        return self.topic or ""

    @model_validator(mode="after")
    def _only_can_be_said(self) -> Table:
        if self.only and not all(re.fullmatch(r"\w+", name) for name in self.id):
            raise ValueError("only: Debezium takes a SELECT of its own for names of letters, digits and _ alone")
        return self

    @model_validator(mode="after")
    def _keys_are_kept(self) -> Table:
        lost = sorted(set(self.keys or ()) & set(self.except_column_list))
        if lost:
            raise ValueError(f"keys cannot be in except_column_list: {', '.join(lost)}")
        if unheld := sorted({condition.column for condition in self.where} & set(self.except_column_list)):
            raise ValueError(f"where asks for columns that the lake has not (except_column_list): {', '.join(unheld)}")
        return self

    @model_validator(mode="after")
    def _is_of_the_source(self) -> Table:
        for name in ("standby", "marker", "signals", "every"):
            if self.reconciliation and getattr(self.reconciliation, name) not in (None, NEVER):
                raise ValueError(f"reconciliation.{name} is of the whole source: declare it there")
        return self

    @model_validator(mode="after")
    def _one_way_to_track(self) -> Table:
        if self.track_history_column_list and self.track_history_except_column_list:
            raise ValueError("give track_history_column_list or track_history_except_column_list, not both")
        if self.history != "scd2" and (self.track_history_column_list or self.track_history_except_column_list):
            raise ValueError("track_history lists need history: scd2")
        return self


def short_table_name(table: TableId) -> str:
    """The table's name in asset keys, Delta paths and backup prefixes.

    `city` for public.city, `sales__order` for sales.order; whatever Dagster's key parts do not take
    (`^[A-Za-z0-9_]+$`) becomes `_`. Two tables that end in the same name are refused by the loader.
    """
    name = table.table if table.schema == "public" else f"{table.schema}__{table.table}"
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


class DeclaredTable(Table):
    """A table whose columns may be declared. Without `columns` the source's catalogue tells them, and its key.

    `columns` gives each column's type as PostgreSQL would write it. A column that is never NULL has `not null` behind it.
    What is declared stands: the catalogue is not asked (docs/reference/databases.md).
    """

    columns: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _keys_are_columns(self) -> DeclaredTable:
        unknown = [key for key in self.keys or () if self.columns and key not in self.columns]
        if unknown:
            raise ValueError(f"keys that are not among the columns {', '.join(self.columns)}: {', '.join(unknown)}")
        refuse_own_names(name for name in self.columns if name not in self.except_column_list)
        return self
