"""One table on its way through a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdc_assets.reconcile.lake import ComparedTable, is_small
from cdc_assets.resources.delta_log import SilverState
from cdc_assets.volumetry.log_position import LogPosition
from spark.delta.commits import Committed

if TYPE_CHECKING:
    from spark.reconcile.job import Digest, KeyHashes, Task
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import Slice


@dataclass(frozen=True)
class Carried:
    """Where the cut is in the lake's topics, and how long it took there."""

    position: LogPosition
    seconds: float


@dataclass
class TableComparison:
    """One table on its way through the steps.

    `source` are the sums of its buckets, `in_range` the rows of its range. `ours` waits for silver's sums, their task and the
    seconds that they took: of a range nobody takes any.
    """

    compared: ComparedTable
    state: SilverState
    committed: Committed
    part: Slice | TwoRanges
    ours: Callable[[], tuple[Task, Digest, float]] | None = None
    source: Digest = field(default_factory=dict)
    in_range: KeyHashes = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether its sums are taken with those of others."""
        return not self.compared.view and is_small(self.state)
