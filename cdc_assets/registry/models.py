"""The declaration of one source and its tables: frozen models that refuse what they do not know.

Names follow Databricks' AUTO CDC where one exists (`keys`, `except_column_list`), so that users can move over.
No Dagster here, and nothing is resolved: addresses and secrets stay references until they are used.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, model_validator

from cdc_assets.kinds import kind_of
from cdc_assets.registry.base_table import Owner, Table, short_table_name
from cdc_assets.registry.capture_rules import refuse_capture
from cdc_assets.registry.compatibility import Compatibility, refuse_features
from cdc_assets.registry.core_cluster import OfCluster, refuse_cluster
from cdc_assets.registry.database_kinds import AskedDatabase
from cdc_assets.registry.declared import SOURCE_NAME, DatabaseKind
from cdc_assets.registry.durations import NEVER
from cdc_assets.registry.mirror import Mirror, refuse_mirror
from cdc_assets.registry.reconciliation import Reconciliation
from cdc_assets.registry.record_form import RecordForm
from cdc_assets.registry.retention import refuse_backup_retention, refuse_retention
from cdc_assets.registry.schema_changes import SchemaChanges
from cdc_assets.registry.source_settings import (
    Backup,
    Batching,
    Bronze,
    Capture,
    Cuts,
    DrillSettings,
    Freshness,
    LedgerSettings,
    Maintenance,
    Topics,
    Volumetry,
    refuse_settings_of_lake,
)
from cdc_assets.registry.value_forms import ValueForms


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
    volumetry: Volumetry = Volumetry()
    ledger: LedgerSettings = LedgerSettings()
    maintenance: Maintenance = Maintenance()
    bronze: Bronze = Bronze()
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
        refuse_retention(self.bronze, self.topics, self.ledger, self.maintenance, self.backup)
        refuse_backup_retention(self)
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

    @property
    def rows_every(self) -> timedelta | None:
        """How often all rows are compared in two steps; None: never, or with the counts (`asked`)."""
        every = self.reconciliation.every
        return every if isinstance(every, timedelta) else None

    @property
    def rows_tables(self) -> tuple[Table, ...]:
        """The tables that are compared on that rhythm: all but those that say `every: never`."""
        if self.rows_every is None:
            return ()
        return tuple(t for t in self.tables if t.reconciliation is None or t.reconciliation.every != NEVER)

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
        envelope, registry = row.envelope or self.capture.envelope, self.capture.schema_registry
        return {
            "envelope": envelope,
            "connector": row.positions or row.name,
            "schema_registry": None if registry is None else registry.address,
        }

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
            declared = (self.reconciliation, *(table.reconciliation for table in self.tables))
            if row.tells_place and any(getattr(each, name) for each in declared if each):
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
            raise ValueError(f"topics.on_gap: tables of kind {self.database.kind} are not read again without being asked for")


class Source(CapturedSource):
    """A source database whose catalogue and rows can be asked for."""

    database: AskedDatabase

    @property
    def asked(self) -> Source:
        """Itself: its server is asked."""
        return self
