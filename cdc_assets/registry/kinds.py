"""The table of kinds of sources: one row each. Nobody else asks what kind a source is.

A new kind of database is one row here and files of its own (docs/how-to/add-a-database.md). A part of a kind is imported when
somebody asks for it, not before; a place that names nothing raises then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypedDict, TypeVar


@dataclass(frozen=True)
class Part:
    """Where a part of a kind is, as `module:name`. It is imported when somebody asks for it, not before."""

    place: str

    def load(self) -> Any:
        """The function or class of that name.

        Raises:
            AttributeError: the module has none of that name.
        """
        module, _, name = self.place.partition(":")
        return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of source. A part that is None is one that this kind does not have.

    Each part is described by the room that loads it; docs/how-to/add-a-database.md lists them.
    """

    name: str
    source: Part
    """The model of the whole file: a child of registry.source_declaration.BaseSource."""
    model: Part | None = None
    """The model below `database:`, a child of registry.databases.DatabaseKind. Sources of topics have none."""
    experimental: str = ""
    """Why nobody should rely on it yet; shown wherever a user meets the kind."""

    connector: Part | None = None
    """`(source) -> dict[str, str]`: the capturing connector's config (capture.connectors)."""
    plain_patterns: bool = False
    """The include list takes names as they are: a server or a store compares them itself."""
    debezium: str = ""
    """The connector's class, below `io.debezium.connector`."""
    plugin: str | None = None
    """The set of jars (stack.jars.jar_sets) with the connector's plugin. Without one a worker of the user's own has it."""
    vendor_plugin: str | None = None
    """The same with a driver under its vendor's own licence, for whoever accepts that (`CDC_VENDOR_DRIVERS`)."""
    java_module: str = ""
    """A module of Java without which the connector captures other texts than the source has, and says nothing of it."""
    settings: frozenset[str] = frozenset()
    """Keys of `capture` that are not for every kind, and are for this one."""
    binlog: str = ""
    """Whose binlog the connector reads, in words; empty for a kind without one."""
    signed_words: frozenset[str] = frozenset()
    """Words for an integer type that its connector takes for signed, UNSIGNED or not."""
    has_slot: bool = False
    """A slot and a publication of the server keep the connector's place and its tables; its own rows can be anchored there."""
    has_schema_history: bool = True
    """The connector keeps the tables' definitions in a topic."""
    tells_place: bool = False
    """The server itself is asked for its place and for rows: no marker, signals or rhythm are declared for it."""
    has_commit_places: bool = False
    """Its log tells commits apart, and where the connector is between them: all tables of a source can be cut there."""
    envelope: str = ""
    """The only form of the connector's records; empty where `capture.envelope` chooses."""
    positions: str = ""
    """Whose positions its records carry (spark.record_formats); empty: those called as the kind is."""
    dialect: str = "postgresql"
    """How column types are written (spark.values.lake_types)."""

    database: Part | None = None
    """`(config) -> SourceDatabase`: its catalogue, and questions to its log (clients.databases.catalogue). None: columns are
    declared, or translated (`columns`). With both (MySQL), the first is for the cut."""
    cut: Part | None = None
    """`(database, *, statement_timeout)`: its rows at one exact moment (clients.databases.source_cut)."""
    rows: Part | None = None
    """`(database, *, statement_timeout)`: its rows now (clients.databases.source_cut)."""
    pages: Part | None = None
    """`(config) -> RowReader`: rows page by page (clients.databases.row_pages)."""
    connection: Part | None = None
    """`(config) -> Connection`: pages by SQL, and questions of preflight (clients.databases.row_pages)."""
    columns: Part | None = None
    """`(config) -> TranslatedCatalogue`: columns where a table declares none (clients.databases.translated_catalogue)."""
    by_sample: bool = False
    """They are what a sample of rows tells: what silver has already stands."""
    carry: Part | None = None
    """`(LogMarker) -> CarriedPlace`: carries a place of the log to the core's topics (capture.log_position)."""
    witness: Part | None = None
    """`(config) -> Witness`: what the server knows of its own changes (proof.capture_flow)."""
    preflight: Part | None = None
    """`(platform, source) -> Report` (capture.preflight.inspection)."""
    compare: Part | None = None
    """Rows of the source compared with silver (proof.comparison_choice)."""
    standby: Part | None = None
    """`(source, place)`: a standby that rows can be read from (proof.comparison_choice)."""
    read_again: Part | None = None
    """Asks the connector for some keys again (proof.healing)."""
    signals: Part | None = None
    """`(config)`: writes to a signal table that we make (proof.healing)."""
    incarnation: Part | None = None
    """`(platform, source, offsets, known) -> Verdict`: is it the server that was read (capture.incarnations.server_verdict)."""
    epoch: Part | None = None
    """What a new epoch does at the server itself (chain.new_epoch)."""
    log_end: Part | None = None
    """`(source) -> str`: where its log ends now, as positions have it less their epoch; empty where it may be another server than
    the one that was read (capture.incarnations)."""
    kept_log: Part | None = None
    """`(source) -> KeptLog`: a place of the server's log that moves on with the backup (recovery.kept_log)."""
    partitions: Part | None = None
    """`(source) -> str`: what is mended before the connector is applied (capture.connectors.apply_source)."""
    onboarding: Part | None = None
    """`() -> OnboardingKind` (capture.onboarding.onboarding_state)."""
    windows: Part | None = None
    """`(config, table, spec)`: figures by windows of event time, by the server's SQL (clients.databases.event_windows)."""
    adoption: Part | None = None
    """`() -> AdoptionKind`: what a connector that others have made captures here (capture.adoption.running_connector)."""
    traces: Part | None = None
    """`(source) -> Traces`: what `cdc remove` finds at the server (recovery.source_traces)."""


_ASKED = Part("cdc_assets.registry.source_declaration:Source")
_DECLARED = Part("cdc_assets.registry.source_declaration:UnaskedSource")
_NO_SERVER = "not run against a server"
_COMPATIBLE = "live on a compatible server, SecantusDB 0.7.0b3, and not on MongoDB's own"


class _InPages(TypedDict):
    source: Part
    compare: Part
    read_again: Part


class _ByBinlog(TypedDict):
    carry: Part


_IN_PAGES: _InPages = {
    "source": _DECLARED,
    "compare": Part("cdc_assets.proof.two_step_comparison:compare_paged"),
    "read_again": Part("cdc_assets.proof.healing:ask_for_keys"),
}
_BY_BINLOG: _ByBinlog = {
    "carry": Part("cdc_assets.capture.named_log_position:carry_by_offsets"),
}

POSTGRESQL = Kind(
    name="postgresql",
    source=_ASKED,
    model=Part("cdc_assets.registry.databases:Database"),
    connector=Part("cdc_assets.capture.connectors.postgresql_connector:capture_config"),
    debezium="postgresql.PostgresConnector",
    plugin="debezium-postgres",
    settings=frozenset({"slot", "publication", "signals"}),
    has_slot=True,
    has_schema_history=False,
    tells_place=True,
    has_commit_places=True,
    database=Part("cdc_assets.clients.databases.postgresql:PostgresDatabase"),
    cut=Part("cdc_assets.clients.databases.postgresql_cut:open_cut"),
    rows=Part("cdc_assets.clients.databases.postgresql_cut:open_rows"),
    carry=Part("cdc_assets.capture.log_position:carry_by_marker"),
    witness=Part("cdc_assets.proof.flow_witnesses:PostgresWitness"),
    preflight=Part("cdc_assets.capture.preflight.postgresql_rules:inspect"),
    compare=Part("cdc_assets.proof.comparison_choice:compare_as_declared"),
    standby=Part("cdc_assets.proof.comparison_choice:standby_of"),
    read_again=Part("cdc_assets.proof.healing:by_signals_of_ours"),
    signals=Part("cdc_assets.clients.databases.postgresql_capture:PostgresCapture"),
    incarnation=Part("cdc_assets.capture.incarnations.postgresql_incarnation:verdict"),
    epoch=Part("cdc_assets.capture.incarnations.postgresql_incarnation:PostgresEpoch"),
    log_end=Part("cdc_assets.capture.incarnations.postgresql_incarnation:log_end"),
    kept_log=Part("cdc_assets.recovery.kept_log:PostgresKeptLog"),
    partitions=Part("cdc_assets.capture.connectors.apply_source:publish_by_root"),
    onboarding=Part("cdc_assets.capture.onboarding.postgresql_onboarding:PostgresKind"),
    windows=Part("cdc_assets.clients.databases.event_windows:read_windows"),
    adoption=Part("cdc_assets.capture.adoption.postgresql_adoption:PostgresAdoption"),
    traces=Part("cdc_assets.recovery.source_traces:postgresql_traces"),
)
MARIADB = Kind(
    name="mariadb",
    settings=frozenset({"server_id", "signals", "schema_history"}),
    source=_ASKED,
    model=Part("cdc_assets.registry.databases:MariaDb"),
    connector=Part("cdc_assets.capture.connectors.database_connectors:mariadb_config"),
    debezium="mariadb.MariaDbConnector",
    plugin="debezium-mariadb",
    binlog="MariaDB",
    signed_words=frozenset({"INTEGER"}),  # debezium/debezium#7590, mended in 3.6.1
    tells_place=True,
    has_commit_places=True,
    dialect="mariadb",
    database=Part("cdc_assets.clients.databases.mariadb:MariaDbDatabase"),
    cut=Part("cdc_assets.clients.databases.mariadb:open_cut"),
    rows=Part("cdc_assets.clients.databases.mariadb:open_cut"),
    witness=Part("cdc_assets.proof.flow_witnesses:mariadb_witness"),
    preflight=Part("cdc_assets.capture.preflight.binlog_rules:inspect_mariadb"),
    compare=Part("cdc_assets.proof.comparison_choice:compare_as_declared"),
    read_again=Part("cdc_assets.proof.healing:by_signals_of_ours"),
    signals=Part("cdc_assets.clients.databases.mariadb:MariaDbSignals"),
    incarnation=Part("cdc_assets.capture.incarnations.binlog_incarnation:mariadb_verdict"),
    onboarding=Part("cdc_assets.capture.onboarding.binlog_onboarding:MariaDbKind"),
    windows=Part("cdc_assets.clients.databases.event_windows:of_mariadb"),
    adoption=Part("cdc_assets.capture.adoption.binlog_adoption:MariaDbAdoption"),
    traces=Part("cdc_assets.recovery.source_traces:mariadb_traces"),
    **_BY_BINLOG,
)
MYSQL = Kind(
    name="mysql",
    source=_DECLARED,
    settings=frozenset({"server_id", "signals", "schema_history"}),
    model=Part("cdc_assets.registry.databases:MySql"),
    connector=Part("cdc_assets.capture.connectors.database_connectors:mysql_config"),
    vendor_plugin="debezium-mysql",
    # Without it Connector/J asks the server for eucjpms, and a snapshot has U+FFFD for every letter beyond ASCII.
    java_module="jdk.charsets",
    debezium="mysql.MySqlConnector",
    binlog="MySQL",
    dialect="mysql",
    has_commit_places=True,
    database=Part("cdc_assets.clients.databases.mysql:MySqlDatabase"),
    cut=Part("cdc_assets.clients.databases.mysql:open_cut"),
    rows=Part("cdc_assets.clients.databases.mysql:open_rows"),
    connection=Part("cdc_assets.clients.databases.mysql:MySqlConnection"),
    columns=Part("cdc_assets.clients.databases.mysql:MySqlColumns"),
    witness=Part("cdc_assets.proof.flow_witnesses:mysql_witness"),
    preflight=Part("cdc_assets.capture.preflight.binlog_rules:inspect_mysql"),
    signals=Part("cdc_assets.clients.databases.mysql:MySqlCapture"),
    incarnation=Part("cdc_assets.capture.incarnations.binlog_incarnation:mysql_verdict"),
    epoch=Part("cdc_assets.capture.incarnations.binlog_incarnation:MySqlEpoch"),
    onboarding=Part("cdc_assets.capture.onboarding.binlog_onboarding:MySqlKind"),
    windows=Part("cdc_assets.clients.databases.event_windows:of_mysql"),
    adoption=Part("cdc_assets.capture.adoption.binlog_adoption:MySqlAdoption"),
    traces=Part("cdc_assets.recovery.source_traces:mysql_traces"),
    compare=Part("cdc_assets.proof.comparison_choice:compare_locked"),
    read_again=Part("cdc_assets.proof.healing:ask_for_keys"),
    **_BY_BINLOG,
)
SQLSERVER = Kind(
    name="sqlserver",
    settings=frozenset({"schema_history"}),
    model=Part("cdc_assets.registry.databases:SqlServer"),
    experimental=_NO_SERVER,
    connector=Part("cdc_assets.capture.connectors.database_connectors:sqlserver_config"),
    debezium="sqlserver.SqlServerConnector",
    plain_patterns=True,
    plugin="debezium-sqlserver",
    connection=Part("cdc_assets.clients.databases.sqlserver:SqlServerConnection"),
    columns=Part("cdc_assets.clients.databases.sqlserver:SqlServerColumns"),
    preflight=Part("cdc_assets.capture.preflight.sqlserver_rules:inspect"),
    carry=Part("cdc_assets.capture.named_log_position:carry_by_row"),
    onboarding=Part("cdc_assets.capture.onboarding.signalled_onboarding:SqlServerKind"),
    adoption=Part("cdc_assets.capture.adoption.sqlserver_adoption:SqlServerAdoption"),
    **_IN_PAGES,
)
ORACLE = Kind(
    name="oracle",
    settings=frozenset({"schema_history"}),
    model=Part("cdc_assets.registry.databases:Oracle"),
    experimental=_NO_SERVER,
    connector=Part("cdc_assets.capture.connectors.database_connectors:oracle_config"),
    debezium="oracle.OracleConnector",
    plain_patterns=True,
    vendor_plugin="debezium-oracle",
    connection=Part("cdc_assets.clients.databases.oracle:OracleConnection"),
    columns=Part("cdc_assets.clients.databases.oracle:OracleColumns"),
    preflight=Part("cdc_assets.capture.preflight.oracle_rules:inspect"),
    carry=Part("cdc_assets.capture.named_log_position:carry_by_row"),
    onboarding=Part("cdc_assets.capture.onboarding.signalled_onboarding:OracleKind"),
    **_IN_PAGES,
)
MONGODB = Kind(
    name="mongodb",
    model=Part("cdc_assets.registry.databases:MongoDb"),
    experimental=_COMPATIBLE,
    connector=Part("cdc_assets.capture.connectors.database_connectors:mongodb_config"),
    debezium="mongodb.MongoDbConnector",
    plain_patterns=True,
    plugin="debezium-mongodb",
    has_schema_history=False,
    envelope="debezium-mongodb",
    pages=Part("cdc_assets.clients.databases.mongodb:MongoDbReader"),
    columns=Part("cdc_assets.clients.databases.mongodb:MongoDbColumns"),
    by_sample=True,
    preflight=Part("cdc_assets.capture.preflight.mongodb_rules:inspect"),
    carry=Part("cdc_assets.capture.named_log_position:carry_by_row"),
    onboarding=Part("cdc_assets.capture.onboarding.signalled_onboarding:MongoDbKind"),
    **_IN_PAGES,
)
TOPICS = Kind(
    name="topics",
    source=Part("cdc_assets.registry.source_declaration:TopicSource"),
    has_schema_history=False,
    compare=Part("cdc_assets.proof.two_step_comparison:compare_with_topic"),
)

ROWS: tuple[Kind, ...] = (POSTGRESQL, MARIADB, MYSQL, SQLSERVER, ORACLE, MONGODB, TOPICS)


KINDS: Mapping[str, Kind] = {row.name: row for row in ROWS}
DATABASES = tuple(row.name for row in ROWS if row.model)
"""What `database.kind` may be."""


_Model = TypeVar("_Model")


class HasKind(Protocol):
    """A source, as the table sees it."""

    @property
    def name(self) -> str:
        """What the registry calls it."""

    @property
    def kind_name(self) -> str:
        """The name of its row."""


def kind_of(source: HasKind) -> Kind:
    """The row of a source's kind."""
    return KINDS[source.kind_name]


def expect(database: object, model: type[_Model]) -> _Model:
    """What stands below `database:`, as the kind's own files know it.

    Raises:
        TypeError: a row of the table has given it to files of another kind.
    """
    if not isinstance(database, model):
        raise TypeError(f"{type(database).__name__} was given to the files of {model.__name__}: see cdc_assets/registry/kinds.py")
    return database


def experimental_warning(source: HasKind) -> str:
    """What a user is told of a kind that nobody should rely on yet; empty for all others."""
    row = kind_of(source)
    return f"kind {row.name} is experimental: {row.experimental}" if row.experimental else ""


def experimental_warnings(sources: Iterable[HasKind]) -> dict[str, str]:
    """The same of each source that has one, by its name."""
    return {source.name: warning for source in sources if (warning := experimental_warning(source))}


def names_with(part: str) -> list[str]:
    """The kinds that have this part, in the table's order."""
    return [row.name for row in ROWS if getattr(row, part)]


def modules_of_plugins(plugins: Iterable[str]) -> frozenset[str]:
    """The modules of Java without which a connector of these sets of jars captures other texts than the source has."""
    there = frozenset(plugins)
    return frozenset(row.java_module for row in ROWS if row.java_module and not there.isdisjoint((row.plugin, row.vendor_plugin)))
