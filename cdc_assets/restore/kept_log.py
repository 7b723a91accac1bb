"""The source's log, kept from where its backup ends (`backup.keep_log`): it moves on with the backup, and a restore begins there.

A backup run looks where the connector's own place is, and where the topics end by then; all before that place lies before those
ends (ADR 40). Once the backup has them, it says so, and lets the log before that place go:

    place ─▶ ends of the topics ─▶ the backup has them ─▶ an entry says "all before the place" ─▶ the kept log moves there

So the kept log never begins behind what the newest entry says, wherever a run is killed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from cdc_assets import names, settings
from cdc_assets.backup import backup_position
from cdc_assets.backup.platform import PlatformEntry, PlatformState, look_at_platform, newest_part, write_state
from cdc_assets.durable_file import read_json, replace_json
from cdc_assets.errors import CaughtUpTimeoutError
from cdc_assets.identity.memory import Known, Memory
from cdc_assets.kinds import kind_of
from cdc_assets.quarantine.given_up import records_given_up
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import topics_to_lake

_MIRROR_SECONDS = 10.0
# Topics that were made again meanwhile never come to the ends that were noted.
_NOTE_AGAIN_SECONDS = 24 * 3600.0


class KeptLog(Protocol):
    """A place of a server's log from which the server keeps it. Places are numbers."""

    def place(self) -> int | None:
        """Where it is; None: the server keeps none for us, or has lost it."""

    def connector_place(self) -> int | None:
        """All before it has been captured, and is in the topics; None: nothing has been captured yet."""

    def begin(self) -> None:
        """Let the server keep the log from the connector's place on."""

    def move_on(self, place: int) -> None:
        """Let the log before the place go."""

    def end(self) -> None:
        """Let all of it go."""

    def offsets(self, offsets: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        """The connector's offsets, brought to its place."""

    def what_is_wrong(self, platform: Platform, offsets: tuple[Mapping[str, Any], ...], known: Known | None) -> str:
        """Why a connector must not go on from there; empty: it may. `known`: the server, where nobody here remembers it."""

    def hand_over(self, platform: Platform) -> None:
        """Let the connector, which does not run, go on from there."""


@dataclass(frozen=True)
class _Awaited:
    """A place that the backup has everything before, once it has the lake's topics up to `ends`; `at`: seconds since 1970."""

    place: int
    ends: Mapping[str, Mapping[int, int]]
    at: float


def keep_platform(platform: Platform, source: BaseSource, store: ObjectStore) -> PlatformEntry | None:
    """Write what the backup needs besides data, and let the kept log move on; the entry, where something has changed.

    Raises:
        CdcAssetsError: Connect, a cluster, the database or the store cannot be asked.
    """
    log, known = _log_of(source), {"server": _server_of(source), "given_up": records_given_up(platform.lake, source)}
    said = newest_part(store, source.name, "kept_log") if log is not None else {}
    if log is None or source.backup is None or not source.backup.keep_log:
        if log is not None and said:
            log.end()
        return write_state(store, source.name, look_at_platform(platform, source, **known))
    there = log.place() is not None
    told = {"place": place} if there and (place := _place_reached(platform, source, store, log) or said.get("place")) else {}
    entry = write_state(store, source.name, look_at_platform(platform, source, kept_log=told, **known))
    if told:
        log.move_on(told["place"])
    elif not there and log.connector_place() is not None:
        _file(source).unlink(missing_ok=True)
        log.begin()
    return entry


def find_kept_log(source: CapturedSource, kept: PlatformState) -> KeptLog | None:
    """The log, if the server has all of it that is behind the backup; None where it has not, or is not asked to."""
    log, said = _log_of(source), kept.kept_log.get("place")
    at = log.place() if log is not None else None
    return log if at is not None and said is not None and at <= said else None


def _server_of(source: BaseSource) -> dict[str, Any]:
    known = Memory.of(source.name).known
    return {} if known is None else {"system": known.system, "timeline": known.timeline, "at": known.at}


def _log_of(source: BaseSource) -> KeptLog | None:
    part = kind_of(source).kept_log
    found: KeptLog | None = part.load()(source) if part else None
    return found


def _place_reached(platform: Platform, source: BaseSource, store: ObjectStore, log: KeptLog) -> int | None:
    """A place that the backup has come to since the last look."""
    file = _file(source)
    awaited = _read(file)
    if awaited is None or time.time() - awaited.at > _NOTE_AGAIN_SECONDS:
        if (awaited := _look(platform, source, log)) is None:
            return None
        replace_json(file, asdict(awaited))
    if not all(_has(platform, source, store, topic, ends) for topic, ends in awaited.ends.items()):
        return None
    file.unlink()
    return awaited.place


def _look(platform: Platform, source: BaseSource, log: KeptLog) -> _Awaited | None:
    place = log.connector_place()
    if place is None:
        return None
    try:
        ends = topics_to_lake(platform, source, time.monotonic() + _MIRROR_SECONDS)
    except CaughtUpTimeoutError:  # the mirror is behind; the next run looks again
        return None
    return _Awaited(place, ends, time.time())


def _has(platform: Platform, source: BaseSource, store: ObjectStore, topic: str, ends: Mapping[int, int]) -> bool:
    """Whether the backup has all records of the topic before its ends. A range without records makes no manifest."""
    table = next(each for each in source.tables if names.lake_topic(source, each) == topic)
    copied = backup_position(store, source=source.name, table=names.table_name(table))
    if all(copied.positions.get(p, 0) >= end for p, end in ends.items()):
        return True
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    bronze = committed.topics.get(topic) if committed else None
    if bronze is None or any(bronze.positions.get(p, 0) < end for p, end in ends.items()):
        return False
    return bronze.records_ahead_of(copied) <= 0


def _read(file: Path) -> _Awaited | None:
    said = read_json(file)
    if said is None:
        return None
    ends = {topic: {int(p): end for p, end in at.items()} for topic, at in said["ends"].items()}
    return _Awaited(said["place"], ends, said["at"])


def _file(source: BaseSource) -> Path:
    return settings.home() / "kept-logs" / f"{source.name}.json"
