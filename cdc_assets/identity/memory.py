"""Which incarnation a source was at the last look, and an epoch that is being opened: one JSON file per source under CDC_HOME.

    $CDC_HOME/incarnations/<source>.json  {"known": {…} | null, "opening": {…} | null, "seen": {…}}

`looks` is written behind the witness's row: a crash between the two leaves a row that counts more, which is no restore.
`bounds` are the ends of the old epoch, once they are known: {topic: {partition: offset}}, `epochs` the new epoch of each topic.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cdc_assets import settings
from cdc_assets.durable_file import read_json, replace_json

Bounds = dict[str, dict[int, int]]


@dataclass(frozen=True)
class Known:
    """The server that was read: its identifier and timeline, the witness, and when that was (UTC).

    `home` is this home's number in the witness (facts.WitnessRows), `looks` what its row counts at least, `epochs` that of row 0;
    no `looks`: it has no row. `tokens`: the witness of a release before this one, until the next look.
    """

    system: str
    timeline: int
    tokens: tuple[str, ...]
    at: str
    home: int = 0
    looks: int = 0
    epochs: int = 0


@dataclass
class Opening:
    """A new epoch on its way; `done` are its steps."""

    reason: str
    done: list[str] = field(default_factory=list)
    bounds: Bounds = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)


@dataclass
class SeenStarts:
    """What the last look has seen of the connector's starts (incarnation.starts).

    `stored`: the highest position that had been read; `ends`: where the core's topics ended when no start was open; `hole`:
    what is lost, until an epoch is opened.
    """

    stored: int = 0
    ends: Bounds = field(default_factory=dict)
    hole: str = ""


@dataclass
class Memory:
    """The file of one source."""

    path: Path
    known: Known | None = None
    opening: Opening | None = None
    seen: SeenStarts = field(default_factory=SeenStarts)

    @classmethod
    def of(cls, source: str) -> Memory:
        """Read, or empty where there is none."""
        path = settings.home() / "incarnations" / f"{source}.json"
        data = read_json(path)
        if data is None:
            return cls(path)
        known, opening, seen = data["known"], data["opening"], data.get("seen") or {}
        return cls(
            path,
            Known(**{**known, "tokens": tuple(known["tokens"])}) if known else None,
            Opening(**{**opening, "bounds": _with_numbers(opening["bounds"])}) if opening else None,
            SeenStarts(**{**seen, "ends": _with_numbers(seen["ends"])}) if seen else SeenStarts(),
        )

    def save(self) -> None:
        """Replace the file; it is whole, old or new, after a crash at any moment."""
        data = {
            "known": asdict(self.known) if self.known else None,
            "opening": asdict(self.opening) if self.opening else None,
            "seen": asdict(self.seen),
        }
        replace_json(self.path, data)


def _with_numbers(bounds: dict[str, dict[str, Any]]) -> Bounds:
    return {topic: {int(p): end for p, end in ends.items()} for topic, ends in bounds.items()}
