"""Notifications of snapshots, as Debezium writes them into a topic."""

from __future__ import annotations

import json

from cdc_assets.capture.connectors.debezium_signals import INCREMENTAL, INITIAL, Notification
from cdc_assets.clients.kafka import Record


def said(kind: str, at_ms: int, table: str = "", rows: int = 0, status: str = "SUCCEEDED", of: str = "1") -> Notification:
    aggregate = INITIAL if of == "1" else INCREMENTAL
    data = {"scanned_collection": table, "total_rows_scanned": str(rows), "status": status} if table else {}
    value = {"id": of, "aggregate_type": aggregate, "type": kind, "additional_data": data}
    return Notification.of(Record(0, 0, at_ms, None, json.dumps(value).encode(), ()))


SCAN = "TABLE_SCAN_COMPLETED"
