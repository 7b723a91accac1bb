"""A cut of the source's log: which transactions a snapshot of the source sees.

PostgreSQL's LSN is the order of writing, and a snapshot is a set of transactions: one that committed earlier in the log
may still be invisible (its commit record is flushed before it leaves the list of running transactions), and one that
wrote below the snapshot's LSN may commit after it. So events are decided one by one, by their transaction id, which is
that of the outermost transaction for subtransactions and of the prepared one for COMMIT PREPARED, in the log and in
`pg_current_snapshot()` alike.

Ids in events have 32 bits and wrap. An id at or above `xmax` was given out after the snapshot, so all that it wrote
lies above an LSN taken before: with that, an old event whose id looks new is not taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

WRAP = 1 << 32
# Where the LSN stands in a position (spark.positions.postgresql), counted from 1.
_LSN_AT, _LSN_WIDTH = 25, 16


@dataclass(frozen=True)
class Cut:
    """`xmin:xmax:xip` of the snapshot, and an LSN (a number of bytes) taken before it."""

    xmax: int
    xip: frozenset[int]
    lsn_before: int

    def hides(self, tx_id: Expression, position: Expression, op: Expression) -> Expression:
        """Whether the snapshot does not see the change; rows read by a snapshot of the connector's are not decided here."""
        # Asked of every row of silver: what is cheap and nearly always false comes first.
        late = sf.substring(position, _LSN_AT, _LSN_WIDTH) >= sf.lit(f"{self.lsn_before:016x}")
        xid = sf.pmod(tx_id.try_cast("bigint"), sf.lit(WRAP))
        ahead = sf.pmod(xid - sf.lit(self.xmax % WRAP), sf.lit(WRAP)) < sf.lit(WRAP // 2)
        hidden = late & ahead
        if self.xip:
            hidden = hidden | tx_id.isin(*sorted({str(n) for x in self.xip for n in (x, x % WRAP)}))
        return sf.coalesce(hidden & (op != "r"), sf.lit(False))
