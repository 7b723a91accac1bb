"""A topic's records folded to rows in plain Python: the newest record of a key, in the order of its partition, is its row.

That rule is another one than silver's (positions of the source's log), and nothing of bronze or Spark is asked: both sides share
the topic and the declaration of its columns. What the topic no longer holds is not known here: where retention has removed the
begin of a partition, only the keys that it still tells of whole are spoken of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.topic_source import TopicTable
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.kafka import KafkaCluster, Record
from cdc_assets.resources.rows.paged import RowForm, Values, within
from cdc_assets.resources.rows.texts import NOT_WRITTEN, writer
from cdc_assets.resources.topic_rows.avro import AvroDocuments
from cdc_assets.resources.topic_rows.messages import READERS, RowChange, Told, UnreadableRecordError
from cdc_assets.resources.topic_rows.values import UnfitValueError, reader, value

if TYPE_CHECKING:
    from spark.reconcile.job import Digest, KeyHashes, Texts
    from spark.reconcile.row_text import RowText, Slice

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
        found = self.held.get(key)
        return self.complete if found is None else found.whole

    @property
    def knows_all(self) -> bool:
        """Whether the topic tells of the row of every key."""
        return self.complete and all(found.whole for found in self.held.values())

    def rows(self) -> dict[str, Values]:
        """The rows that are known and that the table has, by their keys' texts."""
        known = ((key, found.row) for key, found in self.held.items() if found.whole)
        return {key: row for key, row in known if row is not None and self.form.is_kept(row)}

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
            except (UnfitValueError, DatabaseError):
                self.unreadable += 1

    def _empty(self, record: Record) -> None:
        self.emptied = record.partition, record.timestamp
        for key, found in self.held.items():
            if not self._later(record, found.partition, found.timestamp):
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
        if any(self._later(record, *place) for place in (*places, *([self.emptied] if self.emptied else ()))):
            return
        held = _Held(record.partition, record.timestamp, None)
        if change.what == "row":
            base = before.row if before is not None and before.whole else None
            try:
                held.row, held.whole = self._row(change, base)
            except UnfitValueError:
                # What silver holds of it is in quarantine; neither side's row is known to be the newest.
                held.whole = False
        self.held[key] = held

    def _row(self, change: RowChange, before: Values | None) -> tuple[Values | None, bool]:
        """A column that the message keeps has the value that it had, if that is known."""
        found: list[Any] = []
        for i, column in enumerate(self.form.columns):
            if column.name in change.values or (change.kept is not None and column.name not in change.kept):
                found.append(self._value(i, change.values))
            elif before is not None:
                found.append(before[i])
            else:
                return None, False
        return tuple(found), True

    def _value(self, place: int, sent: Mapping[str, Any]) -> Any:
        read = self._readers[place]
        assert read is not None, self.form.columns[place].name
        return value(read, sent.get(self.form.columns[place].name))


def _has_plain_times(table: TopicTable) -> bool:
    """Whether dates and times come as people write them: not from Debezium."""
    return not table.envelope.startswith("debezium")


class TopicRows:
    """Rows of a source of topics (databases.cuts.AnyRows)."""

    def __init__(
        self, cluster: KafkaCluster, topics: Mapping[TableId, tuple[str, TopicTable]], schema_registry: str | None = None
    ) -> None:
        self._cluster, self._topics, self._registry = cluster, topics, schema_registry
        self._folds: dict[TableId, TopicFold] = {}

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket."""
        fold = self._advance_fold(table, row_text, part)
        found: dict[int, tuple[int, int]] = {}
        for row in fold.rows().values():
            rows, total = found.get(bucket := fold.form.bucket(row), (0, 0))
            found[bucket] = rows + 1, total + fold.form.hash(row)
        return found

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets."""
        fold, wanted = self._advance_fold(table, row_text, part), set(buckets)
        return Counter((key, fold.form.hash(row)) for key, row in fold.rows().items() if fold.form.bucket(row) in wanted)

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
