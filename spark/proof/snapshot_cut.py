"""A cut of the source's log: which events a snapshot of the source sees.

PostgreSQL's LSN is the order of writing, and a snapshot is a set of transactions: one that committed earlier in the log
may still be invisible (its commit record is flushed before it leaves the list of running transactions), and one that
wrote below the snapshot's LSN may commit after it. So events are decided one by one, by their transaction id, which is
that of the outermost transaction for subtransactions and of the prepared one for COMMIT PREPARED, in the log and in
`pg_current_snapshot()` alike.

Ids in events have 32 bits and wrap, so an old event's id may look like one at or above `xmax`. `xmax` is one past the
highest *completed* id: a transaction at or above it may have begun, and written, long before the snapshot. What tells
them from old events: such a transaction either had its id before an LSN taken before the snapshot, and then held the lock
on it (`running`), or got it later, and then all that it wrote lies above that LSN.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

# Where file and position stand in MariaDB's (spark.events.source_positions).
_PLACE_AT, _PLACE_WIDTH = 6, 27
WRAP = 1 << 32
# Where the LSN stands in a position (spark.events.postgresql_positions), counted from 1.
_LSN_AT, _LSN_WIDTH = 25, 16


@dataclass(frozen=True)
class Cut:
    """`xmin:xmax:xip` of the snapshot, and an LSN (a number of bytes) taken before it.

    `running`: the ids (32 bits) of transactions that were in progress between the two.
    """

    xmax: int
    xip: frozenset[int]
    lsn_before: int
    running: frozenset[int] = frozenset()

    @property
    def unseen(self) -> frozenset[int]:
        """The ids, whole and as 32 bits, of all that the snapshot does not see and that may have written below the LSN."""
        ahead = {x for x in self.running if (x - self.xmax) % WRAP < WRAP // 2}
        return frozenset(n for x in (*self.xip, *ahead) for n in (x, x % WRAP))

    def is_behind(self, position: Expression) -> Expression:
        """Whether the change was written after the snapshot was asked for."""
        return sf.coalesce(sf.substring(position, _LSN_AT, _LSN_WIDTH) >= sf.lit(f"{self.lsn_before:016x}"), sf.lit(False))

    def hides(self, tx_id: Expression, position: Expression, op: Expression) -> Expression:
        """Whether the snapshot does not see the change; rows read by a snapshot of the connector's are not decided here."""
        # Asked of every row of silver: what is cheap and nearly always false comes first.
        late = self.is_behind(position)
        xid = sf.pmod(tx_id.try_cast("bigint"), sf.lit(WRAP))
        ahead = sf.pmod(xid - sf.lit(self.xmax % WRAP), sf.lit(WRAP)) < sf.lit(WRAP // 2)
        hidden = late & ahead
        if self.unseen:
            hidden = hidden | tx_id.isin(*sorted(map(str, self.unseen)))
        return sf.coalesce(hidden & (op != "r"), sf.lit(False))


@dataclass(frozen=True)
class BinlogCut:
    """A place in a MariaDB's or MySQL's binlog: file number and bytes. InnoDB commits in its order, so it decides alone."""

    number: int
    position: int

    def is_behind(self, position: Expression) -> Expression:
        """Whether the change was written at this place or behind it."""
        after = sf.substring(position, _PLACE_AT, _PLACE_WIDTH) >= sf.lit(f"{self.number:010d}.{self.position:016x}")
        return sf.coalesce(after, sf.lit(False))

    def hides(self, tx_id: Expression, position: Expression, op: Expression) -> Expression:
        """Whether the change does not lie before it; rows read by a snapshot of the connector's are not decided here."""
        return sf.coalesce(self.is_behind(position) & (op != "r"), sf.lit(False))


@dataclass(frozen=True)
class Everything:
    """No cut: all that has arrived is seen."""

    def is_behind(self, position: Expression) -> Expression:
        """False for each row: nothing lies behind all."""
        return sf.lit(False)

    def hides(self, tx_id: Expression, position: Expression, op: Expression) -> Expression:
        """False for each row: without a cut nothing is hidden."""
        return sf.lit(False)


AnyCut = Cut | BinlogCut | Everything
