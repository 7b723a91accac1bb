"""Sums, keys and rows of a table (databases.cuts.SourceRows) from its pages: texts and hashes are made here, not in the database.

    pages of rows, in the order of the key ─▶ canonical texts ─▶ hash and bucket ─▶ sums by bucket, or the rows asked for

Memory holds one page. Each page is a statement of its own, so nothing is locked and no snapshot is held, which the two-step
method does not need. The whole table travels: what that costs depends on the network, not on the server.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.rows.texts import NOT_WRITTEN, Write, parse_key, writer
from spark.dialects.hashing import BUCKETS

if TYPE_CHECKING:
    from spark.reconcile.job import Digest, KeyHashes, Texts
    from spark.reconcile.row_text import RowText, Slice
    from spark.specs import Column

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
        found: dict[int, tuple[int, int]] = {}
        form = RowForm(row_text)
        for row in self._rows(table, form):
            bucket = form.bucket(row)
            if within(bucket, part):
                rows, total = found.get(bucket, (0, 0))
                found[bucket] = rows + 1, total + form.hash(row)
        return found

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets."""
        form, wanted = RowForm(row_text), set(buckets)
        rows = self._rows(table, form)
        return Counter((form.key(row), form.hash(row)) for row in rows if (b := form.bucket(row)) in wanted and within(b, part))

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""
        form, asked = RowForm(row_text), set(keys)
        types = [c.source_type for c in form.columns[: len(row_text.keys)]]
        found: dict[str, Texts] = {}
        for some in (keys[i : i + AT_ONCE] for i in range(0, len(keys), AT_ONCE)):
            for row in self.reader.rows_of(table, form.columns, [parse_key(key, types) for key in some]):
                # A collation may take other keys for equal.
                if (key := form.key(row)) in asked and form.is_kept(row):
                    found[key] = row_text.display(form.texts(row))
        return found

    def unwritten(self, table: CatalogueTable) -> dict[str, str]:
        """The columns of types without a text here."""
        return {c.name: f"{c.type}: {NOT_WRITTEN}" for c in table.columns if writer(c.type) is None}

    def key_filter(self, table: TableId) -> None:
        """None: the database tells of all keys."""

    def unread(self, table: TableId) -> int:
        """Rows are read, or it fails."""
        return 0

    def _rows(self, table: TableId, form: RowForm) -> Iterator[Values]:
        for page in self.reader.pages(table, form.columns, len(form.row_text.keys)):
            yield from filter(form.is_kept, page)


class RowForm:
    """How rows are written: spark.reconcile.row_text, of values in Python."""

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
        return [None if row[place] is None else write(row[place]) for place, write in self._order]

    def is_kept(self, row: Values) -> bool:
        """Whether it is one of the table's rows."""
        for place, write, texts, excluded in self._kept:
            if ((None if row[place] is None else write(row[place])) in texts) == excluded:
                return False
        return True

    def key(self, row: Values) -> str:
        """The key's text, each column followed by `;`; DatabaseError where a column is NULL."""
        if any(row[place] is None for place, _ in self._keys):
            raise DatabaseError(f"a row has NULL in its key ({', '.join(self.row_text.keys)}), which is declared as not null")
        return "".join(f"{write(row[place])};" for place, write in self._keys)

    def hash(self, row: Values) -> int:
        """60 bits of the hash of its texts."""
        text = "".join(f"{text or ''};" for text in self.texts(row))
        return int(hashlib.new(self.row_text.dialect.digest, text.encode()).hexdigest()[:15], 16)

    def bucket(self, row: Values) -> int:
        """By the key, as the lake does it."""
        if self.row_text.numbers:
            return sum(abs(int(row[place])) % BUCKETS for place, _ in self._keys) % BUCKETS
        if self.row_text.uuid:
            return int(str(row[0])[11:13], 16)
        return int(hashlib.new(self.row_text.dialect.digest, self.key(row).encode()).hexdigest()[:7], 16) % BUCKETS


def _writer(column: Column, of_bytes: Write, *, in_key: bool) -> Write:
    found = of_bytes if column.source_type == "bytea" else writer(column.source_type)
    if found is None:
        raise DatabaseError(f"column {column.name} of type {column.source_type} cannot be compared; leave it out")

    def write(value: Any) -> str:
        # Results are kept and shown, and the column may be a sensitive one: errors tell no values.
        try:
            # -0 and 0 are one key.
            return found(abs(value) if in_key and isinstance(value, float) and value == 0 else value)
        except DatabaseError as error:
            raise DatabaseError(f"column {column.name}: {error}") from error
        except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
            told = f"column {column.name} is declared as {column.source_type}, and the database has a {type(value).__name__}"
            raise DatabaseError(f"{told} that is none") from error

    return write


def within(bucket: int, part: Slice) -> bool:
    """Whether a bucket belongs to a share."""
    if not isinstance(part, tuple):
        raise DatabaseError(f"{part.text}: rows that are read page by page are compared whole, or by share")
    number, parts = part
    return bucket % parts == number
