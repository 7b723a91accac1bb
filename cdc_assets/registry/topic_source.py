"""Sources without a database of ours: topics that an application, Qlik Replicate or somebody else's Debezium fills.

Their chain starts at the topic. Nobody can be asked for columns, so they are declared; there is nothing to count rows
against, so checks that need a database are not there.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.record_forms import EventTime, RecordForm, SchemaRegistry, ValueForms
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import DeclaredTable, Table
from spark.record_formats import ENVELOPES, POSITION_KINDS, WHOLE_BEFORE

if TYPE_CHECKING:
    EnvelopeName = str
    PositionsName = str
else:
    EnvelopeName, PositionsName = Literal[tuple(ENVELOPES)], Literal[tuple(POSITION_KINDS)]
_TEXTS = ("text[]", "character varying[]")


class TopicTable(DeclaredTable):
    """One topic and the table it becomes.

    `connector` says whose positions the records carry. Envelopes that do not imply it need it. `values` says how the
    connector that fills the topic writes values. Without `keys`, rows of plain envelopes are appended.
    `event_time` (envelope json) names the field that says when the event happened: ledger and silver go by it.
    """

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$")
    columns: dict[str, Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    envelope: EnvelopeName
    connector: PositionsName | None = None
    values: ValueForms = ValueForms()
    event_time: EventTime | None = None

    @field_validator("name")
    @classmethod
    def _is_schema_and_table(cls, value: str) -> str:
        return value

    @cached_property
    def id(self) -> TableId:
        """The table's name in the lake."""
        return TableId("public", self.name)

    @property
    def own_topic(self) -> str:
        """The topic that the file names."""
        return self.topic

    @property
    def time_field(self) -> str:
        """The declared field, with its form before it."""
        return self.event_time.told if self.event_time else ""

    @property
    def positions(self) -> str:
        """Whose positions the records carry."""
        return self.connector or ENVELOPES[self.envelope].positions

    @model_validator(mode="after")
    def _parts_of_rows(self) -> TopicTable:
        if not self.partial:
            return self
        if not ENVELOPES[self.envelope].is_row:
            raise ValueError(f"{', '.join(self.partial)}: envelope {self.envelope} says itself which columns it holds")
        if not self.keys:
            raise ValueError(f"{', '.join(self.partial)}: a part of a row needs keys, to find the rest by")
        listed = (*self.ignore_null_updates_column_list, *self.ignore_null_updates_except_column_list)
        unknown = [c for c in (*listed, self.columns_to_update) if c and c not in self.columns]
        if unknown:
            raise ValueError(f"not among the columns {', '.join(self.columns)}: {', '.join(unknown)}")
        if self.columns_to_update and self.columns[self.columns_to_update].removesuffix(" not null") not in _TEXTS:
            raise ValueError(f"columns_to_update: {self.columns_to_update} lists columns: it is of type text[]")
        return self

    @model_validator(mode="after")
    def _is_in_the_record(self) -> TopicTable:
        row = ENVELOPES[self.envelope]
        if row.columns and (unknown := [name for name in self.columns if name not in row.columns]):
            raise ValueError(f"columns {', '.join(unknown)}: a record in {self.envelope} has {', '.join(row.columns)}")
        if self.retention is not None:
            raise ValueError("retention: the topic is made, and kept, by whoever fills it")
        if self.event_time and not row.event_time:
            having = ", ".join(row.name for row in ENVELOPES.values() if row.event_time)
            raise ValueError(f"event_time: no field of a record in {self.envelope} can be named; of {having} it can")
        return self

    @model_validator(mode="after")
    def _is_complete(self) -> TopicTable:
        if not self.positions:
            raise ValueError(f"envelope {self.envelope} does not say whose positions it carries: declare the connector")
        if self.without_key == "multiset":
            if self.envelope not in WHOLE_BEFORE:
                raise ValueError(f"without_key: multiset needs before-images; the envelope is one of {', '.join(WHOLE_BEFORE)}")
        elif not self.keys and not ENVELOPES[self.envelope].is_row:
            raise ValueError(f"envelope {self.envelope} holds changes of rows: declare the keys they are known by")
        return self


class TopicSource(BaseSource):
    """Topics that others fill: on a core cluster, from where they are mirrored, or on the lake's own (`cluster: lake`)."""

    kind: Literal["topics"]
    schema_registry: SchemaRegistry | None = None
    tables: tuple[TopicTable, ...] = Field(min_length=1)

    @property
    def kind_name(self) -> str:
        """The one kind that has no database."""
        return self.kind

    @property
    def mirrored(self) -> bool:
        """Where they are on the core cluster."""
        return self.cluster != "lake"

    def record_form(self, table: Table) -> RecordForm:
        """As the table declares it."""
        assert isinstance(table, TopicTable), table.name
        registry = self.schema_registry if ENVELOPES[table.envelope].in_avro else None
        return {
            "envelope": table.envelope,
            "connector": table.positions,
            "schema_registry": None if registry is None else registry.address,
        }

    @model_validator(mode="after")
    def _has_a_registry(self) -> TopicSource:
        avro = [table.name for table in self.tables if ENVELOPES[table.envelope].in_avro]
        if avro and self.schema_registry is None:
            raise ValueError(f"{', '.join(avro)} in Avro: declare the schema_registry")
        return self

    @model_validator(mode="after")
    def _nobody_is_asked(self) -> TopicSource:
        for name in ("standby", "marker", "signals"):
            if getattr(self.reconciliation, name):
                raise ValueError(f"reconciliation.{name}: a source of topics has no database here")
        return self

    @model_validator(mode="after")
    def _cannot_be_read_again(self) -> TopicSource:
        if self.topics.on_gap == "resnapshot":
            raise ValueError("topics.on_gap: nobody can be asked to send a topic's records again")
        return self
