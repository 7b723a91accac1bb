"""What a job takes and gives: frozen dataclasses that travel as JSON, with bronze's columns and the conditions on rows.

A spec file of `spark-submit` and a spec built by the orchestrator are the same thing. Unknown keys are refused:
a misspelt key would otherwise be a silently ignored wish. Bronze's columns are said here alone: the table is made of them, and
Dagster shows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from spark.errors import JobRefusedError
from spark.record_formats import DEBEZIUM_UNAVAILABLE, WHOLE_BEFORE


@dataclass(frozen=True)
class RowCondition:
    """A column has one of these values, or (`excluded`) none of them. Values are texts; None is NULL, a value like the others."""

    column: str
    values: tuple[str | None, ...]
    excluded: bool = False

    @classmethod
    def from_dict(cls, data: Any) -> RowCondition:
        """From its JSON object. Raises JobRefusedError: it is none."""
        try:
            values = {**data, "values": tuple(data["values"])}
            return cls(**values)
        except (TypeError, KeyError) as error:
            raise JobRefusedError(f"a condition on rows has column, values and excluded; got {data!r}") from error

    @property
    def text(self) -> str:
        """For people: `region in (EU, NULL)`."""
        listed = ", ".join("NULL" if value is None else value for value in self.values)
        return f"{self.column} {'not in' if self.excluded else 'in'} ({listed})"


def conditions_text(conditions: Sequence[RowCondition]) -> str:
    """All of them, for people."""
    return " and ".join(condition.text for condition in conditions) or "all rows"


def refuse_conditions(table: str, where: Sequence[RowCondition], columns: Sequence[str], refused: dict[str, bool]) -> None:
    """Refuse conditions on columns that are not there, and together with rules (`refused`) that know no state of a row.

    Raises:
        JobRefusedError: naming them.
    """
    if unknown := [condition.column for condition in where if condition.column not in columns]:
        raise JobRefusedError(f"table {table}: where: {unknown} are not among its columns {[*columns]}")
    if where and (refusing := [name for name, holds in refused.items() if holds]):
        raise JobRefusedError(
            f"table {table}: where keeps rows by their values, which goes not together with {', '.join(refusing)}"
        )


BRONZE_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("table", "string", "the table's short name: this asset is the rows of one table"),
    ("topic", "string", "the lake's topic that the record was read from"),
    ("partition", "int", "its partition"),
    ("offset", "bigint", "its offset in the partition"),
    ("timestamp", "timestamp", "when Kafka was given the record"),
    ("headers", "array<struct<key:string,value:binary>>", "the record's headers, as they are in Kafka"),
    ("key", "binary", "the record's key, as it is in Kafka"),
    ("value", "binary", "the record's value, as it is in Kafka; null is a tombstone"),
    ("op", "string", "c create, u update, d delete, r read by a snapshot, t truncate"),
    ("position", "string", "orders the events of a key as text: epoch, place in the source's log, offset"),
    ("tx_id", "string", "the source's transaction, as its connector names it"),
    ("source_ts", "timestamp", "when the source committed"),
    ("snapshot", "string", "the connector's word for a row of a snapshot"),
    ("epoch", "int", "a number that rises when the source's positions or the topic begin again"),
)
BRONZE_NAMES = tuple(name for name, _, _ in BRONZE_COLUMNS)
KAFKA_NAMES = ("topic", "partition", "offset", "timestamp", "headers", "key", "value")
"""The columns of bronze that Kafka's records have themselves; their form in Arrow: spark.events.arrow_records.bronze_schema."""
BRONZE_SCHEMA = ", ".join(f"{name} {type_}" for name, type_, _ in BRONZE_COLUMNS)
KAFKA_SCHEMA = ", ".join(f"{name} {type_}" for name, type_, _ in BRONZE_COLUMNS if name in KAFKA_NAMES)


T = TypeVar("T")
Order = tuple[str, tuple[tuple[str, int], ...]]
MAX_EPOCH = 0xFFFF
DELETES = ("hard", "soft")
TRUNCATES = ("apply", "soft", "ignore", "halt")
WITHOUT_KEY = ("append", "multiset")

META = ("_cdc_position", "_cdc_op", "_cdc_source_ts", "_cdc_tx_id")
DELETED = "_cdc_deleted"
VALID = ("_valid_from", "_valid_to", "_is_current")
OWN_COLUMNS = (*META, DELETED, *VALID)
"""What silver and histories add to a table's columns; a source's column of such a name, in any case, is refused."""


def _decode(cls: type[T], text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise JobRefusedError(f"{cls.__name__} is not JSON: {error}") from error
    return _check_keys(cls, data)


def _check_keys(cls: type[Any], data: object) -> dict[str, Any]:
    names = [f.name for f in fields(cls)]
    if not isinstance(data, dict):
        raise JobRefusedError(f"{cls.__name__} must be an object with {', '.join(names)}; got {data!r}")
    unknown = sorted(set(data) - set(names))
    if unknown:
        raise JobRefusedError(f"{cls.__name__} has unknown keys {unknown}; known are {', '.join(names)}")
    return data


def _build(cls: type[T], data: Mapping[str, Any]) -> T:
    try:
        return cls(**data)
    except TypeError as error:
        raise JobRefusedError(f"{cls.__name__}: {error}") from error


@dataclass(frozen=True)
class JsonSpec:
    """What travels as one JSON object."""

    def to_json(self) -> str:
        """As a spec file holds it."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class TopicRange:
    """Offsets `[from, to)` per partition of one incarnation of one topic, and the form of its records.

    `envelope` is a name of spark.record_formats, `connector` (the kind of source) one of spark.record_formats.
    `schema_registry` is the address of the registry, for envelopes in Avro; `moved`: see spark.events.moved_offsets.
    `event_time` is the field that says when an event happened (spark.bronze.batch_records); empty: the envelope knows.
    """

    table: str
    topic: str
    topic_id: str
    epoch: int
    ranges: dict[int, tuple[int, int]]
    envelope: str = "debezium-json"
    connector: str = "postgresql"
    schema_registry: str | None = None
    event_time: str = ""
    moved: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.epoch <= MAX_EPOCH:
            raise JobRefusedError(f"topic {self.topic}: epoch {self.epoch} is not within 0..{MAX_EPOCH}")
        for partition, (start, end) in self.ranges.items():
            if partition < 0 or start < 0 or end < start:
                raise JobRefusedError(f"topic {self.topic} partition {partition}: [{start}, {end}) is not a range of offsets")

    @property
    def has_offsets(self) -> bool:
        """Whether there is anything to read."""
        return any(end > start for start, end in self.ranges.values())

    @classmethod
    def from_dict(cls, data: object) -> TopicRange:
        """From its JSON object."""
        values = dict(_check_keys(cls, data))
        values["ranges"] = {int(p): (int(r[0]), int(r[1])) for p, r in values.get("ranges", {}).items()}
        values["moved"] = {int(p): tuple((int(k), int(o)) for k, o in moves) for p, moves in values.get("moved", {}).items()}
        return _build(cls, values)


@dataclass(frozen=True)
class BronzeSpec(JsonSpec):
    """One append of the records of several topics to one source's change log.

    `login` is the path of a client.properties, where the job and Spark run (spark.events.kafka_login).
    """

    path: str
    bootstrap: str
    topics: tuple[TopicRange, ...]
    operation_id: str
    kafka_options: dict[str, str] = field(default_factory=dict)
    login: str = ""

    def __post_init__(self) -> None:
        names = [t.topic for t in self.topics]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise JobRefusedError(f"topics {twice} are given twice; give each topic once, with all its partitions")

    @classmethod
    def from_json(cls, text: str) -> BronzeSpec:
        """Read back what to_json wrote; unknown keys are refused."""
        data = _decode(cls, text)
        return _build(cls, {**data, "topics": tuple(TopicRange.from_dict(t) for t in data.get("topics", ()))})


@dataclass(frozen=True)
class Column:
    """A column of the source, its type as PostgreSQL's format_type() writes it: `numeric(10,2)`, `text[]`.

    `dialect` is whose types they are, and SQL: postgresql, mysql (the same types), or mariadb (`bigint(20) unsigned`).
    `kind` is what the catalogue says of a user-defined type (or array element): enum, composite, domain, range,
    multirange, base, fixed (a base type of fixed length); empty for PostgreSQL's own. `accepted`: the table takes what
    Debezium loses of this type. `number` is the column's own in the catalogue, which a rename keeps. `missing` is the
    text of the value that rows have which are older than the column; `defaulted`: the column has a default.
    `name` is the column's name in the lake. `field` is its name in events where that is another one, `formerly` are the
    names that it had in older events. `modes` is how the connector writes values, where it is not as ours do
    (spark.values.handling_modes). Of columns with one field, an event after `since` fills the newest that it fits. `members`:
    what an
    enum or composite consists of (spark.silver.schema_difference).
    """

    name: str
    source_type: str
    nullable: bool = True
    kind: str = ""
    accepted: bool = False
    number: int | None = None
    missing: str | None = None
    defaulted: bool = False
    field: str = ""
    formerly: tuple[str, ...] = ()
    since: str = ""
    modes: str = ""
    dialect: str = "postgresql"
    members: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: object) -> Column:
        """From its JSON object; unknown keys are refused."""
        values = dict(_check_keys(cls, data))
        values |= {name: tuple(values.get(name, ())) for name in ("formerly", "members")}
        return _build(cls, values)

    @property
    def event_field(self) -> str:
        """Its name in the newest events."""
        return self.field or self.name


@dataclass(frozen=True)
class SilverSpec(JsonSpec):
    """Fold what bronze has committed for one table into its current state (no keys: append).

    `folded_limit` is the highest bronze version to fold; without it, everything that bronze has committed.
    `unavailable` is the connector's `unavailable.value.placeholder`: what stands for a value that an update did not
    change and the event does not hold; the default is Debezium's own.
    `schema_changes` is what to do about changes of the source's schema (spark.silver.schema_difference), `renamed` the columns
    {old: new}.
    `deletes` is hard or soft (the row stays, with `_cdc_deleted`); `truncate` is apply, soft, ignore or halt.
    Records that cannot be folded go to the table at `quarantine_path`; more than `quarantine_limit` of them stop the job.
    `schema_ids` are those of the records' schemas in the registry, where known (spark.table.topic_commits).
    `track_history` are the columns whose changes make a version in the history (none: all of them).
    `without_key` is what a table without keys is: append, or multiset, where deletes and updates say by a whole
    before-image which row they take away. `ignore_null_updates` are the columns in which NULL means "as it was",
    `columns_to_update` lists which columns an event is about (NULL: all): such parts of rows make a row where there is none.
    `generation` is what a table dropped and made again does not keep: its number in the source's catalogue, or the place in the
    log of its last DROP or CREATE (all of these places are `drops`); `renewed` and `orders` are the job's own
    (spark.silver.schema_evolution); an order is a position up to which events are older than it, and the columns by name
    and number.
    `portable`: the table gets no feature of Delta that other readers than Spark and delta-rs may lack. `past`: see
    spark.bronze.change_log.all_rows.
    `log_end`: beyond this place, epoch first, no event can lie that bronze had when the source's log was asked for its end; what
    does is held in quarantine. Empty: not known.
    `where`: the rows that the table has (none: all of them; spark.silver.typed_changes). `excluded`: columns of the source left
    out.
    `foreign`: others than our connectors write the records (spark.events.json_records).
    """

    source: str
    table: str
    bronze_path: str
    path: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    folded_limit: int | None = None
    unavailable: str = DEBEZIUM_UNAVAILABLE
    envelope: str = "debezium-json"
    connector: str = "postgresql"
    schema_registry: str | None = None
    schema_changes: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    deletes: str = "hard"
    truncate: str = "apply"
    quarantine_path: str = ""
    quarantine_limit: int | None = None
    track_history: tuple[str, ...] = ()
    without_key: str = "append"
    ignore_null_updates: tuple[str, ...] = ()
    columns_to_update: str = ""
    generation: str = ""
    drops: tuple[str, ...] = ()
    renewed: str = ""
    orders: tuple[Order, ...] = ()
    schema_ids: dict[str, list[int]] | None = None
    portable: bool = False
    past: str = ""
    log_end: str = ""
    where: tuple[RowCondition, ...] = ()
    excluded: tuple[str, ...] = ()
    foreign: bool = False

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        if missing := [k for k in self.keys if k not in names]:
            raise JobRefusedError(f"table {self.table}: keys {missing} are not among its columns {names}")
        updated = (*self.ignore_null_updates, *filter(None, [self.columns_to_update]))
        for what, listed in (("tracked columns", self.track_history), ("columns of parts", updated)):
            if unknown := [c for c in listed if c not in names]:
                raise JobRefusedError(f"table {self.table}: {what} {unknown} are not among its columns {names}")
        for name, allowed in (("deletes", DELETES), ("truncate", TRUNCATES), ("without_key", WITHOUT_KEY)):
            if getattr(self, name) not in allowed:
                raise JobRefusedError(f"table {self.table}: {name} {getattr(self, name)!r} is none of {', '.join(allowed)}")
        refused = {"a table without a key": not self.keys, "deletes: soft": self.deletes == "soft", "parts of rows": self.partial}
        refuse_conditions(self.table, self.where, names, refused)
        if self.multiset and self.envelope not in WHOLE_BEFORE:
            having = ", ".join(WHOLE_BEFORE)
            raise JobRefusedError(f"table {self.table}: without_key: multiset needs before-images, as {having} have them")

    @property
    def multiset(self) -> bool:
        """Whether rows are known by all of their values."""
        return not self.keys and self.without_key == "multiset"

    @property
    def partial(self) -> bool:
        """Whether events may be about some columns of their row only, as they say themselves."""
        return bool(self.ignore_null_updates or self.columns_to_update)

    @property
    def quarantine(self) -> str:
        """Where records that cannot be folded are kept."""
        return self.quarantine_path or f"{self.path.rstrip('/')}__quarantine"

    def former_name(self, name: str) -> str:
        """The declared name before of a column, or an empty one."""
        return next((old for old, new in self.renamed.items() if new == name), "")

    @classmethod
    def from_json(cls, text: str) -> SilverSpec:
        """Read back what to_json wrote; unknown keys are refused."""
        data = dict(_decode(cls, text))
        data["columns"] = tuple(Column.from_dict(c) for c in data.get("columns", ()))
        data["keys"] = tuple(data.get("keys", ()))
        for name in ("track_history", "ignore_null_updates", "drops", "excluded"):
            data[name] = tuple(data.get(name, ()))
        data["orders"] = tuple((after, tuple(map(tuple, columns))) for after, columns in data.get("orders", ()))
        data["where"] = tuple(RowCondition.from_dict(condition) for condition in data.get("where", ()))
        return _build(cls, data)


@dataclass(frozen=True)
class JobResult(JsonSpec):
    """What a job did. `version` is the Delta version of its commit, None when nothing was new.

    `by_op` counts records by Debezium's op letter, `tombstone` and `unknown` (not parseable);
    `ranges` is what was committed: `{topic: {partition: (from, to)}}`; `detail` holds the job's own figures.
    """

    job: str
    table: str | None
    version: int | None
    rows_read: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    by_op: dict[str, int]
    ranges: dict[str, dict[int, tuple[int, int]]]
    seconds: float
    detail: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> JobResult:
        """Read back what to_json wrote; unknown keys are refused."""
        data = dict(_decode(cls, text))
        data["ranges"] = {
            topic: {int(p): (int(r[0]), int(r[1])) for p, r in ranges.items()} for topic, ranges in data["ranges"].items()
        }
        return _build(cls, data)


@dataclass(frozen=True)
class StreamSpec(JsonSpec):
    """A source's topics, each range empty and at a partition's first offset where bronze has nothing of it, and the tables that
    are folded from them.

    `checkpoint` is a folder in the lake. `max_offsets` is how many offsets one append reads at most.
    """

    bronze: BronzeSpec
    checkpoint: str
    silver: tuple[SilverSpec, ...] = ()
    history: tuple[SilverSpec, ...] = ()
    max_offsets: int = 500_000

    def __post_init__(self) -> None:
        if self.max_offsets < 1:
            raise JobRefusedError(f"max_offsets {self.max_offsets}: an append reads at least one")

    @classmethod
    def from_json(cls, text: str) -> StreamSpec:
        """Read back what to_json wrote. Raises JobRefusedError: it is no stream's."""
        try:
            data: dict[str, Any] = json.loads(text)
            data["bronze"] = BronzeSpec.from_json(json.dumps(data["bronze"]))
            for name in ("silver", "history"):
                data[name] = tuple(SilverSpec.from_json(json.dumps(spec)) for spec in data.get(name, ()))
            return cls(**data)
        except (ValueError, KeyError, TypeError) as error:
            raise JobRefusedError(f"no spec of a stream: {error}; print one: cdc spec stream SOURCE") from error
