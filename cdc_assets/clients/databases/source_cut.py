"""The cut of a source that can be compared row by row: one moment of its log, and what its tables hold then.

Rows come as sums by ranges of keys, or few of them with key and hash. A kind that cannot be asked so is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Digest, KeyHashes, Texts
    from spark.proof.key_order import Bound, KeyRange
    from spark.proof.row_text import RowText, Slice
    from spark.proof.snapshot_cut import AnyCut

# Key and hash of half a million rows take about 100 MB here.
MOST_ROWS = 500_000
ROWS = "_cdc_rows"
"""What a statement calls the table whose rows it puts in order; no column is called so (spark.silver.column_ledger)."""


def few_enough(table: TableId, found: KeyHashes) -> KeyHashes:
    """The rows, where they are no more than MOST_ROWS; a statement asks for one more.

    Raises:
        DatabaseError: there are more. The range was chosen a moment before: the next run chooses another end.
    """
    if found.total() > MOST_ROWS:
        raise DatabaseError(
            f"{table.schema}.{table.table}: more than {MOST_ROWS:,} rows lie in the range of keys that was to be compared: "
            "written since its end was chosen; run it again"
        )
    return found


class SourceRows(Protocol):
    """What a source's tables hold."""

    def digest(self, table: TableId, row_text: RowText, part: Slice) -> Digest:
        """Rows, and the sum of their hashes, by bucket: one scan."""

    def key_hashes(self, table: TableId, row_text: RowText, buckets: Sequence[int], part: Slice) -> KeyHashes:
        """Key text and hash of every row in some buckets of a slice."""

    def texts(self, table: TableId, row_text: RowText, keys: Sequence[str]) -> dict[str, Texts]:
        """The rows of these keys (texts), as they are shown."""


class OwnOrderRows(Protocol):
    """A table's keys in the order of its own primary-key index (spark.proof.key_order)."""

    def bytewise(self, table: TableId) -> frozenset[str]:
        """The columns whose texts the database itself orders by their bytes."""

    def range_end(self, table: TableId, row_text: RowText, after: Bound | None, count: int) -> Bound | None:
        """The last of the `count` keys above `after`; None: there are no more than these."""

    def in_range(self, table: TableId, row_text: RowText, keys: KeyRange) -> KeyHashes:
        """Key text and hash of every row in a range."""

    def present(self, table: TableId, row_text: RowText, keys: Mapping[str, Sequence[str | None]]) -> set[str]:
        """Those of these keys (texts, with their columns' values) that have a row."""


class RowsAtOnce(SourceRows, OwnOrderRows, Protocol):
    """Both of one moment."""


class SourceCut(SourceRows, OwnOrderRows, Protocol):
    """The rows of one read-only transaction at an exact moment."""

    @property
    def text(self) -> str:
        """What it sees, as the database writes it."""

    @property
    def lsn(self) -> str:
        """The place in the log, for people."""

    @property
    def in_lake(self) -> AnyCut:
        """How Spark tells which events it sees."""

    def count(self, table: TableId, row_text: RowText, part: Slice) -> int:
        """The rows of a slice, told by no bucket."""


def digest_of(table: TableId, rows: Iterable[tuple[Any, Any, Any]]) -> Digest:
    """Rows and the sum of their hashes, by bucket.

    Raises:
        DatabaseError: a bucket comes twice: the server has not grouped by buckets, and a sum would be taken for that of all.
    """
    digest: Digest = {}
    for bucket, count, total in rows:
        if int(bucket) in digest:
            raise DatabaseError(
                f"{table.schema}.{table.table}: bucket {bucket} came twice, so the server has not grouped by buckets: nothing is "
                "compared; this is a defect of cdc_assets, please report it with the table's CREATE statement"
            )
        digest[int(bucket)] = (int(count), int(total))
    return digest
