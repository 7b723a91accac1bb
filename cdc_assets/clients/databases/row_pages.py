"""Sums, keys and rows of a table (source_cut.SourceRows) from its pages: texts and hashes are made here, not in the database.

pages of rows, in the order of the key ─▶ canonical texts ─▶ hash and bucket ─▶ sums by bucket, or the rows asked for

Memory holds one page. Each page is a statement of its own, so nothing is locked and no snapshot is held, which the two-step
method does not need. The whole table travels: what that costs depends on the network, not on the server.

A value gets the canonical text that Spark writes of silver's column, by the declared type, which is written as PostgreSQL would
write it. Types that are not here are not compared: their text in the lake is Debezium's own (json, intervals), or nobody has
shown that both sides write the same.
"""

from __future__ import annotations

import hashlib
import math
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Protocol

from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.errors import quantity
from spark.values.sql_dialects import BUCKETS, Dialect, measure

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.row_text import RowText, Slice
    from spark.specs import Column

Write = Callable[[Any], str]
MAX_DIGITS = 38
NOT_WRITTEN = "its text is not known to be the same in the lake and from this database's driver"


def writer(source_type: str) -> Write | None:
    """How values of the type are written; None where they are not compared. NULL is not its matter."""
    from spark.values.type_rule import SourceType

    parsed = SourceType.parse(source_type)
    if parsed is None or parsed.array:
        return None
    if parsed.name == "numeric":
        precision, scale = (*parsed.args, 0, 0)[:2]
        return (lambda value: _decimal(value, scale)) if 0 <= scale <= precision <= MAX_DIGITS and parsed.args else None
    if parsed.name == "bit" and (digits := (parsed.args or (1,))[0]) > 1:
        return lambda value: _digits(value, digits)
    return _WRITERS.get(parsed.name)


def parse_key(text: str, types: Sequence[str]) -> tuple[Any, ...]:
    """A key's canonical text as values to ask for.

    Raises:
        DatabaseError: the key has a type whose text cannot be read back.
    """
    from spark.values.type_rule import SourceType

    values = []
    raw = text.encode()
    for source_type in types:
        parsed = SourceType.parse(source_type)
        name = parsed.name if parsed else source_type
        if name in _MEASURED:
            size, _, raw = raw.partition(b":")
            value, raw = raw[: int(size)], raw[int(size) + 1 :]
        else:
            value, _, raw = raw.partition(b";")
        if name not in _READERS:
            raise DatabaseError(f"a key of type {source_type} cannot be asked for again: two steps read keys again")
        try:
            values.append(_READERS[name](value.decode()))
        except (ValueError, ArithmeticError) as error:
            raise DatabaseError(f"the key {text} cannot be asked for again: {error}") from error
    return tuple(values)


def _decimal(value: Any, scale: int) -> str:
    number = Decimal(str(value))
    if number != (exact := number.quantize(Decimal(1).scaleb(-scale), context=Context(prec=2 * MAX_DIGITS))):
        raise DatabaseError(f"a value has more than the declared {quantity(scale, 'digit')} after the point")
    return f"{exact:f}" if exact else f"{abs(exact):f}"


def _whole(value: Any) -> str:
    """A length of time, which MySQL's TIME is, is one of microseconds."""
    return str(value // timedelta(microseconds=1) if isinstance(value, timedelta) else int(value))


def _digits(value: bytes, count: int) -> str:
    """Bits, as many as declared."""
    bits = f"{int.from_bytes(value, 'big'):b}".zfill(count)
    if len(bits) > count:
        raise DatabaseError(f"{quantity(len(bits), 'bit')} are more than the declared {count}")
    return bits


def _boolean(value: Any) -> str:
    return "true" if (value != b"\0" if isinstance(value, bytes) else value) else "false"


def _text(value: Any) -> str:
    if isinstance(value, (dict, list, bytes)):
        raise DatabaseError(f"a value declared as text is {type(value).__name__} in the database")
    return measure(str(value))


def _date(value: date | str) -> str:
    """A text is what no calendar has, such as MySQL's 0000-00-00."""
    if isinstance(value, str):
        return value
    return (value.date() if isinstance(value, datetime) else value).isoformat()


def _timestamp(value: datetime | str) -> str:
    """Without zone, and the digits of a second without trailing zeros."""
    text = value if isinstance(value, str) else value.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text


def _moment(value: datetime | str) -> str:
    return _timestamp(value.astimezone(timezone.utc) if isinstance(value, datetime) and value.tzinfo else value)


def _time(value: time | timedelta) -> str:
    """MySQL's goes from -838:59:59 to 838:59:59."""
    if not isinstance(value, timedelta):
        return value.isoformat("microseconds")
    micros = abs(value) // timedelta(microseconds=1)
    seconds = micros // 1_000_000
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros % 1_000_000:06d}"
    return f"-{clock}" if value < timedelta() else clock


def _bits(form: str) -> Write:
    """Of NaN those of the one that Java has, whatever its sign was."""

    def write(value: Any) -> str:
        number = float(value)
        return struct.pack(form, abs(math.nan) if math.isnan(number) else number).hex().upper()

    return write


_MEASURED = ("text", "character varying", "character", "uuid")
_WRITERS: dict[str, Write] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned", "year"), _whole),
    **dict.fromkeys(_MEASURED, _text),
    **dict.fromkeys(("boolean", "bit"), _boolean),
    "real": _bits(">f"),
    "double precision": _bits(">d"),
    "bytea": lambda value: hashlib.md5(bytes(value)).hexdigest(),
    "date": _date,
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _moment,
    "time without time zone": _time,
}
_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned", "year"), int),
    **dict.fromkeys(_MEASURED, str),
    "numeric": Decimal,
    "date": date.fromisoformat,
    "timestamp without time zone": datetime.fromisoformat,
}


PAGE = 5000
AT_ONCE = 100
"""Keys in one statement."""
Values = tuple[Any, ...]


class RowReader(Protocol):
    """One kind's way to its rows; values come in the order of the columns, the key's first."""

    def pages(self, table: TableId, columns: Sequence[Column], keys: int) -> Iterator[Sequence[Values]]:
        """All rows, each once if it does not change meanwhile; the first `keys` columns are the key."""

    def rows_of(self, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        """At least the rows of these keys."""

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a row with this id to the marker table, and take away older ones."""

    def condition(self, columns: Sequence[Column], keys: Sequence[Values]) -> str:
        """These keys as a condition of an incremental snapshot of Debezium's; `columns` are the key's."""

    def signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Commit a signal (`id`, `type`, `data`) for the connector."""

    def clear(self, table: TableId, signal: str = "") -> int:
        """Take away all signals, or that of this id; how many there were."""


@dataclass(frozen=True)
class PagedRows:
    """A table's rows as they are: every page is of a moment of its own."""

    reader: RowReader

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket."""
        sums: dict[int, tuple[int, int]] = {}
        form = RowForm(row_text)
        for row in self._rows(table, form):
            bucket = form.bucket(row)
            if within(bucket, part):
                rows, total = sums.get(bucket, (0, 0))
                sums[bucket] = rows + 1, total + form.hash(row)
        return sums

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets."""
        form, chosen = RowForm(row_text), set(buckets)
        rows = self._rows(table, form)
        return Counter((form.key(row), form.hash(row)) for row in rows if (b := form.bucket(row)) in chosen and within(b, part))

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""
        form, requested = RowForm(row_text), set(keys)
        types = [c.source_type for c in form.columns[: len(row_text.keys)]]
        shown: dict[str, Texts] = {}
        for some in (keys[i : i + AT_ONCE] for i in range(0, len(keys), AT_ONCE)):
            for row in self.reader.rows_of(table, form.columns, [parse_key(key, types) for key in some]):
                # A collation may take other keys for equal.
                if (key := form.key(row)) in requested and form.is_kept(row):
                    shown[key] = row_text.display(form.texts(row))
        return shown

    def unwritten(self, table: CatalogueTable) -> dict[str, str]:
        """The columns of types without a text here."""
        return {c.name: f"{c.type}: {NOT_WRITTEN}" for c in table.columns if writer(c.type) is None}

    def _rows(self, table: TableId, form: RowForm) -> Iterator[Values]:
        for page in self.reader.pages(table, form.columns, len(form.row_text.keys)):
            yield from filter(form.is_kept, page)


class RowForm:
    """How rows are written: spark.proof.row_text, of values in Python."""

    def __init__(self, row_text: RowText) -> None:
        self.row_text = row_text
        by_name = {c.name: c for c in row_text.spec.columns}
        rest = [name for name in row_text.forms if name not in row_text.keys]
        self.columns = tuple(by_name[name] for name in (*row_text.keys, *rest))
        places = {c.name: i for i, c in enumerate(self.columns)}

        def write(name: str) -> tuple[int, Write]:
            return places[name], _writer(by_name[name], self._bytes, in_key=name in row_text.keys)

        self._order, self._keys = [*map(write, row_text.forms)], [*map(write, row_text.keys)]
        self._kept = [(*write(name), texts, excluded) for name, texts, excluded in row_text.kept_texts]

    def _bytes(self, value: Any) -> str:
        return hashlib.new(self.row_text.dialect.digest, bytes(value)).hexdigest()

    def texts(self, row: Values) -> list[str | None]:
        """Each column's, in the order of the forms."""
        return [None if row[index] is None else write(row[index]) for index, write in self._order]

    def is_kept(self, row: Values) -> bool:
        """Whether it is one of the table's rows."""
        for index, write, texts, excluded in self._kept:
            if ((None if row[index] is None else write(row[index])) in texts) == excluded:
                return False
        return True

    def key(self, row: Values) -> str:
        """The key's text, each column followed by `;`; DatabaseError where a column is NULL."""
        if any(row[index] is None for index, _ in self._keys):
            raise DatabaseError(f"a row has NULL in its key ({', '.join(self.row_text.keys)}), which is declared as not null")
        return "".join(f"{write(row[index])};" for index, write in self._keys)

    def hash(self, row: Values) -> int:
        """60 bits of the hash of its texts."""
        text = "".join(f"{text or ''};" for text in self.texts(row))
        return int(hashlib.new(self.row_text.dialect.digest, text.encode()).hexdigest()[:15], 16)

    def bucket(self, row: Values) -> int:
        """By the key, as the lake does it."""
        if self.row_text.numbers:
            return sum(abs(int(row[index])) % BUCKETS for index, _ in self._keys) % BUCKETS
        if self.row_text.uuid:
            return int(str(row[0])[11:13], 16)
        return int(hashlib.new(self.row_text.dialect.digest, self.key(row).encode()).hexdigest()[:7], 16) % BUCKETS


def _writer(column: Column, of_bytes: Write, *, in_key: bool) -> Write:
    plain = of_bytes if column.source_type == "bytea" else writer(column.source_type)
    if plain is None:
        raise DatabaseError(f"column {column.name} of type {column.source_type} cannot be compared; leave it out")

    def write(value: Any) -> str:
        # Results are kept and shown, and the column may be a sensitive one: errors tell no values.
        try:
            # -0 and 0 are one key.
            return plain(abs(value) if in_key and isinstance(value, float) and value == 0 else value)
        except DatabaseError as error:
            raise DatabaseError(f"column {column.name}: {error}") from error
        except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
            mismatch = f"column {column.name} is declared as {column.source_type}, and the database has a {type(value).__name__}"
            raise DatabaseError(f"{mismatch} that is none") from error

    return write


def within(bucket: int, part: Slice) -> bool:
    """Whether a bucket belongs to a share."""
    if not isinstance(part, tuple):
        raise DatabaseError(f"{part.text}: rows that are read page by page are compared whole, or by share")
    number, parts = part
    return bucket % parts == number


class Connection(ABC):
    """How one server is reached, and what its driver's values are here."""

    dialect: Dialect

    @abstractmethod
    def cursor(self) -> AbstractContextManager[Any]:
        """A cursor whose statements are committed one by one; the driver's errors are DatabaseErrors."""

    def normalize(self, value: Any) -> Any:
        """A driver's value, as `texts` knows it."""
        return value


@dataclass(frozen=True)
class SqlReader:
    """Rows of one server (row_pages.RowReader)."""

    server: Connection

    def pages(self, table: TableId, columns: Sequence[Column], keys: int) -> Iterator[Sequence[Values]]:
        """All rows in pages, by ascending key (the first `keys` columns)."""
        dialect, last = self.server.dialect, None
        with self.server.cursor() as cursor:
            while True:
                query = dialect.page(table, columns, keys, rows=PAGE, first=last is None)
                rows = self._ask(cursor, query, dialect.above(last) if last is not None else [])
                yield [tuple(map(self.server.normalize, row)) for row in rows]
                if len(rows) < PAGE:
                    return
                last = tuple(rows[-1][:keys])
                if None in last:
                    raise DatabaseError(f"{table}: a row has NULL in its key, which is declared as not null")

    def rows_of(self, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        """At least the rows of these keys."""
        if not keys:
            return []
        dialect = self.server.dialect
        try:
            return self._rows_of(dialect, table, columns, keys)
        except DatabaseError:
            if dialect.dearer is None:
                raise
            return self._rows_of(dialect.dearer, table, columns, keys)

    def _rows_of(self, dialect: Dialect, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        query = dialect.rows_of(table, columns, len(keys[0]), len(keys))
        with self.server.cursor() as cursor:
            rows = self._ask(cursor, query, [value for key in keys for value in key])
        return [tuple(map(self.server.normalize, row)) for row in rows]

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a row with this id to the marker table, and take away older ones."""
        with self.server.cursor() as cursor:
            for statement in self.server.dialect.mark(table):
                cursor.execute(statement, [marker])

    def condition(self, columns: Sequence[Column], keys: Sequence[Values]) -> str:
        """These keys as a condition; JobRefusedError where a value is of a type that is not written out."""
        return self.server.dialect.condition(columns, keys)

    def signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Commit a signal for the connector."""
        with self.server.cursor() as cursor:
            cursor.execute(self.server.dialect.signal(table), [signal, kind, data])

    def clear(self, table: TableId, signal: str = "") -> int:
        """Take away all signals, or that of this id; how many there were."""
        statement, values = self.server.dialect.unsignal(table, one=bool(signal)), [signal] if signal else []
        with self.server.cursor() as cursor:
            cursor.execute(statement, values)
            return int(cursor.rowcount)

    def _ask(self, cursor: Any, query: str, values: list[Any]) -> list[Any]:
        cursor.execute(query, values)
        return list(cursor.fetchall())
