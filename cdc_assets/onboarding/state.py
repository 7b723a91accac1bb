"""What an onboarding has done so far: one JSON file per source under CDC_HOME, replaced in one step after each step.

    $CDC_HOME/onboarding/<source>.json  {"running": {…} | null, "finished": {table: {…}}}

The file says which steps are done; each step may be repeated, so a crash between a step and its mark costs one
repetition. It is local, as the locks are: whoever goes on with an onboarding does so where it was begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from cdc_assets import settings
from cdc_assets.durable_file import read_json, replace_json
from cdc_assets.resources.table_lock import table_lock

Route = Literal["incremental", "blocking", "temporary", "offboard"]
Facts = dict[str, Any]


@dataclass
class Onboarding:
    """One run: which tables by which route, and per step what it found; `current` has begun and is not done."""

    id: str
    source: str
    route: Route
    tables: tuple[str, ...]
    began_at: str
    done: dict[str, Facts] = field(default_factory=dict)
    current: str | None = None
    watched: bool = False
    """What others apply from git is waited for."""

    def fact(self, step: str, name: str) -> Any:
        """What a step that is done has found."""
        return self.done[step][name]


@dataclass
class Journal:
    """The file of one source."""

    path: Path
    running: Onboarding | None = None
    finished: dict[str, Facts] = field(default_factory=dict)

    @classmethod
    def of(cls, source: str) -> Journal:
        """Read, or empty where there is none."""
        path = settings.home() / "onboarding" / f"{source}.json"
        data = read_json(path) or {"running": None, "finished": {}}
        running = data["running"]
        if running is not None:
            running = Onboarding(**{**running, "tables": tuple(running["tables"])})
        return cls(path, running, data["finished"])

    def save(self) -> None:
        """Replace the file; it is whole, old or new, after a crash at any moment."""
        data = {"running": None if self.running is None else asdict(self.running), "finished": self.finished}
        replace_json(self.path, data)


@contextmanager
def only_one(source: str) -> Iterator[None]:
    """Hold the source's onboarding for the block: two at once would restart the connector under each other."""
    with table_lock("onboarding", source, "connector", deadline=1.0):
        yield
