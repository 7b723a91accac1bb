"""The declaration of one captured table: a frozen model that refuses what it does not know."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from cdc_assets.registry.compatibility import Compatibility
from cdc_assets.registry.declared import TopicName
from cdc_assets.registry.durations import NEVER
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.on_its_way import OnItsWay
from cdc_assets.registry.reconciliation import Reconciliation
from cdc_assets.registry.schema_changes import SchemaChanges
from cdc_assets.registry.source_settings import Freshness, Quarantine, TableBackup, Volumetry

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
        if self.only and not all(re.fullmatch(r"\w+", part) for part in self.id):
            raise ValueError("only: Debezium takes a SELECT of its own for names of letters, digits and _ alone")
        return self

    @model_validator(mode="after")
    def _keys_are_kept(self) -> Table:
        lost = sorted(set(self.keys or ()) & set(self.except_column_list))
        if lost:
            raise ValueError(f"keys cannot be in except_column_list: {', '.join(lost)}")
        if unheld := sorted({each.column for each in self.where} & set(self.except_column_list)):
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
