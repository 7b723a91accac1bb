"""What a Debezium connector says of its snapshots in its notification topic.

https://debezium.io/documentation/reference/3.7/configuration/notification.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from cdc_assets.resources.kafka import Record

INITIAL = "Initial Snapshot"
"""The aggregate of each snapshot that reads whole tables: the initial one, and blocking ones."""
INCREMENTAL = "Incremental Snapshot"
AGAIN = "again-"
"""How the signals of `cdc snapshot` begin, and so the ids of what is said of them: whole tables, without a condition."""
FINE = ("SUCCEEDED", "EMPTY")


@dataclass(frozen=True)
class Notification:
    """One message of the topic; `at_ms` is when it was sent, by the clock that also wrote the rows' records."""

    id: str
    aggregate: str
    type: str
    data: dict[str, str]
    at_ms: int = 0

    @classmethod
    def of(cls, record: Record) -> Notification:
        """From its record in the topic."""
        value = json.loads(record.value or b"{}")
        value = value.get("payload", value)
        data = value.get("additional_data") or {}
        return cls(value["id"], value["aggregate_type"], value["type"], data, record.timestamp)

    @property
    def table(self) -> str:
        """The table that was read: `schema.table`; empty where it is about another thing."""
        return self.data.get("scanned_collection", "") if self.type == "TABLE_SCAN_COMPLETED" else ""

    @property
    def is_table_again(self) -> bool:
        """Whether `cdc snapshot` has read a whole table again, by chunks."""
        return (
            self.aggregate == INCREMENTAL and self.id.startswith(AGAIN) and bool(self.table) and self.data.get("status") in FINE
        )

    @property
    def rows(self) -> int:
        """How many rows of it were read."""
        return int(self.data.get("total_rows_scanned") or 0)
