"""What the last look at a source's mirrors saw: one JSON file per source under CDC_HOME, replaced in one step.

    $CDC_HOME/mirrors/<source>.json
    {topic: {"id": …, "next": {partition: offset}, "written": {partition: offset}, "losses": […], "held": {place: offset}}}

`next` is the first core offset that was not known to be copied, `written` the end of the lake's copy at that time. A loss
stays until it is repaired, however MirrorMaker's own offsets go on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from cdc_assets import settings
from cdc_assets.durable_file import read_json, replace_json


@dataclass
class SeenTopic:
    """One topic at the last look. A loss is `{kind, partition, lost, message}` (findings.MirrorFinding)."""

    id: str
    next: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    losses: list[dict[str, object]] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)


def load(source: str) -> dict[str, SeenTopic]:
    """By core topic; empty before the first look."""
    return {
        topic: SeenTopic(seen["id"], _numbers(seen["next"]), _numbers(seen["written"]), seen["losses"], seen.get("held", {}))
        for topic, seen in (read_json(_file(source)) or {}).items()
    }


def save(source: str, seen: dict[str, SeenTopic]) -> None:
    """Replace the source's file by what this look has seen, per topic."""
    replace_json(_file(source), {topic: asdict(each) for topic, each in sorted(seen.items())})


def _file(source: str) -> Path:
    return settings.home() / "mirrors" / f"{source}.json"


def _numbers(document: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in document.items()}
