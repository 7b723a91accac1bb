"""What a Delta table holds, by delta-rs, and how two sets of rows differ."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder

from spark.table.delta_rs import open_delta

Rows = Counter[tuple[str | None, ...]]


def read(path: str, condition: str = "true") -> list[dict[str, Any]]:
    """A Delta table's rows, whatever features it has."""
    builder = QueryBuilder().register("t", open_delta(path))
    return list(pa.table(builder.execute(f"SELECT * FROM t WHERE {condition}").read_all()).to_pylist())


def difference(source: Rows, silver: Rows, limit: int = 6) -> str:
    """'' where both hold the same rows; else some that only one of them has, with the columns' numbers where they differ."""
    missing, extra = source - silver, silver - source
    told = [f"only in the source ({sum(missing.values())}): {_shown(row)}" for row in [*missing][:limit]]
    return "\n".join([*told, *(f"only in silver ({sum(extra.values())}): {_shown(row)}" for row in [*extra][:limit])])


def _shown(row: tuple[str | None, ...]) -> str:
    return repr([v if v is None or len(v) < 60 else f"{v[:40]}… {len(v)} characters" for v in row])
