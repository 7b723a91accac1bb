"""How rows are compared, where that is not as the source declares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ComparisonMethod:
    """In two steps although the source has an exact cut, with which standby (`host:port`); `view`: not silver's rows, but those
    of the view of now, which needs bronze alone to have come so far."""

    two_step: bool = False
    standby: str | None = None
    view: bool = False


AS_DECLARED = ComparisonMethod()
OF_VIEW = ComparisonMethod(view=True)
