"""How far a table is restored: everything, or in each partition what stands before the first record that is later.

A prefix of each partition, and never a choice of records: what silver folds is a log without holes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from cdc_assets.errors import RestoreError

_POSITION = re.compile(r"[0-9a-f]{4,}\.[0-9a-f.]+")


class RestorePoint(Protocol):
    """Where a restore ends."""

    @property
    def text(self) -> str:
        """What it is told as; equal texts end at the same records."""

    def beyond(self, rows: Any, epoch: int) -> Any:
        """For each row of an Arrow table of bronze's columns whether it lies behind the point; null is no."""

    def has_epoch(self, epoch: int) -> bool:
        """Whether an epoch without a record had begun by then."""


@dataclass(frozen=True)
class WholeBackup:
    """All that the backup holds."""

    text: str = "newest"

    def beyond(self, rows: Any, epoch: int) -> Any:
        """No row of any."""
        return _nowhere(rows)

    def has_epoch(self, epoch: int) -> bool:
        """Any epoch, by now."""
        return True


@dataclass(frozen=True)
class AtTime:
    """Records that Kafka was given up to a moment, itself included."""

    moment: datetime

    @property
    def text(self) -> str:
        """ISO 8601, in UTC."""
        return self.moment.astimezone(timezone.utc).isoformat()

    def beyond(self, rows: Any, epoch: int) -> Any:
        """By the timestamp of Kafka."""
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.greater(rows["timestamp"], pa.scalar(self.moment, pa.timestamp("us", "UTC")))

    def has_epoch(self, epoch: int) -> bool:
        """Nothing says when it began."""
        return False


@dataclass(frozen=True)
class AtPosition:
    """Records up to a position as `_cdc_position` shows it; one without a position stands where its partition does."""

    position: str

    @property
    def text(self) -> str:
        """The position as it is."""
        return self.position

    def beyond(self, rows: Any, epoch: int) -> Any:
        """By the position in bronze."""
        import pyarrow.compute as pc

        return pc.greater(rows["position"], self.position)

    def has_epoch(self, epoch: int) -> bool:
        """By the epoch that the position begins with."""
        from spark.positions.layout import epoch_prefix

        return epoch_prefix(epoch) <= self.position


@dataclass(frozen=True)
class AtOffsets:
    """What a copy of the table had folded: the earlier epochs, and of its own what stands before these offsets."""

    epoch: int
    offsets: Mapping[int, int]

    @property
    def text(self) -> str:
        """Its epoch and its offsets."""
        return f"epoch {self.epoch} {sorted(self.offsets.items())}"

    def beyond(self, rows: Any, epoch: int) -> Any:
        """By offset and by epoch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if epoch < self.epoch:
            return _nowhere(rows)
        ends = [self.offsets.get(p, 0) if epoch == self.epoch else 0 for p in rows["partition"].to_pylist()]
        return pc.greater_equal(rows["offset"], pa.array(ends, pa.int64()))

    def has_epoch(self, epoch: int) -> bool:
        """Up to its own."""
        return epoch <= self.epoch


def parse_restore_point(text: str | None) -> RestorePoint:
    """A time with its zone (`2026-11-25T18:00:00Z`; without one it is UTC), or a position; all without a text.

    Raises:
        RestoreError: it is neither.
    """
    if text is None:
        return WholeBackup()
    if _POSITION.fullmatch(text):
        return AtPosition(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise RestoreError(
            f"--to {text!r} is neither a time (2026-11-25T18:00:00Z) nor the name of a cut (cdc cut list) nor a position as "
            '_cdc_position of silver shows it (0000.…): cdc sql "SELECT max(_cdc_position) FROM silver.SOURCE.TABLE"'
        ) from None
    return AtTime(moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))


def _nowhere(rows: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array([False]).take(pa.array([0] * rows.num_rows, pa.int64()))])
