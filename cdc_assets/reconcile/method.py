"""How rows are compared, and which: where that is not as the source declares, or not whole tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import Slice


@dataclass(frozen=True)
class ComparisonMethod:
    """In two steps although the source has an exact cut, with which standby (`host:port`); `view`: not silver's rows, but those
    of the view of now, which needs bronze alone to have come so far."""

    two_step: bool = False
    standby: str | None = None
    view: bool = False


AS_DECLARED = ComparisonMethod()
OF_VIEW = ComparisonMethod(view=True)


@dataclass(frozen=True)
class ComparisonScope:
    """What one comparison of a source's tables looks at: `slices` by short table name, other tables whole; `timeout` in seconds,
    which the chain may take to carry the position into the lake."""

    slices: Mapping[str, Slice | TwoRanges] = field(default_factory=dict)
    timeout: float = 300.0
    method: ComparisonMethod = AS_DECLARED

    @property
    def shares(self) -> dict[str, Slice]:
        """The slices where rows are not read at a cut, which two ranges need."""
        from spark.reconcile.own_order import TwoRanges

        return {name: part for name, part in self.slices.items() if not isinstance(part, TwoRanges)}


WHOLE_TABLES = ComparisonScope()
