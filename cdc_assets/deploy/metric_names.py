"""Each metric's name, and what it says. The endpoint, the alert rules and the dashboard are made of them."""

from __future__ import annotations

LAG = "cdc_lag_records"
ROWS = "cdc_rows"
BRONZE = "cdc_bronze_records"
TABLE_ERROR = "cdc_table_error"
EVENTS = "cdc_ledger_events"
CHECK = "cdc_check_state"
QUARANTINE = "cdc_quarantine_records"
WORK_SECONDS = "cdc_last_work_seconds"
WORKED_AT = "cdc_last_materialized_timestamp_seconds"
UNDER_REPLICATED = "cdc_under_replicated_partitions"
DISK_FREE, DISK_SIZE = "cdc_disk_free_bytes", "cdc_disk_size_bytes"
PART_UP = "cdc_part_up"
COLLECT_SECONDS = "cdc_collect_seconds"

CHECK_STATES = {"passed": 0, "warned": 1, "failed": 2, "not run": 3}

HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    LAG: (
        "Records that a link lacks of the one before; offsets, so at most so many, of mirror and bronze.",
        ("source", "table", "link"),
    ),
    ROWS: ("Rows of silver, or versions of a history.", ("source", "table", "layer")),
    BRONZE: ("Records of the table in the change log.", ("source", "table")),
    TABLE_ERROR: ("1 where the table's chain has an error, as cdc status shows it.", ("source", "table")),
    EVENTS: (
        "Events of the last 24 hours (event time) by their fate in silver, as the ledger has counted them.",
        ("source", "table", "fate"),
    ),
    CHECK: ("What a check says: 0 passed, 1 warns, 2 failed, 3 has not run.", ("layer", "source", "table", "check")),
    QUARANTINE: ("Records that silver could not fold, and that are open.", ("source", "table")),
    WORK_SECONDS: ("How long the last materialization worked on the table.", ("layer", "source", "table")),
    WORKED_AT: ("When the asset was last materialized.", ("layer", "source", "table")),
    UNDER_REPLICATED: ("Partitions of a cluster with a replica that is not in sync.", ("cluster",)),
    DISK_FREE: ("Free bytes of the disk.", ("place",)),
    DISK_SIZE: ("Bytes of the disk.", ("place",)),
    PART_UP: (
        "1 where a part of these figures could be asked for, else 0: chains, checks, work, backups, core, lake.",
        ("part",),
    ),
    COLLECT_SECONDS: ("How long it took to collect these figures.", ()),
}
"""By name: what it says, and its labels. All are gauges."""
