"""The declaration of one source and its tables: frozen models that refuse what they do not know.

Names follow Databricks' AUTO CDC where one exists (`keys`, `except_column_list`), so that users can move over.
No Dagster here, and nothing is resolved: addresses and secrets stay references until they are used.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from cdc_assets.kinds import kind_of
from cdc_assets.registry.capture_rules import refuse_capture
from cdc_assets.registry.compatibility import Compatibility, refuse_features
from cdc_assets.registry.core_cluster import OfCluster, refuse_cluster
from cdc_assets.registry.database_kinds import AskedDatabase
from cdc_assets.registry.declared import SOURCE_NAME, DatabaseKind, TopicName
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.mirror import Mirror, refuse_mirror
from cdc_assets.registry.on_its_way import OnItsWay
from cdc_assets.registry.reconciliation import Reconciliation
from cdc_assets.registry.record_form import RecordForm
from cdc_assets.registry.schema_changes import SchemaChanges
from cdc_assets.registry.sink import Sink
from cdc_assets.registry.source_settings import (
    Backup,
    Batching,
    Capture,
    Cuts,
    DrillSettings,
    Freshness,
    LedgerSettings,
    Maintenance,
    Quarantine,
    Topics,
    Volumetry,
    refuse_settings_of_lake,
)
from cdc_assets.registry.value_forms import ValueForms

Owner = Annotated[str, Field(pattern=r"^(team:[A-Za-z0-9._-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]


class Table(OnItsWay):
    """One captured table.

    `history: scd2` keeps every version of every row in a second table. With a track_history list, only changes of those
    columns make a version (or of all columns but those).
    `only` (PostgreSQL) makes a snapshot leave out the rows of tables that inherit from this one.
    `sensitive` names columns whose values a comparison, and `cdc sql`, show as hashes only.
    `retention` is of its topic, where that is made here. `windows` are figures by event time (docs/how-to/windows.md).
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
        return self

    @model_validator(mode="after")
    def _is_of_the_source(self) -> Table:
        for name in ("standby", "marker", "signals", "every"):
            if self.reconciliation and getattr(self.reconciliation, name):
                raise ValueError(f"reconciliation.{name} is of the whole source: declare it there")
        return self

    @model_validator(mode="after")
    def _one_way_to_track(self) -> Table:
        if self.track_history_column_list and self.track_history_except_column_list:
            raise ValueError("give track_history_column_list or track_history_except_column_list, not both")
        if self.history != "scd2" and (self.track_history_column_list or self.track_history_except_column_list):
            raise ValueError("track_history lists need history: scd2")
        return self


class BaseSource(OfCluster):
    """What every kind of source has: one file of the registry. See CapturedSource and topic_source.TopicSource.

    `captured` and `asked` say what a kind of source can do: nobody needs to know which class it has.
    """

    source: str = Field(pattern=f"^{SOURCE_NAME}$")
    description: str | None = None
    owners: tuple[Owner, ...] = ()
    managed_by: Literal["cdc", "gitops"] = Field(
        default="cdc", description="Who writes its connectors: cdc, or an operator from git (docs/how-to/gitops.md)."
    )
    mode: Literal["sensor", "continuous"] = Field(
        default="sensor",
        description="What carries bronze and silver: runs that a sensor asks for, or one long run (docs/how-to/continuous.md).",
    )
    topics: Topics = Topics()
    mirror: Mirror = Mirror()
    batching: Batching = Batching()
    schema_changes: SchemaChanges = SchemaChanges()
    compatibility: Compatibility = "current"
    backup: Backup | None = None
    sink: Sink | None = None
    volumetry: Volumetry = Volumetry()
    ledger: LedgerSettings = LedgerSettings()
    maintenance: Maintenance = Maintenance()
    cuts: Cuts | None = None
    drill: DrillSettings | None = None
    reconciliation: Reconciliation = Reconciliation()
    freshness: Freshness = Freshness()
    preview_rows: int = Field(
        default=5, ge=0, le=20, description="So many rows of silver are shown in Dagster; sensitive columns are left out."
    )
    tables: tuple[Table, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _settings_fit_together(self) -> BaseSource:
        refuse_mirror(self.mirror, self.managed_by)
        refuse_cluster(self.cluster, self.managed_by, is_captured=self.captured is not None)
        refuse_features(self)
        refuse_settings_of_lake(self.ledger, self.topics, self.cuts, kind_of(self), self.drill, self.backup)
        return self

    @property
    def captured(self) -> CapturedSource | None:
        """The source itself, where a connector of ours captures it; None: others fill its topics."""
        return None

    @property
    def asked(self) -> Source | None:
        """The source itself, where its server is asked for columns, rows and a position; None: they are declared."""
        return None

    @property
    def kind_name(self) -> str:
        """The name of its row in the table of kinds (cdc_assets.kinds)."""
        raise NotImplementedError

    @property
    def mirrored(self) -> bool:
        """Whether its topics are on the core cluster, so that the lake's hold copies."""
        return True

    def record_form(self, table: Table) -> RecordForm:
        """The envelope of the table's records and whose positions they carry."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The source's name: topic prefix, Dagster group, folder in the lake."""
        return self.source

    def reconciliation_of(self, table: Table) -> Reconciliation:
        """The table's own declaration, which stands for the source's as a whole."""
        return table.reconciliation or self.reconciliation

    def table(self, short_name: str) -> Table:
        """The table whose derived name is `short_name`.

        Raises:
            KeyError: naming the tables that there are.
        """
        for table in self.tables:
            if short_name in (short_table_name(table.id), table.name):
                return table
        known = ", ".join(short_table_name(table.id) for table in self.tables)
        raise KeyError(f"source {self.source!r} has no table {short_name!r}; it has: {known}")


_NEEDS_NO = {
    "marker": "tells the place in its log, no table is needed",
    "signals": "has a signal table of ours, which is made when it is needed",
    "every": "is compared with the counts (volumetry.every)",
}


class CapturedSource(BaseSource):
    """A source database whose changes a connector of ours captures. See Source and unasked_source.UnaskedSource."""

    kind: Literal["database"] = "database"
    database: DatabaseKind
    capture: Capture = Capture()

    @property
    def kind_name(self) -> str:
        """The kind of its database."""
        return self.database.kind

    def record_form(self, table: Table) -> RecordForm:
        """The connector's own form, else the one that is declared."""
        row = kind_of(self)
        envelope = row.envelope or self.capture.envelope
        return {"envelope": envelope, "connector": row.positions or row.name, "schema_registry": None}

    @property
    def captured(self) -> CapturedSource:
        """Itself: a connector of ours captures it."""
        return self

    @property
    def values(self) -> ValueForms:
        """How the connector writes values: as declared, else in the forms that lose the least for this kind of database."""
        forms = self.capture.values
        if kind_of(self).binlog and "temporal" not in forms.model_fields_set:
            return forms.model_copy(update={"temporal": "adaptive_time_microseconds"})
        return forms

    @model_validator(mode="after")
    def _whole_rows(self) -> CapturedSource:
        for table in self.tables:
            if table.partial:
                said = f"table {table.name}: {', '.join(table.partial)}"
                raise ValueError(
                    f"{said}: a NULL of a database is a value, and silver would not equal its source; for kind: topics"
                )
        return self

    @model_validator(mode="after")
    def _settings_of_its_kind(self) -> CapturedSource:
        row = kind_of(self)
        refuse_capture(self.capture, row, self.managed_by)
        for name in ("marker", "signals", "every"):
            if getattr(self.reconciliation, name) and row.tells_place:
                raise ValueError(f"reconciliation.{name}: kind {self.database.kind} {_NEEDS_NO[name]}")
        if not row.has_slot:
            self._refuse_settings_of_postgresql()
        if row.binlog and self.values.temporal == "adaptive":
            raise ValueError(f"capture.values.temporal: Debezium's {row.binlog} connector has no mode adaptive")
        return self

    def _refuse_settings_of_postgresql(self) -> None:
        if any(table.only for table in self.tables):
            raise ValueError(f"tables: only: no table inherits from another in kind {self.database.kind}")
        if self.topics.on_gap == "resnapshot":
            raise ValueError(f"topics.on_gap: tables of kind {self.database.kind} cannot be read again from here")


class Source(CapturedSource):
    """A source database whose catalogue and rows can be asked for."""

    database: AskedDatabase

    @property
    def asked(self) -> Source:
        """Itself: its server is asked."""
        return self


def short_table_name(table: TableId) -> str:
    """The table's name in asset keys, Delta paths and backup prefixes.

    `city` for public.city, `sales__order` for sales.order; whatever Dagster's key parts do not take
    (`^[A-Za-z0-9_]+$`) becomes `_`. Two tables that end in the same name are refused by the loader.
    """
    name = table.table if table.schema == "public" else f"{table.schema}__{table.table}"
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
