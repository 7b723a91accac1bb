"""Whether a MariaDB's binlog still holds what its connector has not read: files are purged, by age or by hand; pure.

Debezium asks the server for its place only when it starts, and fails then: its task is restarted in vain, and nothing says
what mends it. A file that was read to its end and then purged counts as a loss: the offset behind its last transaction is stored
with the next one (ADR 44).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.identity.judge import Verdict
from cdc_assets.resources.databases.binlog_position import BinlogPosition


def binlog_verdict(files: Sequence[tuple[str, int]], offsets: Sequence[Mapping[str, Any]]) -> Verdict:
    """`files`: name and bytes, oldest first. `offsets` as Connect tells them: without one, or within a first snapshot, nothing
    has been read yet.
    """
    offset = next((entry["offset"] for entry in offsets if (entry.get("offset") or {}).get("file")), None)
    if offset is None or offset.get("snapshot"):
        return Verdict("same")
    at, sizes = BinlogPosition.of(str(offset["file"]), int(offset["pos"])), dict(files)
    if not sizes:
        return Verdict("other", f"it writes no binlog, and {at.text} is the last that was read")
    first, last = next(iter(sizes)), next(reversed(sizes))
    if at.file in sizes and at.position <= sizes[at.file]:
        return Verdict("same")
    if at.file in sizes or at.number > BinlogPosition.of(last, 0).number:
        text = (
            f"{at.text} has been read, and its binlog ends at {last}:{sizes[last]}: it was reset or restored, or is another one"
        )
        return Verdict("other", text)
    text = f"its binlog begins with {first}, and {at.text} is the last that was read: what was committed between them was purged"
    return Verdict("other", text)
