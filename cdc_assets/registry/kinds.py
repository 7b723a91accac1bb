"""The facts of each kind of source: names, flags and texts, a row each. Nobody else asks what kind a source is.

What a kind does stands above, in one table of each room that asks for it: registry.kind_models,
clients.kind_clients, capture.kind_capture, proof.kind_proof, recovery.kind_recovery. A new kind of database has a row
in each of them, and files of its own (docs/how-to/add-a-database.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is known of one kind of source without asking anybody."""

    name: str
    has_database: bool = True
    """Its files have a block `database:`; sources of topics have none."""
    experimental: str = ""
    """Why nobody should rely on it yet; shown wherever a user meets the kind."""

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
    """The server itself is asked for its place and for rows: no marker, signals or rhythm are declared for it, and no columns."""
    tells_log: bool = False
    """Its log can be asked, and its catalogue with it (clients.kind_clients: `database`)."""
    tells_columns: bool = False
    """Its catalogue tells the columns of a table that declares none (clients.kind_clients: `columns`)."""
    has_commit_places: bool = False
    """Its log tells commits apart, and where the connector is between them: all tables of a source can be cut there."""
    envelope: str = ""
    """The only form of the connector's records; empty where `capture.envelope` chooses."""
    positions: str = ""
    """Whose positions its records carry (spark.record_formats); empty: those called as the kind is."""
    dialect: str = "postgresql"
    """How column types are written (spark.values.lake_types)."""
    by_sample: bool = False
    """Its columns are what a sample of rows tells: what silver has already stands."""


_NO_SERVER = "not run against a server"
_COMPATIBLE = "live on a compatible server, SecantusDB 0.7.0b3, and not on MongoDB's own"

POSTGRESQL = Kind(
    name="postgresql",
    debezium="postgresql.PostgresConnector",
    plugin="debezium-postgres",
    settings=frozenset({"slot", "publication", "signals"}),
    has_slot=True,
    has_schema_history=False,
    tells_place=True,
    has_commit_places=True,
    tells_log=True,
)
MARIADB = Kind(
    name="mariadb",
    settings=frozenset({"server_id", "signals", "schema_history"}),
    debezium="mariadb.MariaDbConnector",
    plugin="debezium-mariadb",
    binlog="MariaDB",
    signed_words=frozenset({"INTEGER"}),  # debezium/debezium#7590, mended in 3.6.1
    tells_place=True,
    has_commit_places=True,
    dialect="mariadb",
    tells_log=True,
)
MYSQL = Kind(
    name="mysql",
    settings=frozenset({"server_id", "signals", "schema_history"}),
    vendor_plugin="debezium-mysql",
    # Without it Connector/J asks the server for eucjpms, and a snapshot has U+FFFD for every letter beyond ASCII.
    java_module="jdk.charsets",
    debezium="mysql.MySqlConnector",
    binlog="MySQL",
    dialect="mysql",
    has_commit_places=True,
    tells_log=True,
    tells_columns=True,
)
SQLSERVER = Kind(
    name="sqlserver",
    settings=frozenset({"schema_history"}),
    experimental=_NO_SERVER,
    debezium="sqlserver.SqlServerConnector",
    plain_patterns=True,
    plugin="debezium-sqlserver",
    tells_columns=True,
)
ORACLE = Kind(
    name="oracle",
    settings=frozenset({"schema_history"}),
    experimental=_NO_SERVER,
    debezium="oracle.OracleConnector",
    plain_patterns=True,
    vendor_plugin="debezium-oracle",
    tells_columns=True,
)
MONGODB = Kind(
    name="mongodb",
    experimental=_COMPATIBLE,
    debezium="mongodb.MongoDbConnector",
    plain_patterns=True,
    plugin="debezium-mongodb",
    has_schema_history=False,
    envelope="debezium-mongodb",
    by_sample=True,
    tells_columns=True,
)
TOPICS = Kind(
    name="topics",
    has_schema_history=False,
    has_database=False,
)

ROWS: tuple[Kind, ...] = (POSTGRESQL, MARIADB, MYSQL, SQLSERVER, ORACLE, MONGODB, TOPICS)


KINDS: Mapping[str, Kind] = {row.name: row for row in ROWS}
DATABASES = tuple(row.name for row in ROWS if row.has_database)
"""What `database.kind` may be."""


_Model = TypeVar("_Model")
_Row = TypeVar("_Row")


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
    Raises TypeError: a row of some table has given it to files of another kind."""
    if not isinstance(database, model):
        mismatch = f"{type(database).__name__} was given to the files of {model.__name__}"
        raise TypeError(f"{mismatch}: see docs/how-to/add-a-database.md")
    return database


def experimental_warning(source: HasKind) -> str:
    """What a user is told of a kind that nobody should rely on yet; empty for all others."""
    row = kind_of(source)
    return f"kind {row.name} is experimental: {row.experimental}" if row.experimental else ""


def experimental_warnings(sources: Iterable[HasKind]) -> dict[str, str]:
    """The same of each source that has one, by its name."""
    return {source.name: warning for source in sources if (warning := experimental_warning(source))}


def names_with(fact: Callable[[Kind], object]) -> list[str]:
    """The kinds of which this fact holds, in the table's order."""
    return [row.name for row in ROWS if fact(row)]


def row_of(table: Mapping[str, _Row], kind: str, module: str) -> _Row:
    """What a room's table says of a kind; `module` has the table. Raises LookupError: the room has no row for it."""
    if kind not in table:
        raise LookupError(f"kind {kind} has no row in the table of {module}: add one, as docs/how-to/add-a-database.md says")
    return table[kind]


def modules_of_plugins(plugins: Iterable[str]) -> frozenset[str]:
    """The modules of Java without which a connector of these sets of jars captures other texts than the source has."""
    there = frozenset(plugins)
    return frozenset(row.java_module for row in ROWS if row.java_module and not there.isdisjoint((row.plugin, row.vendor_plugin)))
