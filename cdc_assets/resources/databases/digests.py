"""A database's sums by bucket, as they come from its driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId

if TYPE_CHECKING:
    from spark.reconcile.job import Digest


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
