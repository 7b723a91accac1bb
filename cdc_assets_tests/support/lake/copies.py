"""Copies in bronze as another host's writer left them: an append that was built on what was there before the newest one."""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake


def plant_copies(path: str) -> int:
    """The newest append once more, from the same base; how many rows are in the table twice then."""
    table = DeltaTable(path)
    commits = [json.loads(entry["userMetadata"]) for entry in table.history() if "userMetadata" in entry]
    newest = next(said for said in commits if said.get("topics"))
    spans = [(topic, int(p), *r) for topic, share in newest["topics"].items() for p, r in share["ranges"].items()]
    whole = table.to_pyarrow_table()
    rows = [
        row
        for row in whole.to_pylist()
        if any((row["topic"], row["partition"]) == (t, p) and a <= row["offset"] < b for t, p, a, b in spans)
    ]
    assert rows
    note = json.dumps({**newest, "operation_id": f"another-{uuid.uuid4().hex}"})
    copies = pa.Table.from_pylist(rows, schema=whole.schema)
    write_deltalake(path, copies, mode="append", commit_properties=CommitProperties(custom_metadata={"userMetadata": note}))
    return len(rows)
