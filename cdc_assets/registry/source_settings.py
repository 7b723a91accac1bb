"""Blocks of settings of a source: how it is captured, carried, counted, compared and kept.

Each is a frozen model that refuses what would lose records or promise what cannot be kept. source_declaration says what they
are of.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from cdc_assets.registry.backup_store import DEFAULT_HOURS, BackupStore, check_hours
from cdc_assets.registry.field_types import ConnectorName, Declared, Duration, Rhythm, TableName, TopicName, at_least, parse_table
from cdc_assets.registry.record_forms import SchemaRegistry, ValueForms
from cdc_assets.registry.references import EnvRef, OtherSettings, only_other

CORE, LAKE = "core", "lake"
"""The Kafka cluster of a source's topics where no other one is named, and the one that they are copied to."""
ROWS_EVERY = timedelta(days=1)
"""How often all rows travel for a comparison that nobody has declared."""
_LEAST_DRILL = timedelta(hours=1)
_COUNTED_ANEW = "windows are counted anew for as long as a record may be redriven"
_READ_TO_ITS_END = "a comparison or a long query reads the version that it began with"


class Checkpoints(Declared):
    """Consumer groups of the core cluster whose place is told in the lake's.

    `groups` holds names, or regular expressions over the whole name. `sync_offsets` also commits that place for the group in
    the lake's cluster, while nobody reads there under its name.
    """

    groups: tuple[str, ...] = Field(min_length=1)
    every: Duration = timedelta(seconds=60)
    sync_offsets: bool = False


class Mirror(Declared):
    """What MirrorMaker 2 does for a source besides copying its topics.

    `connector` is the mirror's name on Connect, `alias` what it calls the core cluster (by default the
    source's `cluster`): copies are called `alias.topic`.
    `settings` are its settings that are not ours. `cdc adopt` writes those of a mirror that runs (docs/how-to/adopt.md).
    `new_tables: first` lets an onboarding give the mirror the new tables' topics alone, and old and new ones once the copies are
    there; the old ones wait meanwhile. The default adds them to those that it carries.
    `heartbeats` is how often a mark is written to the topic `heartbeats` of the lake's cluster. Without it there is none.
    `resource` is for a source with managed_by: gitops. It says which Strimzi resource carries its topics, as the deployment's
    `mirror` does.
    """

    resource: Literal["mirrormaker2", "connector"] = "mirrormaker2"
    connector: ConnectorName | None = None
    alias: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,60}$")
    settings: Annotated[OtherSettings, only_other("mirror.settings")] = Field(default_factory=dict)
    new_tables: Literal["together", "first"] = "together"
    checkpoints: Checkpoints | None = None
    heartbeats: Duration | None = None

    def alias_of(self, cluster: str) -> str:
        """What it calls the core cluster of that name."""
        return self.alias or cluster


class Reconciliation(Declared):
    """How the rows of silver are compared with the source's, each time the counts are (`volumetry`).

    `on_difference`: a difference fails the check, or only warns. `show`: Dagster's event log gets the keys that differ, and
    with `values` their rows too. Everybody who sees Dagster's pages can read them.
    `max_rows`: a larger table is compared a range of keys at a time, all of it in about `shares` runs. With 127 a run costs
    the source two count(*) at most.
    `standby` (PostgreSQL, of the whole source) is a host:port that is read instead of the primary, by the two-step method.
    `marker` (MySQL, SQL Server, Oracle, MongoDB) is a table with a column `id` that the connector captures and we write. A
    comparison in two steps learns from it that what was committed before has arrived.
    `signals` (the same kinds) is the connector's signal table (`id`, `type`, `data`), by which `--heal` has keys read again.
    `every` (the same kinds, and topics) is the rhythm of a scheduled comparison, of which all rows travel each time; `never`
    turns it off, also of one table. Without it rows are compared once a day where the place of the log can be told (MySQL; the
    others with a `marker`), and topics never.
    `red_after`: a table that the check could not compare warns, and is red when that has lasted so long.
    """

    on_difference: Literal["fail", "warn"] = "fail"
    show: Literal["keys", "values"] = "keys"
    max_rows: int = Field(default=100_000, ge=1)
    shares: int = Field(default=127, ge=1)
    standby: str | EnvRef | None = None
    marker: TableName | None = None
    signals: TableName | None = None
    every: Rhythm | None = None
    red_after: Duration = timedelta(hours=1)


class Capture(Declared):
    """How changes leave the database: the Debezium connector's settings that matter.

    Names default to ones derived from the source. On Connect: `connector`. In Kafka: `topic_prefix`, `notifications` and
    `schema_history`. In the database: `slot` and `publication` (PostgreSQL), `signals` (the table for signals). `cdc adopt`
    writes those of a connector that runs.
    `settings` are settings of that connector which are not ours; `null`: it has none (docs/how-to/adopt.md).
    `unchanged_text` is what stands for a large value that an update left as it was, in records that do not say so themselves.
    `heartbeat` is how often a marker is written to the source's log, so that an idle captured database cannot hold back the
    log. It is Debezium's `heartbeat.interval.ms` with `pg_logical_emit_message`, which needs no table.
    `server_id` (MariaDB, MySQL) is the id by which the server knows the connector. No replica may have the same.
    `values` is for readers of the topics that expect other forms than ours.
    `schema_registry` is for `debezium-avro`: the connector writes schemas there, and the lake reads them (docs/how-to/avro.md).
    `converter` is what writes Avro on the worker: Apicurio's, which knows Apicurio alone, or Confluent's.
    """

    envelope: Literal["debezium-json", "debezium-json-schema", "debezium-avro"] = "debezium-json"
    schema_registry: SchemaRegistry | None = None
    converter: Literal["apicurio", "confluent"] = "apicurio"
    snapshot: Literal["initial", "no_data", "recovery"] = "initial"
    connector: ConnectorName | None = None
    topic_prefix: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,200}$")
    slot: str | None = Field(default=None, pattern=r"^[a-z0-9_]{1,63}$")
    publication: str | None = Field(default=None, pattern=r"^[a-z0-9_]{1,63}$")
    server_id: int | None = Field(default=None, ge=1, le=2**32 - 1)
    heartbeat: Duration = timedelta(seconds=10)
    values: ValueForms = ValueForms()
    signals: str | None = None
    notifications: TopicName | None = None
    schema_history: TopicName | None = None
    unchanged_text: str | None = Field(default=None, min_length=1)
    settings: Annotated[OtherSettings, only_other("capture.settings")] = Field(default_factory=dict)

    @field_validator("signals")
    @classmethod
    def _is_schema_and_table(cls, value: str | None) -> str | None:
        return value and str(parse_table(value))

    @property
    def in_avro(self) -> bool:
        """Whether the connector writes Avro: keys, rows, and what it says of itself."""
        return self.envelope == "debezium-avro"


class Topics(Declared):
    """Topic settings on both clusters. Retention bounds how long a stopped lake can catch up without a snapshot.

    `replication: identity` gives the lake's copies the topics' own names, as MirrorMaker 2's IdentityReplicationPolicy does.
    The default puts `core.` before them. Identity works one way only: it knows no loop.
    `on_gap: resnapshot` (PostgreSQL) reads a table again by itself if records were lost on the way. The default fails until
    somebody asks for that (docs/explanation/mirroring.md).
    """

    partitions: int = Field(default=1, ge=1, le=1000)
    retention: Duration = timedelta(hours=168)
    replication_factor: int | None = Field(default=None, ge=1, le=10)
    replication: Literal["default", "identity"] = "default"
    on_gap: Literal["fail", "resnapshot"] = "fail"


class Batching(Declared):
    """When a batch starts and how large it may be.

    A run is requested when a table has `min_records` waiting, or when anything has waited for `max_delay`.
    A table with more than `max_records` waiting gets runs of its own, each of at most `max_records`.
    """

    min_records: int = Field(default=1, ge=1)
    max_delay: Duration = timedelta(seconds=10)
    max_records: int = Field(default=500_000, ge=1)


class Backup(Declared):
    """Where bronze batches are copied to, and how often at most.

    What is in no backup yet is as old as `every`, and a run; each copy is an object per table.
    `hours` are the folders of an hour's objects, below source and table: `{yyyy}-{MM}-{dd}/{HH}` is that of many S3 sinks.
    With `values: json` a value that is a JSON object stands in its line as JSON, and not as a string. Both may be changed at any
    time: what is there stays as it is, and is restored (docs/how-to/restore.md).
    With `keep` epochs of a table that ended longer ago go, once the next one is whole in the backup (docs/how-to/restore.md).
    Without it everything stays. It is never shorter than what a restore may be asked for. A table may declare its own.
    With `keep_log` (PostgreSQL) a second slot keeps the source's log from where the backup ends. So capture can go on there when
    Kafka is lost. While no backup runs, the server's log grows: limit it by `max_slot_wal_keep_size`.
    """

    store: BackupStore
    every: Duration = timedelta(minutes=1)
    keep: Duration | None = None
    keep_log: bool = False
    hours: Annotated[str, AfterValidator(check_hours)] = DEFAULT_HOURS
    values: Literal["text", "json"] = "text"


class Volumetry(Declared):
    """How often the counts of the whole chain are compared. `idle_every` is for a source where nothing has happened."""

    every: Duration = timedelta(minutes=5)
    idle_every: Duration = timedelta(hours=1)


class LedgerSettings(Declared):
    """The event ledger (docs/explanation/ledger.md).

    `every` is the trigger in processing time: what each run counts is a pane of its windows. `early: false` shows closed
    windows only. A window may change without a warning until `allowed_lateness` after its end. `late` says what a later
    change does to the check: it warns, fails, or is accepted. Windows that balance are kept for `keep`, and without it for
    ever.
    """

    every: Duration = timedelta(minutes=15)
    early: bool = True
    allowed_lateness: Duration = timedelta(hours=1)
    late: Literal["warn", "fail", "accept"] = "warn"
    keep: Annotated[Duration, at_least(timedelta(days=30), "keep", _COUNTED_ANEW)] | None = None


class Maintenance(Declared):
    """What keeps the source's tables in the lake small and fast (docs/how-to/maintenance.md).

    `every` is how often. `time_travel` is for how long older versions of a table can be read; commits and files that only
    older ones need are removed.
    """

    every: Duration = timedelta(hours=1)
    time_travel: Annotated[Duration, at_least(timedelta(hours=1), "time_travel", _READ_TO_ITS_END)] = timedelta(days=2)


class Bronze(Declared):
    """For how long the change log keeps its records (docs/how-to/maintenance.md); without `keep` for ever.

    An older record goes once the backup has it and everything has folded and counted it. Whoever asks for all events of a table
    then gets the first ones from the backup. It needs `backup`, and has to be longer than `topics.retention`,
    `ledger.allowed_lateness`, `maintenance.time_travel` and `backup.every`.
    """

    keep: Annotated[Duration, at_least(timedelta(days=7), "keep", "a late event asks for all events of its table")] | None = None


class Cuts(Declared):
    """Consistent cuts of all the source's tables (docs/how-to/cuts.md); PostgreSQL and MariaDB.

    `every` is how often one is made by itself. Each is kept for `keep`: maintenance leaves the versions that it names.
    """

    every: Duration = timedelta(hours=1)
    keep: Duration = timedelta(days=7)

    def refusals(self) -> Iterator[str]:
        """A time after which no cut would be left."""
        if self.keep < self.every:
            yield f"keep: {self.keep} is shorter than every, {self.every}: no cut would be kept until the next one"


class DrillSettings(Declared):
    """How often the backup is restored beside the lake and compared with silver (docs/how-to/restore.md).

    The check of it is red when the last drill is older than `every` and `tolerance` together. `tolerance` is what a run may be
    late or last. Without it that is a quarter of `every`, and an hour at least.
    """

    every: Annotated[Duration, at_least(_LEAST_DRILL, "every", "a drill restores and folds the whole backup")]
    tolerance: Duration | None = None

    @property
    def oldest(self) -> timedelta:
        """The age from which on the last drill is too old."""
        return self.every + (max(self.every / 4, _LEAST_DRILL) if self.tolerance is None else self.tolerance)


class Freshness(Declared):
    """How old silver may become before it is reported."""

    fail_after: Duration = timedelta(minutes=30)
    warn_after: Duration | None = None
