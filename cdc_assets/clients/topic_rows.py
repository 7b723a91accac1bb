"""A topic's records folded to rows in plain Python: the newest record of a key, in the order of its partition, is its row.

That rule is another one than silver's (positions of the source's log), and nothing of bronze or Spark is asked: both sides share
the topic and the declaration of its columns. What the topic no longer holds is not known here: where retention has removed the
begin of a partition, only the keys that it still tells of whole are spoken of. JSON texts become the values that
databases.row_pages writes canonically, by the declared type and the forms that the topic's writer uses; types that are not here
are not compared.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.connector_events import AvroDocuments
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.row_pages import NOT_WRITTEN, RowForm, Values, within, writer
from cdc_assets.clients.kafka import KafkaCluster, Record
from cdc_assets.clients.topic_messages import READERS, RowChange, Told, UnreadableRecordError
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.table_declaration import TopicTable

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.row_text import RowText, Slice
    from spark.values.type_rule import SourceType

Read = Callable[[str], Any]
_EPOCH = datetime(1970, 1, 1)
_WHOLE, _DIGITS = re.compile(r"-?\d+"), re.compile(r"-?\d+(\.\d+)?")
_DIGIT, _NOT_ZERO = re.compile(r"\d"), re.compile(r"\s*[-+]?[0.]*[1-9]")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d{1,6}0*)?)?"
_MOMENT = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}Z?")


def reader(source_type: str, modes: str, *, written: bool) -> Read | None:
    """How texts of a column are read; `written`: dates and times come as people write them. None: they are not compared."""
    from spark.values.type_rule import SourceType

    parsed = SourceType.parse(source_type, modes=modes)
    if parsed is None or parsed.array:
        return None
    if parsed.name in _PLAIN:
        return _PLAIN[parsed.name]
    if parsed.name == "numeric" and parsed.args:
        scale = (*parsed.args, 0)[1]
        return (lambda text: _unscale(text, scale)) if parsed.modes.decimal == "precise" else _decimal
    if parsed.name in ("date", "timestamp without time zone", "time without time zone"):
        return _time_reader(parsed, written=written)
    if parsed.name == "bytea" and parsed.modes.binary in ("bytes", "base64"):
        return lambda text: base64.b64decode(text, validate=True)
    return None


def value(read: Read, text: Any) -> Any:
    """NULL stays NULL.

    Raises:
        UnreadableRecordError: it is no value of the type.
    """
    if text is None:
        return None
    plain = {True: "true", False: "false"}.get(text, text) if isinstance(text, bool) else text
    if isinstance(plain, float) and read is _float:
        return plain
    if not isinstance(plain, str):
        raise UnreadableRecordError
    try:
        return read(plain)
    except (ValueError, ArithmeticError) as error:
        raise UnreadableRecordError from error


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise UnreadableRecordError
    return int(text)


def _decimal(text: str) -> Decimal:
    if not _DIGITS.fullmatch(text):
        raise UnreadableRecordError
    return Decimal(text)


def _unscale(text: str, scale: int) -> Decimal:
    return Decimal(int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)).scaleb(-scale)


def _float(text: str) -> float:
    """Within a double: PostgreSQL refuses 1e400 and 1e-400, and so does silver."""
    number = float(text)
    if (number in (float("inf"), float("-inf")) and _DIGIT.search(text)) or (number == 0 and _NOT_ZERO.match(text)):
        raise UnreadableRecordError
    return number


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse()


def _refuse() -> bool:
    raise UnreadableRecordError


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(_pad_time(text)).astimezone(timezone.utc)


def _pad_time(text: str) -> str:
    """As Python 3.10 reads it: a zone in digits, six digits of a second or none."""
    text = text[:-1] + "+00:00" if text.endswith("Z") else text
    return re.sub(r"\.(\d{1,6})0*(?=$|[+-])", lambda found: f".{found[1]:0<6}", text)


def _time_reader(source: SourceType, *, written: bool) -> Read:
    numbers = _in_numbers(source)

    def read(text: str) -> Any:
        if written and source.name == "date" and _DAY.fullmatch(text):
            return date.fromisoformat(text)
        if written and source.name.startswith("timestamp") and _MOMENT.fullmatch(text):
            return datetime.fromisoformat(_pad_time(text.rstrip("Z")))
        if written and source.name.startswith("time ") and re.fullmatch(_CLOCK, text):
            return time.fromisoformat(_pad_time(text))
        return numbers(_whole(text))

    return read


def _in_numbers(source: SourceType) -> Callable[[int], Any]:
    """Days, or parts of a second by Debezium's `time.precision.mode`."""
    if source.name == "date":
        return lambda count: date(1970, 1, 1) + timedelta(days=count)
    mode, digits, clock = source.modes.temporal, source.args[0] if source.args else 6, source.name.startswith("time ")
    adapted = mode == "adaptive" or (mode == "adaptive_time_microseconds" and not clock)
    if mode == "isostring":
        return lambda count: _refuse()

    def micros(count: int) -> int:
        if mode == "connect" or (adapted and digits <= 3):
            return count * 1000
        if mode == "nanoseconds":
            return count // 1000 if count % 1000 == 0 else int(_refuse())
        return count

    if clock:
        return lambda count: timedelta(microseconds=micros(count))
    return lambda count: _EPOCH + timedelta(microseconds=micros(count))


_PLAIN: dict[str, Read] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), _whole),
    **dict.fromkeys(("text", "character varying", "character", "uuid"), str),
    **dict.fromkeys(("real", "double precision"), _float),
    "boolean": _boolean,
    "timestamp with time zone": _moment,
}


MAX_KEYS = 500_000
"""Rows held in memory; of a larger table a share is compared at a time."""
IN_AVRO = ("avro", "debezium-avro", "debezium-unwrapped-avro")


@dataclass
class _Held:
    """A key: where its newest record lies, and its row. `row` None: gone; `whole` False: not known."""

    partition: int
    timestamp: int
    row: Values | None
    whole: bool = True


@dataclass
class TopicFold:
    """One table; every call first reads what has come since. Shares are told by the key, so one part is held only."""

    cluster: KafkaCluster
    topic: str
    table: TopicTable
    part: Slice
    form: RowForm
    schema_registry: str | None = None
    held: dict[str, _Held] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    complete: bool = True
    unreadable: int = 0
    emptied: tuple[int, int] | None = None
    """Partition and time of the newest record that emptied the table."""

    def __post_init__(self) -> None:
        modes = self.table.values.modes
        self._readers = [reader(c.source_type, modes, written=_has_plain_times(self.table)) for c in self.form.columns]
        documents = AvroDocuments(self.schema_registry or "") if self.table.envelope in IN_AVRO else None
        columns = [c.name for c in self.form.columns]
        self._told = Told(self.form.row_text.keys, columns, self.table.positions, documents)

    def advance(self) -> None:
        """Up to the last stable offsets of this moment.

        Raises:
            DatabaseError: the topic is gone, or holds more keys than are held in memory.
        """
        state = self.cluster.states([self.topic]).get(self.topic)
        if state is None:
            raise DatabaseError(f"topic {self.topic} does not exist at {self.cluster.bootstrap}")
        for partition, (begin, _) in state.ranges.items():
            if begin > self.read.get(partition, begin):
                raise DatabaseError(f"topic {self.topic}: retention removed records while they were read; run it again")
            self.complete = self.complete and (partition in self.read or begin == 0)
        ranges = {p: (max(begin, self.read.get(p, begin)), end) for p, (begin, end) in state.ranges.items()}
        for record in self.cluster.records(self.topic, ranges, deadline=600.0):
            self._take(record)
        self.read.update(state.ends)
        if len(self.held) > MAX_KEYS:
            raise DatabaseError(
                f"{self.table.name}: topic {self.topic} tells of more than {MAX_KEYS:,} keys, which are held in memory: "
                "compare a share at a time (--share 1/8)"
            )

    def knows(self, key: str) -> bool:
        """Whether its row, or that it has none, is told by what the topic holds."""
        newest = self.held.get(key)
        return self.complete if newest is None else newest.whole

    @property
    def knows_all(self) -> bool:
        """Whether the topic tells of the row of every key."""
        return self.complete and all(newest.whole for newest in self.held.values())

    def rows(self) -> dict[str, Values]:
        """The rows that are known and that the table has, by their keys' texts."""
        whole = ((key, newest.row) for key, newest in self.held.items() if newest.whole)
        return {key: row for key, row in whole if row is not None and self.form.is_kept(row)}

    def _take(self, record: Record) -> None:
        try:
            changes = READERS[self.table.envelope](record, self._told)
        except (UnreadableRecordError, AttributeError, TypeError):
            self.unreadable += 1
            return
        for change in changes:
            if change.what == "emptied":
                if self.table.truncate in ("apply", "soft"):
                    self._empty(record)
                continue
            try:
                self._change(record, change)
            except (UnreadableRecordError, DatabaseError):
                self.unreadable += 1

    def _empty(self, record: Record) -> None:
        self.emptied = record.partition, record.timestamp
        for key, newest in self.held.items():
            if not self._later(record, newest.partition, newest.timestamp):
                self.held[key] = _Held(record.partition, record.timestamp, None)
        self.complete = True

    @staticmethod
    def _later(record: Record, partition: int, timestamp: int) -> bool:
        """Whether what was read before is the newer one, as another partition may tell."""
        return partition != record.partition and timestamp > record.timestamp

    def _change(self, record: Record, change: RowChange) -> None:
        count = len(self.form.row_text.keys)
        key_row = tuple(self._value(i, change.values) for i in range(count))
        padded = (*key_row, *[None] * (len(self.form.columns) - count))
        if not within(self.form.bucket(padded), self.part):
            return
        key = self.form.key(padded)
        before = self.held.get(key)
        places = [] if before is None else [(before.partition, before.timestamp)]
        if any(self._later(record, *earlier) for earlier in (*places, *([self.emptied] if self.emptied else ()))):
            return
        newest = _Held(record.partition, record.timestamp, None)
        if change.what == "row":
            base = before.row if before is not None and before.whole else None
            try:
                newest.row, newest.whole = self._row(change, base)
            except UnreadableRecordError:
                # What silver holds of it is in quarantine; neither side's row is known to be the newest.
                newest.whole = False
        self.held[key] = newest

    def _row(self, change: RowChange, before: Values | None) -> tuple[Values | None, bool]:
        """A column that the message keeps has the value that it had, if that is known."""
        values: list[Any] = []
        for i, column in enumerate(self.form.columns):
            if column.name in change.values or (change.kept is not None and column.name not in change.kept):
                values.append(self._value(i, change.values))
            elif before is not None:
                values.append(before[i])
            else:
                return None, False
        return tuple(values), True

    def _value(self, place: int, sent: Mapping[str, Any]) -> Any:
        read = self._readers[place]
        assert read is not None, self.form.columns[place].name
        return value(read, sent.get(self.form.columns[place].name))


def _has_plain_times(table: TopicTable) -> bool:
    """Whether dates and times come as people write them: not from Debezium."""
    return not table.envelope.startswith("debezium")


class TopicRows:
    """Rows of a source of topics (databases.source_cut.SourceRows)."""

    def __init__(
        self, cluster: KafkaCluster, topics: Mapping[TableId, tuple[str, TopicTable]], schema_registry: str | None = None
    ) -> None:
        self._cluster, self._topics, self._registry = cluster, topics, schema_registry
        self._folds: dict[TableId, TopicFold] = {}

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket."""
        fold = self._advance_fold(table, row_text, part)
        sums: dict[int, tuple[int, int]] = {}
        for row in fold.rows().values():
            rows, total = sums.get(bucket := fold.form.bucket(row), (0, 0))
            sums[bucket] = rows + 1, total + fold.form.hash(row)
        return sums

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets."""
        fold, chosen = self._advance_fold(table, row_text, part), set(buckets)
        return Counter((key, fold.form.hash(row)) for key, row in fold.rows().items() if fold.form.bucket(row) in chosen)

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""
        fold = self._advance_fold(table, row_text, None)
        rows = fold.rows()
        return {key: row_text.display(fold.form.texts(rows[key])) for key in keys if key in rows}

    def unwritten(self, table: CatalogueTable) -> dict[str, str]:
        """The columns of types without a text here."""
        declared = self._topics[table.id][1]
        return {
            c.name: f"{c.type}: {NOT_WRITTEN}"
            for c in table.columns
            if writer(c.type) is None or reader(c.type, declared.values.modes, written=_has_plain_times(declared)) is None
        }

    def key_filter(self, table: TableId) -> Callable[[str], bool] | None:
        """Which keys the topic still tells of; None: of all."""
        fold = self._folds[table]
        return None if fold.knows_all else fold.knows

    def unread(self, table: TableId) -> int:
        """Records that are no messages of their envelope, or hold no key of the table."""
        return self._folds[table].unreadable

    def _advance_fold(self, table: TableId, row_text: RowText, part: Slice | None) -> TopicFold:
        topic, declared = self._topics[table]
        if table not in self._folds:
            self._folds[table] = TopicFold(self._cluster, topic, declared, part or (0, 1), RowForm(row_text), self._registry)
        self._folds[table].advance()
        return self._folds[table]
