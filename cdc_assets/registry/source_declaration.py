"""What can be written of one source, in a file of its own, and what of it contradicts itself.

`BaseSource` has the fields of every source. A `CapturedSource` adds a database and the connector that captures it, a
`TopicSource` topics that others fill. `Source` and `UnaskedSource` add no field: they tell whose server is asked for columns.
Names follow Databricks' AUTO CDC where one exists (`keys`, `except_column_list`), so that users can move over. Addresses and
secrets stay references until they are used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from cdc_assets.registry.databases import DatabaseKind
from cdc_assets.registry.field_types import NEVER, SOURCE_NAME, Declared
from cdc_assets.registry.kind_models import model_of
from cdc_assets.registry.kinds import KINDS, Kind, kind_of
from cdc_assets.registry.record_forms import RecordForm, SchemaRegistry, ValueForms, apicurio_root
from cdc_assets.registry.retention import refusals_of_backup, refusals_of_bronze
from cdc_assets.registry.source_settings import (
    CORE,
    LAKE,
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
    Reconciliation,
    Topics,
    Volumetry,
)
from cdc_assets.registry.table_declaration import (
    Compatibility,
    DeclaredTable,
    Owner,
    SchemaChanges,
    Table,
    TopicTable,
    short_table_name,
)
from spark.record_formats import ENVELOPES
from spark.table.identifiers import NEEDS_COLUMN_MAPPING


def _models_of(*, asked: bool) -> Any:
    """Of all kinds whose server alone tells columns, or of those that may declare them; told apart by `kind`."""
    models = [model_of(row.name) for row in KINDS.values() if row.has_database and row.tells_place is asked]
    return Annotated[reduce(or_, models), Field(discriminator="kind")]


if TYPE_CHECKING:
    from cdc_assets.registry.databases import Database, MariaDb, MongoDb, MySql, Oracle, SqlServer

    AskedDatabase = Database | MariaDb
    DeclaredDatabase = MySql | SqlServer | Oracle | MongoDb
else:
    AskedDatabase, DeclaredDatabase = _models_of(asked=True), _models_of(asked=False)

_OF_SOME_KINDS = ("publication", "schema_history", "server_id", "signals", "slot")
_OF_KUBERNETES = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class BaseSource(Declared):
    """What every kind of source has: one file of the registry. See CapturedSource and TopicSource.

    `captured` and `asked` say what a kind of source can do: nobody needs to know which class it has.
    """

    source: str = Field(pattern=f"^{SOURCE_NAME}$")
    description: str | None = None
    owners: tuple[Owner, ...] = ()
    cluster: str = Field(
        default=CORE,
        pattern=r"^[a-z][a-z0-9_]{0,29}$",
        description="The core cluster of its topics. One of another name has its own addresses (docs/how-to/core-clusters.md).",
    )
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

    def is_portable(self, table: Table) -> bool:
        """Whether the table is declared to stay readable by all readers of Delta."""
        return (table.compatibility or self.compatibility) == "portable"

    def reconciliation_of(self, table: Table) -> Reconciliation:
        """The table's own declaration, which stands for the source's as a whole."""
        return table.reconciliation or self.reconciliation

    def table(self, short_name: str) -> Table:
        """The table whose derived name is `short_name`. Raises KeyError: naming the tables that there are."""
        tables = {short_table_name(table.id): table for table in self.tables}
        for name, table in tables.items():
            if short_name in (name, table.name):
                return table
        raise KeyError(f"source {self.source!r} has no table {short_name!r}; it has: {', '.join(tables)}")

    def refusals(self) -> Iterator[str]:
        """What one block of settings says against another one."""
        yield from self._refusals_of_mirror()
        yield from self._refusals_of_portable_tables()
        yield from refusals_of_bronze(self)
        yield from refusals_of_backup(self)
        kind = kind_of(self)
        if self.drill is not None and self.backup is None:
            yield "drill: the source declares no backup that could be restored"
        keep, retention = self.ledger.keep, self.topics.retention
        if keep is not None and keep <= retention:
            yield f"ledger.keep: {keep} is not longer than topics.retention, {retention}: topics are counted anew"
        if self.backup is not None and self.backup.keep_log and not kind.has_slot:
            yield f"backup.keep_log: kind {kind.name} has no slot that keeps its log; PostgreSQL has"
        if self.cuts is not None and not kind.has_commit_places:
            able = "PostgreSQL, MariaDB and MySQL have"
            yield f"cuts: kind {kind.name} has no log whose commits are told apart here; {able}"

    def _refusals_of_mirror(self) -> Iterator[str]:
        settings = self.mirror.model_fields_set
        if self.managed_by == "cdc" and "resource" in settings:
            yield "mirror.resource: says how git deploys the mirror; declare managed_by: gitops with it"
        if self.managed_by == "gitops" and self.mirror.resource == "mirrormaker2":
            beside = [f"mirror.{name}" for name in ("checkpoints", "heartbeats") if getattr(self.mirror, name) is not None]
            if beside:
                yield f"{', '.join(beside)}: one KafkaMirrorMaker2 for all sources has none; declare mirror.resource: connector"
            own = [f"mirror.{name}" for name in ("connector", "alias", "settings", "new_tables") if name in settings]
            if own:
                yield f"{', '.join(own)}: one KafkaMirrorMaker2 carries all sources; declare mirror.resource: connector"
        if self.captured and self.cluster == LAKE:
            yield "cluster: lake is where the copies go; a connector writes to a core cluster"
        if self.managed_by == "gitops" and self.cluster not in (CORE, LAKE):
            yield f"cluster: {self.cluster}: a deployment by git has one core cluster; leave it out, or managed_by: cdc"

    def _refusals_of_portable_tables(self) -> Iterator[str]:
        for table in filter(self.is_portable, self.tables):
            if (table.schema_changes or self.schema_changes).widen == "evolve":
                yield (
                    f"table {table.name}: compatibility: portable and schema_changes: {{widen: evolve}}: Delta's widened types "
                    "are read by Spark alone; take widen: rewrite"
                )
            if named := [name for name in table.declared_columns if NEEDS_COLUMN_MAPPING & set(name)]:
                yield (
                    f"table {table.name}: compatibility: portable, and columns {', '.join(map(repr, named))} have names that "
                    "need Delta's column mapping: name them in except_column_list, or rename them"
                )


_NEEDS_NO = {
    "marker": "tells the place in its log, no table is needed",
    "signals": "has a signal table of ours, which is made when it is needed",
    "every": "is compared with the counts (volumetry.every)",
}


class CapturedSource(BaseSource):
    """A source database whose changes a connector of ours captures. See Source and UnaskedSource."""

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

    def refusals(self) -> Iterator[str]:
        """Those of every source, and what its kind of database cannot do."""
        yield from super().refusals()
        for table in self.tables:
            if table.partial:
                yield (
                    f"table {table.name}: {', '.join(table.partial)}: a NULL of a database is a value, and silver would not "
                    "equal its source; for kind: topics"
                )
        yield from self._refusals_of_capture()
        kind = kind_of(self)
        blocks = [self.reconciliation, *(table.reconciliation for table in self.tables if table.reconciliation)]
        for name, why in _NEEDS_NO.items():
            if kind.tells_place and any(getattr(block, name) for block in blocks):
                yield f"reconciliation.{name}: kind {kind.name} {why}"
        if not kind.has_slot and any(table.only for table in self.tables):
            yield f"tables: only: no table inherits from another in kind {kind.name}"
        if not kind.has_slot and self.topics.on_gap == "resnapshot":
            yield f"topics.on_gap: tables of kind {kind.name} are not read again without being asked for"
        if kind.binlog and self.values.temporal == "adaptive":
            yield f"capture.values.temporal: Debezium's {kind.binlog} connector has no mode adaptive"

    def _refusals_of_capture(self) -> Iterator[str]:
        capture, kind = self.capture, kind_of(self)
        if foreign := [n for n in _OF_SOME_KINDS if n not in kind.settings and getattr(capture, n) is not None]:
            yield f"{', '.join(f'capture.{n}' for n in foreign)}: a source of kind {kind.name} has no such setting"
        if self.managed_by == "gitops" and capture.connector and not _OF_KUBERNETES.fullmatch(capture.connector):
            yield (
                f"capture.connector {capture.connector}: managed_by: gitops names a connector as its KafkaConnector, and "
                "Kubernetes takes lower-case letters, digits, - and . only; declare managed_by: cdc, or take the name out"
            )
        if capture.in_avro:
            yield from _refusals_of_avro(capture, kind)
        elif beside := sorted({"schema_registry", "converter"} & capture.model_fields_set):
            keys = ", ".join(f"capture.{name}" for name in beside)
            yield f"{keys}: records in {capture.envelope} have no schema in a registry; declare envelope: debezium-avro"


def _refusals_of_avro(capture: Capture, kind: Kind) -> Iterator[str]:
    if kind.envelope:
        yield f"capture.envelope: the connector of kind {kind.name} writes {kind.envelope} only"
    registry = capture.schema_registry
    if registry is None:
        yield (
            "capture.envelope: debezium-avro needs capture.schema_registry: {url: …}, "
            "with user and password where it asks for a login"
        )
        return
    if registry.has_login_in_url:
        yield (
            "capture.schema_registry.url: a login in it would lie in the connector's config in clear; declare user, and password "
            "as a secret"
        )
    if capture.converter == "apicurio" and isinstance(registry.url, str) and not apicurio_root(registry.url):
        yield (
            f"capture.schema_registry.url: {registry.url} is not where Apicurio answers as Confluent's registry does "
            "(http://host:port/apis/ccompat/v7), and Apicurio's converter writes to Apicurio alone; for another registry: "
            "capture.converter: confluent"
        )


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

    def refusals(self) -> Iterator[str]:
        """Those of every captured source, and tables of which nobody tells columns or a key."""
        yield from super().refusals()
        kind = kind_of(self)
        if keyless := [table.name for table in self.tables if table.columns and not table.keys]:
            yield (
                f"{', '.join(keyless)} without keys: with declared columns kind {kind.name} is not asked for keys, declare them"
            )
        unknown = [table.name for table in self.tables if not table.columns]
        if unknown and not kind.tells_columns:
            yield f"{', '.join(unknown)} without columns: kind {kind.name} is not asked for columns, declare them"
        other = {table.name: why for table in self.tables if table.keys and (why := self.database.key_refusal(table.keys))}
        if other:
            yield f"{', '.join(other)}: {'; '.join({*other.values()})}"


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
        return self.cluster != LAKE

    def record_form(self, table: Table) -> RecordForm:
        """As the table declares it."""
        assert isinstance(table, TopicTable), table.name
        registry = self.schema_registry if ENVELOPES[table.envelope].in_avro else None
        return {
            "envelope": table.envelope,
            "connector": table.positions,
            "schema_registry": None if registry is None else registry.address,
        }

    def refusals(self) -> Iterator[str]:
        """Those of every source, and what a database would be asked for."""
        yield from super().refusals()
        avro = [table.name for table in self.tables if ENVELOPES[table.envelope].in_avro]
        if avro and self.schema_registry is None:
            yield f"{', '.join(avro)} in Avro: declare the schema_registry"
        for name in ("standby", "marker", "signals"):
            if getattr(self.reconciliation, name):
                yield f"reconciliation.{name}: a source of topics has no database here"
        if self.topics.on_gap == "resnapshot":
            yield "topics.on_gap: nobody can be asked to send a topic's records again"


def source_model(kind: Kind) -> type[CapturedSource]:
    """The model of the whole file of a source with a database of this kind."""
    return Source if kind.tells_place else UnaskedSource


def digest(source: BaseSource) -> str:
    """Twelve characters over every declared value and default; secrets are in it by their names only."""
    return hashlib.sha256(source.model_dump_json().encode()).hexdigest()[:12]
