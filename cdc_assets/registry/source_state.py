"""What this machine remembers of a source: one file below CDC_HOME, a section for each part of the program that remembers.

    <CDC_HOME>/source-state/<source>.json    {"<section>": …}; whole, old or new, after a crash at any moment

One process at a time writes it. `cdc remove` removes it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import make_private_folder, read_json, replace_json
from cdc_assets.registry.errors import CdcAssetsError


@dataclass(frozen=True)
class SourceState:
    """One section of a source's file; what it holds is JSON, and None where nothing was remembered."""

    source: str
    section: str

    @property
    def file(self) -> Path:
        """The file of all sections of the source."""
        return state_file(self.source)

    def read(self) -> Any:
        """What was written last.

        Raises:
            CdcAssetsError: the file is no JSON, or has another format.
        """
        return _sections(self.source).get(self.section)

    def write(self, remembered: Any) -> None:
        """Replace what is remembered; None forgets it. Other sections stay as they are."""
        self.change(lambda _: remembered)

    def change(self, new_of_old: Callable[[Any], Any]) -> None:
        """Replace what is remembered by what the function makes of it; no other process writes the file meanwhile."""
        with _writing(self.file):
            sections = _sections(self.source)
            before = sections.pop(self.section, None)
            after = new_of_old(before)
            if after is not None:
                sections[self.section] = after
            if after != before:
                replace_json(self.file, sections)


def state_file(source: str) -> Path:
    """Where all that is remembered of a source stands."""
    return settings.home() / "source-state" / f"{source}.json"


def forget_source(source: str) -> None:
    """Remove all that is remembered of a source."""
    file = state_file(source)
    if file.is_file():
        with _writing(file):
            file.unlink(missing_ok=True)


def _sections(source: str) -> dict[str, Any]:
    file = state_file(source)
    try:
        return dict(read_json(file) or {})
    except (OSError, ValueError) as error:
        # Taken for empty, it would turn red checks green.
        raise CdcAssetsError(
            f"{file} cannot be read: {error}; put it back, or remove it and compare every row: cdc reconcile {source}"
        ) from error


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    # A lock of its own: the file itself is replaced, and a lock on the old one would hold nobody off.
    make_private_folder(file.parent)
    descriptor = os.open(file.parent / f".{file.stem}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
