"""The versions of Delta tables that cuts name, opened; and what is wrong with a source's kept cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from cdc_assets.cuts.cut_manifest import CutEntry, CutManifest
from cdc_assets.errors import CutError
from spark.delta.delta_rs import open_delta

LATE = 1.5
"""The newest cut may be older than the declared time by half of it: a run takes its time, too."""


def open_entry(path: str, entry: CutEntry) -> Any:
    """The table that lies at the path, opened by delta-rs at the version.

    Raises:
        CutError: the version is gone, or another table lies there now.
    """
    from deltalake.exceptions import DeltaError

    place = f"{entry.path} at version {entry.version}"
    try:
        found = open_delta(path, version=entry.version)
    except (DeltaError, OSError) as error:
        raise CutError(f"{place} cannot be read any more: {str(error)[:300]}; make another cut: cdc cut make") from error
    if str(found.metadata().id) != entry.table_id:
        raise CutError(f"{place} is of another table: that was made anew since; make another cut: cdc cut make")
    return found


def what_is_wrong(lake: str, cuts: Sequence[CutManifest], every: timedelta, now: datetime) -> Iterator[str]:
    """Sentences; none where the newest cut is young enough, and it and the oldest can be read."""
    if not cuts:
        yield "no cut is kept yet"
        return
    age = now - cuts[0].made_at
    if age > every * LATE:
        yield f"{cuts[0].cut} is the newest, {age.total_seconds() / 60:.0f} min old; one is declared each {every}"
    for cut in dict.fromkeys((cuts[0].cut, cuts[-1].cut)):
        found = next(each for each in cuts if each.cut == cut)
        for entry in found.entries:
            try:
                open_entry(f"{lake.rstrip('/')}/{entry.path}", entry)
            except CutError as error:
                yield f"{cut}: {error}"
