"""What bronze's log says of its commits, by delta-rs."""

from __future__ import annotations

from deltalake import DeltaTable

from spark.table.commit_metadata import fold


def committed(path: str):
    return fold((c["version"], c.get("userMetadata")) for c in DeltaTable(path).history())
