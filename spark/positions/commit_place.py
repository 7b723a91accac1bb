"""A place between two commits of a source's log, as positions have it less their epoch.

PostgreSQL: its anchor is the last commit before the place, and every later transaction has a higher anchor, every earlier one a
lower one. A transaction that a connector streams at its start may not know the commit right before it: whatever has the anchor
of the place itself is on neither side. Binlog: commits are whole in it and in its order, so the bytes decide.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommitPlace:
    """What was committed behind it sorts above `behind`, all else below; `unclear` is what places on neither side begin with.

    `text` is the place as the server's own tools write it.
    """

    text: str
    behind: str
    unclear: str = ""


def behind_commit(lsn: int) -> CommitPlace:
    """Of PostgreSQL, behind the commit that ends at this LSN; a snapshot's row taken there is before it."""
    own = f"{lsn:016x}.1."
    return CommitPlace(f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}", f"{own}~", own)


def in_binlog(text: str, place: str) -> CommitPlace:
    """Of a binlog, before the event at this file and position, which `place` says as positions do (BinlogPosition)."""
    return CommitPlace(text, f"{place}.1.")
