"""Windows of a ledger, as the job appends them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from spark.proof.ledger_contract import FATES, HOPS, LINKS, Counted, ledger_metadata

NUMBERS = (*LINKS, *FATES, "late_by_ms_max", *(f"{hop}_{part}" for hop in HOPS for part in ("n", "ms_sum", "ms_max")))


def window(begin: int, *, mirror: int = 3) -> dict[str, Any]:
    facts = {"table": "orders", "op": "c", "pane": "on_time", "window_start": begin * 1_000_000, "counted_at": begin * 1_000_000}
    return {**dict.fromkeys(NUMBERS, 0), **facts, "topic": 3, "mirror": mirror, "bronze": 3, "applied": 3}


def append(path: str, rows: list[dict[str, Any]], metadata: str = "") -> None:
    moments = [(name, pa.timestamp("us", "UTC")) for name in ("window_start", "counted_at")]
    texts = [(name, pa.string()) for name in ("table", "op", "pane")]
    schema = pa.schema([*texts, *moments, *((name, pa.int64()) for name in NUMBERS)])
    metadata = metadata or ledger_metadata("l", {"orders": Counted(1, "fold", {})})
    properties = CommitProperties(custom_metadata={"userMetadata": metadata})
    write_deltalake(path, pa.Table.from_pylist(rows, schema=schema), mode="append", commit_properties=properties)
