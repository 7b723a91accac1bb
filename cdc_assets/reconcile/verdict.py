"""What a comparison of a table or of a history ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

EQUAL, DIFFERENT, NOT_COMPARED = "equal", "different", "not compared"


@dataclass(frozen=True)
class ComparisonResult:
    """What every comparison says: the part of the table, the columns left out and why, seconds by phase, keys that were healed.

    `earlier`: an earlier run had found that this part differs.
    """

    table: str
    verdict: str
    reason: str = ""
    _: KW_ONLY
    silver_version: int | None = None
    share: str = "1/1"
    keys_differing: int = 0
    not_compared: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    healed: int | None = None
    earlier: bool = False

    @property
    def equal(self) -> bool:
        """Everything that was compared is as it must be."""
        return self.verdict == EQUAL
