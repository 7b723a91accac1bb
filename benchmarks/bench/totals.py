"""What a Delta table of the bench holds, read by delta-rs: not by the engine that wrote it, and without a plan per table."""

from __future__ import annotations

from benchmarks.bench.errors import BenchError
from cdc_assets.clients.delta_rows import unread_features


def read_totals(path: str, where: str = "true") -> tuple[int, int]:
    """Rows of the table for which `where` holds, and the sum of their balances.

    Raises:
        BenchError: the table has features of Delta that delta-rs does not read.
    """
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(path)
    if unread := unread_features(table):
        raise BenchError(f"{path} cannot be checked: delta-rs does not read {', '.join(unread)}")
    query = QueryBuilder().register("t", table)
    found = query.execute(f"SELECT count(*) AS n, coalesce(sum(abalance), 0) AS total FROM t WHERE {where}").read_all()
    (row,) = zip(found["n"].to_pylist(), found["total"].to_pylist(), strict=True)
    return int(row[0]), int(row[1])
