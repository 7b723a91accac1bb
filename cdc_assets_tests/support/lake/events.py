"""Events of a PostgreSQL source, as Debezium sends them."""

from __future__ import annotations

import json
from typing import Any

from cdc_assets_tests.support.lake.capture import Record


def event(offset: int, row: dict[str, Any] | None, *, op: str = "c", **more: Any) -> Record:
    source = {"lsn": 100 + offset, "sequence": json.dumps(["100", str(100 + offset)]), "txId": 7, "ts_us": 1, "snapshot": "false"}
    value = {"before": None, "after": row, "source": source, "op": op, **more}
    return Record(offset, json.dumps({"id": row["id"] if row else offset}), json.dumps(value))


Row = dict[str, Any]


def change(offset: int, op: str, before: Row | None, after: Row | None) -> Record:
    found = json.loads(event(offset, None, op=op).value or "") | {"before": before, "after": after}
    return Record(offset, None, json.dumps(found))
