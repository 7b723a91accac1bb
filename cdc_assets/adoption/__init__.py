"""Takes over a Debezium connector that others have made and that runs: its names, tables, topics and mirror, by reading.

    cdc adopt inventory-connector --dry-run     what it is, and what differs from ours
    cdc adopt inventory-connector               writes the registry entry; of Connect nothing is written

What differs stays as it is (`capture.settings`) until somebody takes it out of the entry (docs/how-to/adopt.md).
"""
