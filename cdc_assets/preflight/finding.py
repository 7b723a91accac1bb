"""One thing that was looked at: whether it holds, and what mends it when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Level = Literal["ok", "warn", "fail"]
# Catalogues show a role only what it may use.
NOT_SEEN = "does not exist, or the role may not see it"


@dataclass(frozen=True)
class Finding:
    """`check` is the rule's name, `subject` what it was asked of (server, slot, publication, a table).

    `mend` is a statement for the source, or a command; `safe`: it loses nothing, rewrites nothing, needs no restart, and
    is undone as easily, so that `--fix` may run it. `stops_others`: what fails of one table stops others too, captured or not.
    """

    check: str
    level: Level
    subject: str
    message: str
    mend: str | None = None
    safe: bool = False
    stops_others: bool = False

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one finding."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """All findings of a source, the worst first; `figures` are numbers that are watched over time.

    `experimental`: why nobody should rely on its kind yet; empty for all others.
    """

    source: str
    place: str
    findings: tuple[Finding, ...]
    figures: Mapping[str, int] = field(default_factory=dict)
    experimental: str = ""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What capture cannot do without, or what it would break."""
        return tuple(f for f in self.findings if f.level == "fail")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What will become a failure if nothing is done."""
        return tuple(f for f in self.findings if f.level == "warn")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one source's findings."""
        return {
            "source": self.source,
            "place": self.place,
            "ok": not self.failures,
            "experimental": self.experimental or None,
            "findings": [f.to_json() for f in self.findings],
            "figures": dict(self.figures),
        }


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Failures, warnings, the rest."""
    return tuple(sorted(findings, key=lambda f: ("fail", "warn", "ok").index(f.level)))
