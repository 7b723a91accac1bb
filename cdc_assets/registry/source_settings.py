"""Blocks of settings of a source: how it is captured, carried, counted, compared and kept.

Each is a frozen model that refuses what would lose records or promise what cannot be kept. source_declaration says what they
are of.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator, model_validator

from cdc_assets.registry.backup_store import DEFAULT_HOURS, BackupStore, check_hours
from cdc_assets.registry.field_types import ConnectorName, Declared, Duration, Rhythm, TopicName, parse_table
from cdc_assets.registry.kinds import Kind
from cdc_assets.registry.record_forms import SchemaRegistry, ValueForms
from cdc_assets.registry.references import EnvRef, OtherSettings, refuse_settings

# Which core cluster a source's topics are on, and what MirrorMaker 2 does for it besides copying them into the lake's cluster.
#
# There may be several core clusters. What an operator's KafkaMirrorMaker2 does not take is refused.
CORE, LAKE = "core", "lake"


class OfCluster(Declared):
    """A source, by the Kafka cluster that its topics are on."""

    cluster: str = Field(
        default=CORE,
        pattern=r"^[a-z][a-z0-9_]{0,29}$",
        description="The core cluster of its topics. One of another name has its own addresses (docs/how-to/core-clusters.md).",
    )


def refuse_cluster(cluster: str, managed_by: str, *, is_captured: bool) -> None:
    """What cannot be there.

    Raises:
        ValueError: naming the key, and what to declare instead.
    """
    if is_captured and cluster == LAKE:
        raise ValueError("cluster: lake is where the copies go; a connector writes to a core cluster")
    if managed_by == "gitops" and cluster not in (CORE, LAKE):
        raise ValueError(f"cluster: {cluster}: a deployment by git has one core cluster; leave it out, or managed_by: cdc")


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
    settings: OtherSettings = Field(default_factory=dict)
    new_tables: Literal["together", "first"] = "together"
    checkpoints: Checkpoints | None = None
    heartbeats: Duration | None = None

    def alias_of(self, cluster: str) -> str:
        """What it calls the core cluster of that name."""
        return self.alias or cluster

    @field_validator("settings")
    @classmethod
    def _settings_are_not_declared_elsewhere(cls, value: OtherSettings) -> OtherSettings:
        refuse_settings("mirror.settings", value)
        return value


def refuse_mirror(mirror: Mirror, managed_by: str) -> None:
    """What its owner cannot deploy.

    Raises:
        ValueError: naming the key, and what to declare instead.
    """
    if managed_by == "cdc" and "resource" in mirror.model_fields_set:
        raise ValueError("mirror.resource: says how git deploys the mirror; declare managed_by: gitops with it")
    beside = [name for name in ("checkpoints", "heartbeats") if getattr(mirror, name) is not None]
    if managed_by == "gitops" and mirror.resource == "mirrormaker2" and beside:
        keys = ", ".join(f"mirror.{name}" for name in beside)
        raise ValueError(f"{keys}: one KafkaMirrorMaker2 for all sources has none; declare mirror.resource: connector")
    own = [name for name in ("connector", "alias", "settings", "new_tables") if name in mirror.model_fields_set]
    if managed_by == "gitops" and mirror.resource == "mirrormaker2" and own:
        keys = ", ".join(f"mirror.{name}" for name in own)
        raise ValueError(f"{keys}: one KafkaMirrorMaker2 carries all sources; declare mirror.resource: connector")


ROWS_EVERY = timedelta(days=1)
"""How often all rows travel for a comparison that nobody has declared."""


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
    marker: str | None = None
    signals: str | None = None
    every: Rhythm | None = None
    red_after: Duration = timedelta(hours=1)

    @field_validator("marker", "signals")
    @classmethod
    def _is_a_table(cls, value: str | None) -> str | None:
        if value is not None:
            parse_table(value)
        return value


LEAST_KEPT, LEAST_TIME_TRAVEL, LEAST_DRILL = timedelta(days=30), timedelta(hours=1), timedelta(hours=1)
LEAST_IN_BRONZE, LEAST_IN_QUARANTINE = timedelta(days=7), timedelta(days=1)


def refuse_settings_of_lake(
    ledger: LedgerSettings, topics: Topics, cuts: Cuts | None, kind: Kind, drill: DrillSettings | None, backup: Backup | None
) -> None:
    """Windows have to be kept for longer than the topics that they are counted from; cuts need a log that tells commits apart; a
    drill needs a backup; a log is kept by a slot.

    Raises:
        ValueError: with both times, or the kind.
    """
    if drill is not None and backup is None:
        raise ValueError("drill: the source declares no backup that could be restored")
    if ledger.keep is not None and ledger.keep <= topics.retention:
        raise ValueError(
            f"ledger.keep: {ledger.keep} is not longer than topics.retention, {topics.retention}: topics are counted anew"
        )
    if backup is not None and backup.keep_log and not kind.has_slot:
        raise ValueError(f"backup.keep_log: kind {kind.name} has no slot that keeps its log; PostgreSQL has")
    if cuts is not None and not kind.has_commit_places:
        able = "PostgreSQL, MariaDB and MySQL have"
        raise ValueError(f"cuts: kind {kind.name} has no log whose commits are told apart here; {able}")


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
    settings: OtherSettings = Field(default_factory=dict)

    @field_validator("signals")
    @classmethod
    def _is_schema_and_table(cls, value: str | None) -> str | None:
        return value and str(parse_table(value))

    @field_validator("settings")
    @classmethod
    def _settings_are_not_declared_elsewhere(cls, value: OtherSettings) -> OtherSettings:
        refuse_settings("capture.settings", value)
        return value

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
    hours: str = DEFAULT_HOURS
    values: Literal["text", "json"] = "text"

    @field_validator("hours")
    @classmethod
    def _hours_sort(cls, value: str) -> str:
        return check_hours(value)


class TableBackup(Declared):
    """What of a table's backup is not as `backup` of the source says. Without `keep` all of it stays."""

    keep: Duration | None = None


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
    keep: Duration | None = None

    @field_validator("keep")
    @classmethod
    def _is_counted_anew_from(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < LEAST_KEPT:
            raise ValueError(
                f"keep: {LEAST_KEPT.days}d at least: windows are counted anew for as long as a record may be redriven"
            )
        return value


class Maintenance(Declared):
    """What keeps the source's tables in the lake small and fast (docs/how-to/maintenance.md).

    `every` is how often. `time_travel` is for how long older versions of a table can be read; commits and files that only
    older ones need are removed.
    """

    every: Duration = timedelta(hours=1)
    time_travel: Duration = timedelta(days=2)

    @field_validator("time_travel")
    @classmethod
    def _readers_come_to_their_end(cls, value: timedelta) -> timedelta:
        if value < LEAST_TIME_TRAVEL:
            raise ValueError("time_travel: 1h at least: a comparison or a long query reads the version that it began with")
        return value


class Bronze(Declared):
    """For how long the change log keeps its records (docs/how-to/maintenance.md); without `keep` for ever.

    An older record goes once the backup has it and everything has folded and counted it. Whoever asks for all events of a table
    then gets the first ones from the backup. It needs `backup`, and has to be longer than `topics.retention`,
    `ledger.allowed_lateness`, `maintenance.time_travel` and `backup.every`.
    """

    keep: Duration | None = None

    @field_validator("keep")
    @classmethod
    def _late_events_find_theirs(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < LEAST_IN_BRONZE:
            raise ValueError(f"keep: {LEAST_IN_BRONZE.days}d at least: a late event asks for all events of its table")
        return value


class Cuts(Declared):
    """Consistent cuts of all the source's tables (docs/how-to/cuts.md); PostgreSQL and MariaDB.

    `every` is how often one is made by itself. Each is kept for `keep`: maintenance leaves the versions that it names.
    """

    every: Duration = timedelta(hours=1)
    keep: Duration = timedelta(days=7)

    @model_validator(mode="after")
    def _one_is_kept_until_the_next(self) -> Cuts:
        if self.keep < self.every:
            raise ValueError(f"keep: {self.keep} is shorter than every, {self.every}: no cut would be kept until the next one")
        return self


class DrillSettings(Declared):
    """How often the backup is restored beside the lake and compared with silver (docs/how-to/restore.md).

    The check of it is red when the last drill is older than `every` and `tolerance` together. `tolerance` is what a run may be
    late or last. Without it that is a quarter of `every`, and an hour at least.
    """

    every: Duration
    tolerance: Duration | None = None

    @property
    def oldest(self) -> timedelta:
        """The age from which on the last drill is too old."""
        return self.every + (max(self.every / 4, LEAST_DRILL) if self.tolerance is None else self.tolerance)

    @field_validator("every")
    @classmethod
    def _is_a_whole_restore(cls, value: timedelta) -> timedelta:
        if value < LEAST_DRILL:
            raise ValueError("every: 1h at least: a drill restores and folds the whole backup")
        return value


class Freshness(Declared):
    """How old silver may become before it is reported."""

    fail_after: Duration = timedelta(minutes=30)
    warn_after: Duration | None = None


class Quarantine(Declared):
    """How many records of a table may be in quarantine before the table stops. 0 stops it at the first one.

    A record that was redriven leaves the quarantine `keep` after that, and without `keep` never. Open records and those that
    were given up stay (docs/how-to/maintenance.md).
    """

    max_records: int = Field(default=1000, ge=0)
    keep: Duration | None = None

    @field_validator("keep")
    @classmethod
    def _is_seen_by_a_person(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < LEAST_IN_QUARANTINE:
            raise ValueError(f"keep: {LEAST_IN_QUARANTINE.days}d at least: until then one sees what became of a record")
        return value
