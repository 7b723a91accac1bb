"""What a row of the table of kinds can say."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


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
    """The model of the whole file: a child of registry.models.BaseSource."""
    model: Part | None = None
    """The model below `database:`, a child of registry.declared.DatabaseKind. Sources of topics have none."""
    experimental: str = ""
    """Why nobody should rely on it yet; shown wherever a user meets the kind."""

    connector: Part | None = None
    """`(source) -> dict[str, str]`: the capturing connector's config (connectors.capture)."""
    plain_patterns: bool = False
    """The include list takes names as they are: a server or a store compares them itself."""
    debezium: str = ""
    """The connector's class, below `io.debezium.connector`."""
    plugin: str | None = None
    """The set of jars (stack.jars.sets) with the connector's plugin. Without one a worker of the user's own has it."""
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
    """Whose positions its records carry (spark.kinds.positions); empty: those called as the kind is."""
    dialect: str = "postgresql"
    """How column types are written (spark.types.type_rules)."""

    database: Part | None = None
    """`(config) -> SourceDatabase`: its catalogue, and questions to its log (resources.databases). None: columns are
    declared, or translated (`columns`). With both (MySQL), the first is for the cut."""
    cut: Part | None = None
    """`(database, *, statement_timeout)`: its rows at one exact moment (resources.databases.cuts)."""
    rows: Part | None = None
    """`(database, *, statement_timeout)`: its rows now (resources.databases.cuts)."""
    pages: Part | None = None
    """`(config) -> RowReader`: rows page by page (resources.rows)."""
    connection: Part | None = None
    """`(config) -> Connection`: pages by SQL, and questions of preflight (resources.rows)."""
    columns: Part | None = None
    """`(config) -> TranslatedCatalogue`: columns where a table declares none (resources.columns)."""
    by_sample: bool = False
    """They are what a sample of rows tells: what silver has already stands."""
    carry: Part | None = None
    """`(LogMarker) -> CarriedPlace`: carries a place of the log to the core's topics (volumetry.log_position)."""
    witness: Part | None = None
    """`(config) -> Witness`: what the server knows of its own changes (volumetry.flow)."""
    preflight: Part | None = None
    """`(platform, source) -> Report` (preflight.inspection)."""
    compare: Part | None = None
    """Rows of the source compared with silver (reconcile.any_source)."""
    standby: Part | None = None
    """`(source, place)`: a standby that rows can be read from (reconcile.standby)."""
    read_again: Part | None = None
    """Asks the connector for some keys again (reconcile.heal)."""
    signals: Part | None = None
    """`(config)`: writes to a signal table that we make (reconcile.heal)."""
    incarnation: Part | None = None
    """`(platform, source, offsets, known) -> Verdict`: is it the server that was read (identity.look)."""
    epoch: Part | None = None
    """What a new epoch does at the server itself (failover.opening)."""
    log_end: Part | None = None
    """`(source) -> str`: where its log ends now, as positions have it less their epoch; empty where it may be another server than
    the one that was read (tables.log_ends)."""
    kept_log: Part | None = None
    """`(source) -> KeptLog`: a place of the server's log that moves on with the backup (restore.kept_log)."""
    partitions: Part | None = None
    """`(source) -> str`: what is mended before the connector is applied (apply.partitions)."""
    onboarding: Part | None = None
    """`() -> OnboardingKind` (onboarding.work)."""
    windows: Part | None = None
    """`(config, table, spec)`: figures by windows of event time, by the server's SQL (windowed.source_windows)."""
    adoption: Part | None = None
    """`() -> AdoptionKind`: what a connector that others have made captures here (adoption.source_block)."""
    traces: Part | None = None
    """`(source) -> Traces`: what `cdc remove` finds at the server (removal.at_source)."""
