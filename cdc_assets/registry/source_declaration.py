"""The declaration of one source and its tables: frozen models that refuse what they do not know.

Names follow Databricks' AUTO CDC where one exists (`keys`, `except_column_list`), so that users can move over.
No Dagster here, and nothing is resolved: addresses and secrets stay references until they are used.
Two declarations that mean the same have the same digest, whatever their comments and blanks.

Of MySQL, SQL Server, Oracle and MongoDB no place in the log is asked: their tables' columns are declared, or translated from a
catalogue, and rows are compared in two steps (docs/reference/databases.md). The connector is ours, and topic, mirror, bronze,
silver and backup are as for every source.
"""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from cdc_assets.registry.field_types import NEVER, SOURCE_NAME, DatabaseKind
from cdc_assets.registry.kind_models import model_of
from cdc_assets.registry.kinds import KINDS, Kind, kind_of
from cdc_assets.registry.record_forms import RecordForm, ValueForms, apicurio_root
from cdc_assets.registry.retention import refuse_backup_retention, refuse_retention
from cdc_assets.registry.source_settings import (
    ROWS_EVERY,
    Backup,
    Batching,
    Bronze,
    Capture,
    Cuts,
    DrillSettings,
    Freshness,
    LedgerSettings,
    Maintenance,
    Mirror,
    OfCluster,
    Reconciliation,
    Topics,
    Volumetry,
    refuse_cluster,
    refuse_mirror,
    refuse_settings_of_lake,
)
from cdc_assets.registry.table_declaration import (
    Compatibility,
    DeclaredTable,
    Owner,
    SchemaChanges,
    Table,
    refuse_features,
    short_table_name,
)


def models_of(*, asked: bool) -> Any:
    """Of all kinds whose server alone tells columns, or of those that may declare them; told apart by `kind`."""
    models = [model_of(row.name) for row in KINDS.values() if row.has_database and row.tells_place is asked]
    return Annotated[reduce(or_, models), Field(discriminator="kind")]


if TYPE_CHECKING:
    from cdc_assets.registry.databases import Database, MariaDb, MongoDb, MySql, Oracle, SqlServer

    AskedDatabase = Database | MariaDb
    DeclaredDatabase = MySql | SqlServer | Oracle | MongoDb
else:
    AskedDatabase, DeclaredDatabase = models_of(asked=True), models_of(asked=False)


_OF_SOME_KINDS = ("publication", "schema_history", "server_id", "signals", "slot")
_OF_KUBERNETES = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def refuse_capture(capture: Capture, kind: Kind, managed_by: str) -> None:
    """Settings that the kind has not, and a connector's name that no manifest can have.

    Raises:
        ValueError: naming the key.
    """
    foreign = [f"capture.{name}" for name in _OF_SOME_KINDS if name not in kind.settings and getattr(capture, name) is not None]
    if foreign:
        raise ValueError(f"{', '.join(foreign)}: a source of kind {kind.name} has no such setting")
    if managed_by == "gitops" and capture.connector and not _OF_KUBERNETES.fullmatch(capture.connector):
        raise ValueError(
            f"capture.connector {capture.connector}: managed_by: gitops names a connector as its KafkaConnector, and Kubernetes "
            "takes lower-case letters, digits, - and . only; declare managed_by: cdc, or take the name out"
        )
    _refuse_envelope(capture, kind)


def _refuse_envelope(capture: Capture, kind: Kind) -> None:
    if not capture.in_avro:
        if beside := sorted({"schema_registry", "converter"} & capture.model_fields_set):
            keys = ", ".join(f"capture.{name}" for name in beside)
            raise ValueError(
                f"{keys}: records in {capture.envelope} have no schema in a registry; declare envelope: debezium-avro"
            )
        return
    if kind.envelope:
        raise ValueError(f"capture.envelope: the connector of kind {kind.name} writes {kind.envelope} only")
    registry = capture.schema_registry
    if registry is None:
        raise ValueError(
            "capture.envelope: debezium-avro needs capture.schema_registry: {url: …}, "
            "with user and password where it asks for a login"
        )
    if registry.has_login_in_url:
        raise ValueError(
            "capture.schema_registry.url: a login in it would lie in the connector's config in clear; declare user, and password "
            "as a secret"
        )
    if capture.converter == "apicurio" and isinstance(registry.url, str) and not apicurio_root(registry.url):
        raise ValueError(
            f"capture.schema_registry.url: {registry.url} is not where Apicurio answers as Confluent's registry does "
            "(http://host:port/apis/ccompat/v7), and Apicurio's converter writes to Apicurio alone; for another registry: "
            "capture.converter: confluent"
        )


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
        """The name of its row in the table of kinds (cdc_assets.registry.kinds)."""
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
        short_names = ", ".join(short_table_name(table.id) for table in self.tables)
        raise KeyError(f"source {self.source!r} has no table {short_name!r}; it has: {short_names}")


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
                subject = f"table {table.name}: {', '.join(table.partial)}"
                raise ValueError(
                    f"{subject}: a NULL of a database is a value, and silver would not equal its source; for kind: topics"
                )
        return self

    @model_validator(mode="after")
    def _settings_of_its_kind(self) -> CapturedSource:
        row = kind_of(self)
        refuse_capture(self.capture, row, self.managed_by)
        for name in ("marker", "signals", "every"):
            declared = (self.reconciliation, *(table.reconciliation for table in self.tables))
            if row.tells_place and any(getattr(block, name) for block in declared if block):
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


class UnaskedSource(CapturedSource):
    """A source database whose tables may declare their columns. Who declares columns declares `keys` too: what a row is known by.
    They become the record's key.
    """

    database: DeclaredDatabase
    tables: tuple[DeclaredTable, ...] = Field(min_length=1)

    @property
    def rows_every(self) -> timedelta | None:
        """As declared; else once a day, where the place of its log can be told: by the server itself, or by a marker's row."""
        if self.reconciliation.every is not None:
            return super().rows_every
        tells = kind_of(self).tells_log or self.reconciliation.marker is not None
        return ROWS_EVERY if tells else None

    @model_validator(mode="after")
    def _has_keys(self) -> UnaskedSource:
        keyless = [table.name for table in self.tables if table.columns and not table.keys]
        if keyless:
            raise ValueError(
                f"{', '.join(keyless)} without keys: with declared columns kind {self.database.kind} is not asked for keys, "
                "declare them"
            )
        unknown = [table.name for table in self.tables if not table.columns]
        if unknown and not kind_of(self).tells_columns:
            raise ValueError(
                f"{', '.join(unknown)} without columns: kind {self.database.kind} is not asked for columns, declare them"
            )
        other = {table.name: why for table in self.tables if table.keys and (why := self.database.key_refusal(table.keys))}
        if other:
            raise ValueError(f"{', '.join(other)}: {'; '.join({*other.values()})}")
        return self


def source_model(kind: Kind) -> type[CapturedSource]:
    """The model of the whole file of a source with a database of this kind."""
    return Source if kind.tells_place else UnaskedSource


def digest(source: BaseSource) -> str:
    """Twelve characters over every declared value and default; secrets are in it by their names only."""
    return hashlib.sha256(source.model_dump_json().encode()).hexdigest()[:12]
